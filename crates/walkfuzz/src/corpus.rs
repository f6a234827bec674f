//! `walkfuzz corpus`: findings kept as files, and whether they still do what they did. The files and the rules are in `walkfuzz_triage::corpus`.

mod add;
pub(crate) mod args;
mod capsule;
mod check;
mod settle;
mod try_on;

use crate::corpus::args::CorpusCommand;
use crate::failure::Failure;

pub(crate) fn run(command: &CorpusCommand) -> Result<(), Failure> {
    match command {
        CorpusCommand::Check(args) => check::run(args),
        CorpusCommand::Add(args) => add::run(args),
    }
}
