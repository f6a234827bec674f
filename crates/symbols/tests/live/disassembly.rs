//! Instruction boundaries, frame facts and text.

use proptest::prelude::*;
use walkfuzz_context::{Arch, Pc};
use walkfuzz_symbols::InstructionKind::{self, *};
use walkfuzz_symbols::{InstructionMap, SymbolTable, around, instruction_at};

use crate::jdks;

const X86: Arch = Arch::X86_64;
const ARM: Arch = Arch::Aarch64;

fn x86(bytes: &[u8]) -> (InstructionKind, i32) {
    let map = InstructionMap::of(X86, bytes, Pc(0x1000));
    assert!(map.clean(), "{bytes:x?}");
    assert_eq!(map.instructions().len(), 1, "{bytes:x?}");
    (map.instructions()[0].kind, map.instructions()[0].sp_delta)
}

fn arm(word: u32) -> (InstructionKind, i32) {
    let map = InstructionMap::of(ARM, &word.to_le_bytes(), Pc(0x1000));
    (map.instructions()[0].kind, map.instructions()[0].sp_delta)
}

#[test]
fn x86_frame_instructions() {
    for (bytes, expected) in [
        (&[0x55][..], (PushFp, -8)),
        (&[0x5d], (PopFp, 8)),
        (&[0x50], (Push, -8)),
        (&[0x41, 0x57], (Push, -8)),
        (&[0x6a, 0x01], (Push, -8)),
        (&[0x9c], (Push, -8)),
        (&[0x58], (Pop, 8)),
        (&[0x48, 0x83, 0xec, 0x10], (SubSp(16), -16)),
        (
            &[0x48, 0x81, 0xec, 0x20, 0x01, 0, 0],
            (SubSp(0x120), -0x120),
        ),
        (&[0x48, 0x83, 0xc4, 0x10], (AddSp(16), 16)),
        (&[0x48, 0x83, 0xc4, 0x80], (AddSp(-128), -128)),
        (&[0x48, 0x8d, 0x64, 0x24, 0xf0], (SubSp(16), -16)),
        (&[0x48, 0x8d, 0x64, 0x24, 0x10], (AddSp(16), 16)),
        (&[0x48, 0x8d, 0x65, 0xd8], (MovSpFp, 0)),
        (&[0x48, 0x89, 0xe5], (MovFpSp, 0)),
        (&[0x48, 0x8b, 0xec], (MovFpSp, 0)),
        (&[0x48, 0x8b, 0xe5], (MovSpFp, 0)),
        (&[0x48, 0x89, 0x6c, 0x24, 0x10], (SaveFp, 0)),
        (&[0x48, 0x8b, 0x6c, 0x24, 0x10], (RestoreFp, 0)),
        (&[0xc3], (Ret, 0)),
        (&[0xc2, 0x08, 0x00], (Ret, 0)),
        (&[0xe8, 0, 0, 0, 0], (Call, 0)),
        (&[0xff, 0xd0], (Call, 0)),
        (&[0xc9], (Leave, 0)),
        (&[0x90], (Other, 0)),
        (&[0x48, 0x83, 0xe8, 0x10], (Other, 0)),
        (&[0xeb, 0x00], (Other, 0)),
    ] {
        assert_eq!(x86(bytes), expected, "{bytes:x?}");
    }
}

#[test]
fn aarch64_frame_instructions() {
    for (word, expected) in [
        (0xa9be_7bfd, (PushFp, -32)),  // stp x29, x30, [sp, #-32]!
        (0xa8c2_7bfd, (PopFp, 32)),    // ldp x29, x30, [sp], #32
        (0xa901_7bfd, (SaveFp, 0)),    // stp x29, x30, [sp, #16]
        (0xa941_7bfd, (RestoreFp, 0)), // ldp x29, x30, [sp, #16]
        (0xa9bf_53f3, (Push, -16)),    // stp x19, x20, [sp, #-16]!
        (0xa8c1_53f3, (Pop, 16)),      // ldp x19, x20, [sp], #16
        (0xf81f_0ffe, (Push, -16)),    // str x30, [sp, #-16]!
        (0xf841_07fe, (Pop, 16)),      // ldr x30, [sp], #16
        (0xd100_83ff, (SubSp(32), -32)),
        (0x9100_83ff, (AddSp(32), 32)),
        (0xd140_07ff, (SubSp(4096), -4096)), // sub sp, sp, #1, lsl #12
        (0x9100_03fd, (MovFpSp, 0)),         // mov x29, sp
        (0x9100_43fd, (MovFpSp, 0)),         // add x29, sp, #16
        (0x9100_03bf, (MovSpFp, 0)),         // mov sp, x29
        (0xd65f_03c0, (Ret, 0)),
        (0xd65f_0bff, (Ret, 0)), // retaa
        (0x9400_0001, (Call, 0)),
        (0xd63f_0100, (Call, 0)),  // blr x8
        (0x1400_0001, (Other, 0)), // b
        (0xd61f_0100, (Other, 0)), // br x8
        (0xd503_201f, (Other, 0)), // nop
        (0xf100_83ff, (Other, 0)), // cmp sp, #32
    ] {
        assert_eq!(arm(word), expected, "{word:#x}");
    }
}

