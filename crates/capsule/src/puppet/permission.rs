//! Why the kernel does not let a process trace its own child, and what to do about it.

use std::io;
use std::path::Path;

/// Where Yama, if the kernel has it, says who may trace whom.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";
const STATUS: &str = "/proc/self/status";

/// In words, for this process.
pub(crate) fn why(error: &io::Error) -> String {
    sentence(error, Path::new(YAMA), Path::new(STATUS))
}

/// As these files have it. (`man 2 ptrace`, `man 5 proc`.)
fn sentence(error: &io::Error, yama: &Path, status: &Path) -> String {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let scope = std::fs::read_to_string(yama)
        .ok()
        .and_then(|text| number(&text));
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let mut lines = status.lines();
    let filter = lines.find_map(|line| number(line.strip_prefix("Seccomp:")?));
    match (scope, filter) {
        (Some(3), _) => "kernel.yama.ptrace_scope is 3, which forbids it until the machine starts again: put a lower value into /etc/sysctl.d and \
             restart"
            .to_owned(),
        (Some(2), _) => "kernel.yama.ptrace_scope is 2, which keeps it for those with CAP_SYS_PTRACE: sysctl kernel.yama.ptrace_scope=1, or run \
             as root"
            .to_owned(),
        (_, Some(2)) => format!(
            "a seccomp filter refuses it ({error}), as in a container: start the container with --cap-add=SYS_PTRACE, or with a seccomp profile \
             that permits ptrace"
        ),
        _ => format!(
            "the kernel refuses it ({error}): another debugger, or a security module's rule for this program, may be the cause"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (yama, status) = (folder.path().join("scope"), folder.path().join("status"));
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let said = |scope: Option<&str>, seccomp: &str| {
            match scope {
                Some(scope) => std::fs::write(&yama, scope).unwrap(),
                None => {
                    let _ = std::fs::remove_file(&yama);
                }
            }
            let text =
                format!("Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n");
            std::fs::write(&status, text).unwrap();
            sentence(&error, &yama, &status)
        };
        for (scope, seccomp, has, cure) in [
            (Some("3\n"), "2", "ptrace_scope is 3", "/etc/sysctl.d"),
            (Some("2\n"), "0", "ptrace_scope is 2", "ptrace_scope=1"),
            // Scope 1 lets a process trace its children.
            (
                Some("1\n"),
                "2",
                "a seccomp filter refuses it",
                "--cap-add=SYS_PTRACE",
            ),
            (
                None,
                "2",
                "a seccomp filter refuses it",
                "--cap-add=SYS_PTRACE",
            ),
            (
                Some("1\n"),
                "0",
                "Operation not permitted",
                "another debugger",
            ),
            (None, "0", "Operation not permitted", "another debugger"),
            (
                Some("nonsense"),
                "",
                "Operation not permitted",
                "security module",
            ),
        ] {
            let said = said(scope, seccomp);
            assert!(said.contains(has) && said.contains(cure), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
