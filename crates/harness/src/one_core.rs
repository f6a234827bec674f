//! Work of a process and a child that take turns: on two cores each turn would wait for the other core to wake.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Does `work` on the core that the calling thread is on, with the children that it starts; afterwards the thread has all its cores
/// again. Where cores cannot be chosen, it is done all the same.
pub fn on_one_core<T>(work: impl FnOnce() -> T) -> T {
    let me = Pid::from_raw(0);
    let all = sched_getaffinity(me).ok();
    let mut one = CpuSet::new();
    let chosen = sched_getcpu().and_then(|core| one.set(core));
    if all.is_some() && chosen.is_ok() {
        // Slower without it, not wrong.
        let _ = sched_setaffinity(me, &one);
    }
    let done = work();
    if let Some(all) = all {
        let _ = sched_setaffinity(me, &all);
    }
    done
}
