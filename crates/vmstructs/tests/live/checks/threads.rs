//! The list of threads against the C library, the kernel and JNI.

use std::path::Path;

use walkfuzz_context::Address;
use walkfuzz_vmstructs::{
    JavaThread, LiveMemory, Maps, Memory, ThreadState, Tid, Zones, java_threads,
    jni_environment_offset,
};

use super::Context;

pub(crate) fn own_tid() -> Tid {
    // SAFETY: no preconditions.
    Tid(unsafe { libc::gettid() })
}

pub(crate) fn check(context: &Context<'_>) {
    let (threads, skipped) = java_threads(context.hotspot, context.memory).expect("threads");
    assert!(
        threads.len() >= 5 && skipped <= 2,
        "{} threads, {skipped} skipped",
        threads.len()
    );
    for thread in &threads {
        assert!(
            Path::new(&format!("/proc/self/task/{}", thread.tid.0)).exists(),
            "{thread:?}"
        );
        assert!(
            !matches!(
                thread.state,
                ThreadState::Unknown(_) | ThreadState::Uninitialized
            ),
            "{thread:?}"
        );
    }
    let own = threads
        .iter()
        .find(|thread| thread.tid == own_tid())
        .expect("this thread");
    own_thread(context, own);
    zones(context, &threads, own);
}

fn own_thread(context: &Context<'_>, own: &JavaThread) {
    assert_eq!(
        own.state,
        ThreadState::InNative,
        "this thread is in native code"
    );
    assert_eq!(own.state.name(), "_thread_in_native");
    // SAFETY: no preconditions.
    assert_eq!(own.pthread, unsafe { libc::pthread_self() });
    let (low, high, guard) = pthread_stack();
    assert_eq!(own.stack.end, Address(high), "stack base");
    // Older JDKs leave as much as the guard out once more.
    assert!(
        (low..=low + guard).contains(&own.stack.start.0),
        "{own:?} {low:#x} {guard:#x}"
    );
    let local = 0_u8;
    assert!(own.stack.contains(Address(&raw const local as u64)));
    let env = context.jvm.env().address();
    assert_eq!(own.jni_environment, Some(Address(env)));
    assert_eq!(
        jni_environment_offset(context.hotspot, context.memory, own.address),
        Some(env - own.address.0)
    );
}

/// Lowest address, end, and guard size, as the C library has them.
fn pthread_stack() -> (u64, u64, u64) {
    // SAFETY: the attributes are written by pthread_getattr_np before they are read, and destroyed once.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(
            libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes),
            0
        );
        let (mut address, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
        assert_eq!(
            libc::pthread_attr_getstack(&raw const attributes, &raw mut address, &raw mut size),
            0
        );
        assert_eq!(
            libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard),
            0
        );
        libc::pthread_attr_destroy(&raw mut attributes);
        (address as u64, address as u64 + size as u64, guard as u64)
    }
}

fn zones(context: &Context<'_>, threads: &[JavaThread], own: &JavaThread) {
    let sizes = context.hotspot.zone_sizes();
    assert_eq!(
        (sizes.red, sizes.yellow, sizes.reserved),
        (4096, 8192, 4096)
    );
    assert!(sizes.shadow >= 10 * 4096);
    let maps = Maps::read_own().unwrap();
    let mut guards = 0;
    for thread in threads {
        let zones = Zones::of(thread.stack, sizes);
        for zone in [zones.red, zones.yellow, zones.reserved] {
            let mapping = maps
                .find(zone.start)
                .unwrap_or_else(|| panic!("{zone} of {thread:?} is not mapped"));
            assert!(
                mapping.is_forbidden() && mapping.span.covers(&zone),
                "{zone} of {thread:?} in {mapping:?}"
            );
            assert!(
                context.memory.read_u8(zone.start).is_err(),
                "a forbidden page was read"
            );
            assert!(
                LiveMemory::without_process_vm_readv()
                    .read_u8(zone.start)
                    .is_err(),
                "a forbidden page was read"
            );
        }
        let above = maps
            .find(zones.all().end)
            .expect("the stack above the zones");
        assert!(
            above.readable && above.writable,
            "{above:?} above the zones of {thread:?}"
        );
        guards += usize::from(Zones::native_guard(thread.stack, &maps).is_some());
    }
    let (low, _, guard) = pthread_stack();
    let found = Zones::native_guard(own.stack, &maps);
    // The C library's own bounds leave its guard out.
    assert_eq!(
        found.map(|found| found.end),
        Some(Address(low)),
        "own guard"
    );
    println!(
        "  {} threads, zones of all forbidden, {guards} with a native guard (own: {guard} bytes, found {found:?})",
        threads.len()
    );
}
