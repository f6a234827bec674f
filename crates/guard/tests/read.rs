//! Reads of memory that may not be there.

mod common;

use common::{arch, pages};
use walkfuzz_context::Address;
use walkfuzz_guard::{Guard, GuardOptions, Unreadable, read_checked, read_word};

#[test]
fn reads_what_is_there_and_reports_what_is_not() {
    // No registration: any thread may read.
    Guard::install(GuardOptions::default()).unwrap();
    let base = pages(2, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the test's own pages.
    unsafe {
        for i in 0..4096u64 {
            ((base + i) as *mut u8).write((i % 251) as u8);
        }
        libc::mprotect((base + 4096) as *mut _, 4096, libc::PROT_NONE);
    }
    let mut into = [0u8; 64];
    for length in 0..=64usize {
        let start = base + 4096 - length as u64;
        into.fill(0xee);
        read_checked(Address(start), &mut into[..length]).unwrap();
        for (i, byte) in into[..length].iter().enumerate() {
            assert_eq!(u64::from(*byte), (4096 - length as u64 + i as u64) % 251);
        }
        assert!(into[length..].iter().all(|&byte| byte == 0xee));
        // One byte further is one too many.
        if length > 0 {
            let start = Address(start + 1);
            assert_eq!(
                read_checked(start, &mut into[..length]),
                Err(Unreadable {
                    address: start,
                    length
                })
            );
        }
    }
    let word = read_word(Address(base + 3)).unwrap();
    assert_eq!(word.to_ne_bytes(), [3, 4, 5, 6, 7, 8, 9, 10]);
    for address in [
        0,
        8,
        base + 4089,
        base + 4096,
        arch::NON_CANONICAL,
        u64::MAX - 7,
        u64::MAX,
    ] {
        assert!(read_word(Address(address)).is_err(), "{address:#x}");
        assert!(
            read_checked(Address(address), &mut into).is_err(),
            "{address:#x}"
        );
        assert!(
            read_checked(Address(address), &mut into[..3]).is_err() || address == base + 4089,
            "{address:#x}"
        );
    }
}

#[test]
fn inside_a_guarded_call_it_is_no_fault() {
    let slot = common::guarded_thread();
    let before = (slot.recoveries(), slot.near_misses());
    let mut failed = false;
    assert_eq!(
        common::attempt_closure(slot, &mut || failed = read_word(Address(8)).is_err()),
        None
    );
    assert!(failed);
    assert_eq!((slot.recoveries(), slot.near_misses()), before);
}

#[test]
fn error_says_where() {
    let error = Unreadable {
        address: Address(0x1000),
        length: 8,
    };
    assert_eq!(error.to_string(), "cannot read 8 bytes at 0x1000");
}
