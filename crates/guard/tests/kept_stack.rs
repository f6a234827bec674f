//! The stack of a call that was given up is kept where somebody asked for it.

mod common;

use std::hint::black_box;

use common::{assert_signal, attempt, attempt_closure, guarded_thread, load};
use libc::{c_int, c_void};
use walkfuzz_context::Address;
use walkfuzz_guard::{keep_stacks, kept_stack};

const MARKER: u64 = 0x5eed_0000_cafe_0000;

/// Fills a frame, then faults.
#[inline(never)]
fn fill_and_fault() {
    let frame: [u64; 64] = std::array::from_fn(|index| MARKER + index as u64);
    let frame = black_box(frame);
    black_box(load(black_box(8)) + frame[3]);
}

/// Overwrites whatever the callee left.
#[inline(never)]
fn overwrite() {
    black_box([0_u64; 4096]);
}

/// Faults with an sp that points nowhere.
unsafe extern "C" fn lost_sp(_: *mut c_void, _: c_int, _: *mut c_void) {
    // SAFETY: crashes, as it should; the recovery puts sp back.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov rsp, 8", "mov rax, [rsp]", options(noreturn));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mov x9, 16",
            "mov sp, x9",
            "ldr x9, [sp]",
            options(noreturn)
        );
    }
}

#[test]
fn the_callees_frames_outlive_it() {
    let slot = guarded_thread();
    assert_signal(attempt_closure(slot, &mut fill_and_fault), libc::SIGSEGV);
    assert!(kept_stack().is_none(), "nobody asked");

    keep_stacks(Box::leak(vec![0; 64 << 10].into_boxed_slice()));
    assert!(kept_stack().is_none(), "no fault yet");
    let fault = assert_signal(attempt_closure(slot, &mut fill_and_fault), libc::SIGSEGV);
    overwrite();
    let kept = kept_stack().expect("a kept stack");
    let sp = fault.sp().0;
    let word = |slot: u64| kept.word(Address(sp + slot * 8));
    let first = (0..1024)
        .find(|&slot| word(slot) == Some(MARKER))
        .expect("the frame");
    for index in 0..64 {
        assert_eq!(word(first + index), Some(MARKER + index));
    }
    assert_eq!(kept.word(Address(sp - 8)), None);
    assert_eq!(kept.word(Address(sp + (64 << 10))), None);
    assert_eq!(kept.word(Address(u64::MAX)), None);

    // A smaller room holds the innermost frames.
    keep_stacks(Box::leak(vec![0; 64].into_boxed_slice()));
    let fault = assert_signal(attempt_closure(slot, &mut fill_and_fault), libc::SIGSEGV);
    let kept = kept_stack().expect("a kept stack");
    assert!(kept.word(Address(fault.sp().0 + 56)).is_some());
    assert_eq!(kept.word(Address(fault.sp().0 + 64)), None);

    // What cannot be read is not kept, and is no second fault.
    let fault = assert_signal(attempt(slot, lost_sp, 0, 0, 0), libc::SIGSEGV);
    assert!(fault.sp().0 < 4096);
    assert!(kept_stack().is_none());
}
