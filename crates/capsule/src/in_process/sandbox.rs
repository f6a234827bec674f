//! What the child may ask of the kernel: to return from a signal handler, and to end. Anything else traps and does not happen.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The filter, ready to be taken.
pub(crate) fn filter() -> Result<BpfProgram, String> {
    let arch = if cfg!(target_arch = "aarch64") {
        TargetArch::aarch64
    } else {
        TargetArch::x86_64
    };
    let allowed = [libc::SYS_rt_sigreturn, libc::SYS_exit_group, libc::SYS_exit];
    let rules: BTreeMap<_, _> = allowed
        .into_iter()
        .map(|number| (number, Vec::new()))
        .collect();
    SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}