#[test]
fn texts() {
    let x86 = |bytes: &[u8]| instruction_at(X86, bytes, Pc(0x1000));
    assert_eq!(x86(&[0x8b, 0x07]).as_deref(), Some("mov (%rdi),%eax"));
    assert_eq!(
        x86(&[0x48, 0x8b, 0x40, 0x08]).as_deref(),
        Some("mov 0x8(%rax),%rax")
    );
    assert_eq!(x86(&[0xeb, 0x10]).as_deref(), Some("jmp 0x1012"));
    assert_eq!(x86(&[0x06]), None);
    assert_eq!(x86(&[]), None);
    assert_eq!(x86(&[0x48]), None);

    let arm = |word: u32| instruction_at(ARM, &word.to_le_bytes(), Pc(0x1000));
    assert_eq!(arm(0xb940_0000).as_deref(), Some("ldr w0, [x0]"));
    assert_eq!(
        arm(0xa9be_7bfd).as_deref(),
        Some("stp x29, x30, [sp, #-0x20]!")
    );
    assert_eq!(arm(0xd65f_03c0).as_deref(), Some("ret"));
    assert_eq!(arm(0x9400_0004).as_deref(), Some("bl 0x1010"));
    assert_eq!(instruction_at(ARM, &[0, 0, 0], Pc(0)), None);
}

#[test]
fn around_a_pc() {
    // push %rbp; mov %rsp,%rbp; mov (%rdi),%eax; pop %rbp; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x8b, 0x07, 0x5d, 0xc3];
    let texts =
        |lines: Vec<walkfuzz_symbols::Line>| lines.into_iter().map(|l| l.text).collect::<Vec<_>>();
    let lines = around(X86, &code, Pc(0x1000), Pc(0x1004), 1);
    assert_eq!(lines[1].address, Pc(0x1004));
    assert_eq!(lines[1].bytes, [0x8b, 0x07]);
    assert_eq!(
        texts(lines),
        ["mov %rsp,%rbp", "mov (%rdi),%eax", "pop %rbp"]
    );
    // The first byte is the tail of an instruction: decoding gets into step by itself.
    let lines = texts(around(X86, &code[2..], Pc(0x1002), Pc(0x1004), 3));
    assert!(lines.contains(&"mov (%rdi),%eax".to_owned()), "{lines:?}");
    assert!(around(X86, &code, Pc(0x1000), Pc(0x2000), 3).is_empty());
    assert!(around(X86, &code, Pc(0x1000), Pc(0xfff), 3).is_empty());
}

#[test]
fn boundaries() {
    let code = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x5d, 0xc3];
    let map = InstructionMap::of(X86, &code, Pc(0x1000));
    let at: Vec<_> = map
        .instructions()
        .iter()
        .map(|i| i.address.0 - 0x1000)
        .collect();
    assert_eq!(at, [0, 1, 4, 9, 10]);
    assert!(map.is_boundary(Pc(0x1004)) && !map.is_boundary(Pc(0x1005)));
    assert!(!map.is_boundary(Pc(0x100b)) && !map.is_boundary(Pc(0xfff)));
    assert_eq!(map.covering(Pc(0x1006)).unwrap().kind, Call);
    assert_eq!(map.before(Pc(0x1009)).unwrap().kind, Call);
    assert!(map.before(Pc(0x1008)).is_none() && map.before(Pc(0x1000)).is_none());
    assert!(map.covering(Pc(0x100b)).is_none());

    let broken = InstructionMap::of(X86, &[0x06, 0x55, 0xc3], Pc(0x1000));
    assert!(!broken.clean());
    assert_eq!(broken.at(Pc(0x1001)).unwrap().kind, PushFp);
}

#[test]
fn functions_of_a_real_libjvm_decode_without_a_gap() {
    for libjvm in jdks::libjvms() {
        let table = SymbolTable::load(&libjvm).unwrap();
        let (mut functions, mut instructions, mut frames) = (0, 0, 0);
        for prefix in [
            "_ZN5frame",
            "_ZN7nmethod",
            "_ZN17vframeStreamForte",
            "AsyncGetCallTrace",
        ] {
            for symbol in table.find_prefix(prefix).filter(|s| s.size > 0) {
                let Ok(code) = table.read(symbol.offset, symbol.size) else {
                    continue; // .bss
                };
                if !table
                    .text()
                    .any(|(start, len)| symbol.offset - start.min(symbol.offset) < len)
                {
                    continue;
                }
                let map = InstructionMap::of(table.arch(), &code, Pc(symbol.offset));
                if !map.clean() {
                    continue; // data in a read-only executable segment of an old linker
                }
                let last = map.instructions().last().unwrap();
                assert_eq!(
                    last.end().0,
                    symbol.offset + symbol.size,
                    "{}",
                    symbol.mangled
                );
                functions += 1;
                instructions += map.instructions().len();
                frames += usize::from(map.instructions().iter().any(|i| i.kind == PushFp));
            }
        }
        println!(
            "{}: {functions} functions, {instructions} instructions, {frames} with frames",
            libjvm.display()
        );
        assert!(functions > 100 && frames > 10);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_covered_exactly_once(code in proptest::collection::vec(any::<u8>(), 0..200), arm: bool, n in 0usize..6) {
        let arch = if arm { ARM } else { X86 };
        let map = InstructionMap::of(arch, &code, Pc(0x1000));
        let mut next = Pc(0x1000);
        for instruction in map.instructions() {
            prop_assert_eq!(instruction.address, next);
            next = instruction.end();
        }
        prop_assert_eq!(next.0, 0x1000 + code.len() as u64);
        for at in 0..code.len() {
            let lines = around(arch, &code, Pc(0x1000), Pc(0x1000 + at as u64), n);
            prop_assert!(lines.iter().any(|line| line.address.0 == 0x1000 + at as u64));
            prop_assert!(lines.len() <= 2 * n + 1);
        }
    }

    #[test]
    fn addresses_may_wrap(code in proptest::collection::vec(any::<u8>(), 0..40), below in 0u64..40, arm: bool) {
        let arch = if arm { ARM } else { X86 };
        let _ = InstructionMap::of(arch, &code, Pc(u64::MAX - below));
        let _ = around(arch, &code, Pc(u64::MAX - below), Pc(u64::MAX), 3);
    }
}
