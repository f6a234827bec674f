//! A made-up capsule, for tests and fuzzers of the format. Nobody can replay it.

use std::collections::BTreeMap;

use walkfuzz_context::{Address, Arch, Pc, Registers, Sp};

use crate::capsule::{
    Capsule, Content, Entry, Facts, FaultOutcome, FileFacts, FileMapping, Layout, Outcome, Page,
    PageBytes, Perturbed, Protection, SafeFetch, VERSION,
};
use crate::format::limits::PAGE;

pub(crate) const STACK: u64 = 0x7000_0000_0000;
pub(crate) const CODE: u64 = 0x7100_0000_0000;
pub(crate) const STUB: u64 = 0x6000_0000_0000;

/// A capsule with every kind of page.
#[must_use]
pub fn example() -> Capsule {
    let mut registers = Registers::zeroed(Arch::NATIVE);
    for (index, word) in (1..).zip(&mut registers.words) {
        *word = index * 0x1111;
    }
    // Those past the architecture's count are zero.
    for word in registers
        .words
        .iter_mut()
        .skip(Arch::NATIVE.register_count())
    {
        *word = 0;
    }
    let facts = Facts {
        version: VERSION,
        arch: Arch::NATIVE.name().to_owned(),
        page_size: PAGE,
        entry: Entry {
            function: Pc(CODE + 16),
            trace: Address(STACK),
            depth: 64,
            context: Address(STACK + 128),
            stack: Sp(STACK + 0xff8),
            thread: Address(STACK + 64),
            float_control: 0x1f80,
        },
        stub: Address(STUB),
        safefetch: vec![SafeFetch {
            fault: Pc(CODE + 1),
            continuation: Pc(CODE + 2),
        }],
        expected: Outcome::Fault(FaultOutcome {
            signal: 11,
            code: 1,
            address: Address(8),
            registers,
            near_misses: 2,
        }),
        files: vec![FileFacts {
            name: "libjvm.so".into(),
            identity: "abcd".into(),
            path: "/opt/jdk/lib/server/libjvm.so".into(),
            base: CODE,
            dynamic: CODE + 0x2000,
            mappings: vec![FileMapping {
                start: CODE,
                end: CODE + 3 * PAGE,
                offset: 0,
            }],
        }],
        shims: vec!["memcpy".into()],
        libc_code: "the walk runs libc.so.6+0x1234".into(),
        walker: "agct".into(),
        signature: "SIGSEGV|f|agct".into(),
        perturbation: "sp+=8".into(),
        perturbed: Some(Perturbed {
            untouched: registers,
            tier: "T4".into(),
            values: BTreeMap::from([("heap".into(), vec![0x1000, 0x2000])]),
        }),
        jvm: "17.0.15".into(),
        walkfuzz: "0".into(),
    };
    let bytes = |byte: u8| {
        let mut bytes: Box<PageBytes> = Box::new([0; PAGE as usize]);
        for at in [100, 4095] {
            if let Some(target) = bytes.get_mut(at) {
                *target = byte;
            }
        }
        bytes
    };
    let stack = |entry, outcome| Page {
        protection: Protection::new(true, true, false),
        entry,
        outcome,
    };
    let code = |entry| Page {
        protection: Protection::new(true, false, true),
        entry,
        outcome: None,
    };
    let pages = BTreeMap::from([
        (STACK - PAGE, stack(Content::Zero, Some(bytes(9)))),
        (STACK, stack(Content::Bytes(bytes(1)), Some(bytes(2)))),
        (STACK + PAGE, stack(Content::Bytes(bytes(3)), None)),
        (STACK + 2 * PAGE, stack(Content::Zero, None)),
        (CODE, code(Content::File { file: 0, offset: 0 })),
        (
            CODE + PAGE,
            code(Content::File {
                file: 0,
                offset: PAGE,
            }),
        ),
        (CODE + 2 * PAGE, code(Content::Bytes(bytes(0x90)))),
    ]);
    let mut layout = Layout::default();
    layout.push(STACK - 4 * PAGE..STACK - 2 * PAGE, Protection::NONE);
    layout.push(
        STACK - 2 * PAGE..STACK + 1000 * PAGE,
        Protection::new(true, true, false),
    );
    layout.push(CODE..CODE + 3 * PAGE, Protection::new(true, false, true));
    Capsule {
        facts,
        layout,
        pages,
        opinion: None,
    }
}
