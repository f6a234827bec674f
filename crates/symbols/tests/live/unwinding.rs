//! Unwinding over this program's own tables. The stack is made up: each function is entered and has not moved sp yet, so that its return
//! address is where sp points. Real stacks are unwound by the tests of `walkfuzz-harness`.
#![cfg(target_arch = "x86_64")]

use walkfuzz_context::{Address, Arch, Registers};
use walkfuzz_symbols::{FRAME_LIMIT, Modules, unwind};

#[inline(never)]
fn inner(text: &str) -> String {
    text.repeat(3)
}

#[inline(never)]
fn middle(text: &str) -> String {
    inner(text) + text
}

#[inline(never)]
fn outer(text: &str) -> String {
    middle(text) + text
}

const SP: u64 = 0x7000_0000_1000;

fn entered(function: u64) -> Registers {
    let mut registers = Registers::zeroed(Arch::X86_64);
    registers.set(Arch::X86_64.pc(), function);
    registers.set(Arch::X86_64.sp(), SP);
    registers
}

/// A stack that holds these words from `SP` on.
fn stack(words: &[u64]) -> impl FnMut(Address) -> Option<u64> {
    |at| {
        let slot = at.0.checked_sub(SP)? / 8;
        words.get(usize::try_from(slot).ok()?).copied()
    }
}

fn entries() -> [u64; 3] {
    [inner, middle, outer].map(|function: fn(&str) -> String| function as *const () as u64)
}

fn names(words: &[u64], last: &str) -> Vec<String> {
    let modules = Modules::of_this_process().unwrap();
    let frames = unwind(&modules, &entered(entries()[0]), stack(words), |frame| {
        frame.short.as_deref() == Some(last)
    });
    let short = |frame: &walkfuzz_symbols::SymbolisedPc| frame.site();
    frames.iter().map(short).collect()
}

#[test]
fn callers_are_found_by_the_modules_tables() {
    let [_, middle, outer] = entries();
    // A return address is one behind the call's last byte.
    let all = ["inner", "middle", "outer"].map(|name| format!("live::unwinding::{name}"));
    assert_eq!(names(&[middle + 1, outer + 1, 0], "none"), all);
    assert_eq!(names(&[middle + 1, outer + 1], "none"), all);
    assert_eq!(
        names(&[middle + 1, outer + 1, 0], "live::unwinding::middle"),
        all[..2]
    );
}

#[test]
fn a_return_address_is_shown_as_it_is_and_named_by_its_call() {
    let [inner, middle, _] = entries();
    let modules = Modules::of_this_process().unwrap();
    let frames = unwind(
        &modules,
        &entered(inner + 1),
        stack(&[0, middle + 1, 0]),
        |_| false,
    );
    assert_eq!((frames[0].pc, frames[0].offset), (inner + 1, 1));
    let frames = unwind(&modules, &entered(inner), stack(&[middle + 1, 0]), |_| {
        false
    });
    assert_eq!((frames[1].pc, frames[1].offset), (middle + 1, 1));
    assert_eq!(
        frames[1].module_offset,
        modules
            .symbolise(walkfuzz_context::Pc(middle + 1))
            .module_offset
    );
}

#[test]
fn it_ends_where_nothing_is_known() {
    let [_, middle, outer] = entries();
    let one = ["live::unwinding::inner".to_owned()];
    assert_eq!(names(&[], "none"), one, "an unreadable stack");
    assert_eq!(names(&[0x10, middle + 1], "none"), one, "no module");
    let endless = [middle + 1, outer + 1].repeat(FRAME_LIMIT);
    assert_eq!(names(&endless, "none").len(), FRAME_LIMIT);
    assert_eq!(names(&[0xdead_beef_0000_0000], "none"), one);
    let nowhere = Modules::default();
    assert!(unwind(&nowhere, &entered(middle), stack(&[]), |_| false).is_empty());
}
