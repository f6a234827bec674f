//! Whether the kernel has killed for want of memory.

/// How many processes the kernel has killed to free memory since it started, in any control group; zero before Linux 4.13, which
/// does not count them (`/proc/vmstat`).
pub(crate) fn kills() -> u64 {
    std::fs::read_to_string("/proc/vmstat").map_or(0, |vmstat| parse(&vmstat).unwrap_or(0))
}

fn parse(vmstat: &str) -> Option<u64> {
    let line = vmstat
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_the_kernels_count() {
        assert_eq!(parse("nr_free 7\noom_kill 3\noom_kill_other 9\n"), Some(3));
        assert_eq!(parse("nr_free 7\n"), None);
    }
}
