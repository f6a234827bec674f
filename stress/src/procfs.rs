//! What `/proc` says of a process and of those below it.

/// The end of a mapping's line that shows a JVM.
const LIBJVM: &str = "/lib/server/libjvm.so";

/// The mappings of a process, or of the first JVM below it; and whether they are a JVM's.
pub(crate) fn jvm_maps(pid: u32) -> (String, bool) {
    let read = |pid| {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&maps).into_owned()
    };
    let own = read(pid);
    if own.contains(LIBJVM) {
        return (own, true);
    }
    let mut below = children(pid);
    while let Some(pid) = below.pop() {
        let maps = read(pid);
        if maps.contains(LIBJVM) {
            return (maps, true);
        }
        below.extend(children(pid));
    }
    (own, false)
}

/// Resident bytes of a process and everything below it.
pub(crate) fn resident(pid: u32) -> u64 {
    let page = 4096;
    let own = std::fs::read_to_string(format!("/proc/{pid}/statm"))
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0)
        * page;
    own + children(pid).into_iter().map(resident).sum::<u64>()
}

/// The processes that a process started and that live.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found = Vec::new();
    for task in tasks {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(
            text.split_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    found
}
