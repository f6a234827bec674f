//! `walkfuzz bench`: comes next.
use crate::cli::BenchArgs;
use crate::failure::Failure;
pub(crate) fn run(_: &BenchArgs) -> Result<(), Failure> {
    Ok(())
}
