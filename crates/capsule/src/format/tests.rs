//! What is written can be read, and what is broken is said to be.

use proptest::prelude::*;
use walkfuzz_context::{Address, Pc, Sp};

use crate::capsule::*;
use crate::error::FormatError;
use crate::example::{CODE, STACK, STUB, example as sample};
use crate::format::limits::{self, PAGE};
use crate::format::notes::{put_opinion, take_opinion};
use crate::opinion::{KnownSymbol, Opinion, OpinionFacts};

#[test]
fn what_is_written_is_read() {
    let capsule = sample();
    let bytes = capsule.to_bytes().unwrap();
    assert_eq!(Capsule::from_bytes(&bytes).unwrap(), capsule);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wfcap");
    capsule.write(&path).unwrap();
    assert_eq!(Capsule::read(&path).unwrap(), capsule);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside it");
    assert!(matches!(
        Capsule::read(&folder.path().join("none")),
        Err(FormatError::Io { .. })
    ));
}

#[test]
fn returned_walks_are_kept_as_well() {
    let mut capsule = sample();
    capsule.facts.expected = Outcome::Frames(FramesOutcome {
        frames: -5,
        hash: u64::MAX,
        near_misses: 0,
    });
    let bytes = capsule.to_bytes().unwrap();
    assert_eq!(Capsule::from_bytes(&bytes).unwrap(), capsule);
}

/// What the reference would say of the example, at words in three places.
fn opinion() -> Opinion {
    Opinion {
        facts: OpinionFacts {
            walker: "reference".to_owned(),
            thread: Address(0x7000_0000),
            frames: 2,
            hash: 7,
            symbols: vec![KnownSymbol {
                name: "gHotSpotVMStructs".to_owned(),
                address: Pc(0x7f00_0000),
            }],
        },
        words: [(8, 1), (16, 2), (0x7fff_ffff_eff8, 3)].into(),
    }
}

#[test]
fn a_second_opinion_is_kept() {
    let mut capsule = sample();
    capsule.opinion = Some(opinion());
    let bytes = capsule.to_bytes().unwrap();
    assert_eq!(Capsule::from_bytes(&bytes).unwrap(), capsule);
    assert!(capsule.to_bytes().unwrap().len() > sample().to_bytes().unwrap().len());
    // No page of the walk's.
    assert_eq!(
        capsule.words().collect::<Vec<_>>(),
        sample().words().collect::<Vec<_>>()
    );
}

#[test]
fn a_broken_second_opinion_is_refused() {
    let whole = put_opinion(&opinion());
    assert_eq!(take_opinion(&whole).unwrap(), opinion());
    let facts = 8 + u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    for length in (0..facts).chain([facts + 8, facts + 16, whole.len() - 1]) {
        assert!(take_opinion(&whole[..length]).is_err(), "{length}");
    }
    let broken = |at: usize, word: u64| {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        take_opinion(&bytes).unwrap_err().to_string()
    };
    assert!(broken(facts, 9).contains("a word is no word of user space"));
    assert!(broken(facts, u64::MAX - 7).contains("a word is no word of user space"));
    assert!(broken(facts + 8, u64::MAX).contains("it has too many words"));
    assert!(broken(facts + 8 + 24, 16).contains("a word is there twice"));
    let mut shouting = opinion();
    shouting.facts.walker = "\u{7}".to_owned();
    let said = take_opinion(&put_opinion(&shouting)).unwrap_err();
    assert!(said.to_string().contains("control characters"), "{said}");
}

#[test]
fn every_cut_is_an_error() {
    let packed = sample().to_bytes().unwrap();
    for length in 0..packed.len() {
        let error = Capsule::from_bytes(&packed[..length]).unwrap_err();
        assert!(
            matches!(error, FormatError::Compression(_) | FormatError::Elf(_)),
            "{length}: {error}"
        );
    }
    let core = sample().to_core();
    // The last page is for debuggers alone.
    for length in (0..core.len() - PAGE as usize).step_by(61) {
        assert!(Capsule::from_core(&core[..length]).is_err(), "{length}");
    }
}

/// A core with a change, and what reading says of it.
fn changed(change: impl FnOnce(&mut Capsule)) -> FormatError {
    let mut capsule = sample();
    change(&mut capsule);
    Capsule::from_core(&capsule.to_core()).unwrap_err()
}

fn patched(patch: impl FnOnce(&mut Vec<u8>)) -> FormatError {
    let mut core = sample().to_core();
    patch(&mut core);
    Capsule::from_core(&core).unwrap_err()
}

fn put(core: &mut [u8], at: usize, bytes: &[u8]) {
    core[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Where the program header of that number is.
const fn header(index: usize) -> usize {
    64 + index * 56
}

#[test]
fn other_machines_pages_and_versions_are_named() {
    let error = changed(|capsule| capsule.facts.arch = "s390x".into());
    assert!(
        matches!(&error, FormatError::Architecture { found, .. } if found == "s390x"),
        "{error}"
    );
    let error = changed(|capsule| capsule.facts.page_size = 16384);
    assert!(matches!(error, FormatError::PageSize { found: 16384, .. }));
    let error = changed(|capsule| capsule.facts.version = 77);
    assert!(matches!(error, FormatError::Version { found: 77, .. }));
    let other = if cfg!(target_arch = "x86_64") {
        183_u16
    } else {
        62
    };
    for (machine, name) in [(other, ""), (22, "ELF machine 22")] {
        let error = patched(|core| put(core, 18, &machine.to_le_bytes()));
        assert!(error.to_string().contains(name), "{error}");
        assert!(matches!(error, FormatError::Architecture { .. }), "{error}");
    }
    let error = patched(|core| put(core, 16, &2_u16.to_le_bytes()));
    assert!(matches!(error, FormatError::NotACore(2)));
    let error = patched(|core| core[5] = 2);
    assert!(
        matches!(
            error,
            FormatError::Architecture { .. } | FormatError::Elf(_)
        ),
        "{error}"
    );
}

#[test]
fn other_files_are_no_capsules() {
    let error = |bytes: &[u8]| Capsule::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(b""), FormatError::Compression(_)));
    assert!(matches!(error(b"no capsule"), FormatError::Compression(_)));
    let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    assert!(matches!(error(&packed(b"text")), FormatError::Elf(_)));
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert!(matches!(error(&packed(&own)), FormatError::NotACore(_)));
    // A core of somebody else's: without our notes.
    let text = String::from("WALKFUZZ\0");
    let error = patched(|core| {
        while let Some(at) = core.windows(9).position(|window| window == text.as_bytes()) {
            put(core, at, b"SOMEBODY\0");
        }
    });
    assert!(matches!(error, FormatError::NoNote("facts")), "{error}");
}

#[test]
fn ten_gigabytes_are_not_believed() {
    // Declared by a segment.
    let error = patched(|core| put(core, header(1) + 40, &(10_u64 << 30).to_le_bytes()));
    assert!(
        matches!(error, FormatError::TooMany { what: "pages", .. }),
        "{error}"
    );
    let error = patched(|core| {
        for index in 1..5 {
            put(core, header(index) + 40, &u64::MAX.to_le_bytes());
        }
    });
    assert!(matches!(error, FormatError::TooMany { .. }), "{error}");
    // In the file: more than there is.
    let error = patched(|core| put(core, header(1) + 32, &(10_u64 << 30).to_le_bytes()));
    assert!(matches!(error, FormatError::BadNote { .. }), "{error}");
}

#[test]
fn a_zip_bomb_ends_at_the_limit() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..(limits::UNPACKED >> 20) + 8 {
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let error = Capsule::from_bytes(&bomb).unwrap_err();
    assert!(matches!(error, FormatError::TooBig { .. }), "{error}");
}

#[test]
fn segments_must_not_overlap_nor_lie_elsewhere() {
    let first = STACK - PAGE;
    let address = |to: u64| patched(|core| put(core, header(1) + 16, &to.to_le_bytes()));
    let error = address(CODE);
    assert!(
        matches!(error, FormatError::Overlap { address: CODE }),
        "{error}"
    );
    for elsewhere in [
        0,
        PAGE,
        first + 8,
        u64::MAX - PAGE + 1,
        limits::USER_SPACE,
        1 << 63,
    ] {
        let error = address(elsewhere);
        assert!(
            matches!(error, FormatError::Segment { .. }),
            "{elsewhere:#x}: {error}"
        );
    }
    let error = address(STUB);
    assert!(
        matches!(error, FormatError::OverReplayer { address: STUB }),
        "{error}"
    );
    let error = address(STUB - PAGE);
    assert!(matches!(error, FormatError::OverReplayer { .. }), "{error}");
    let error = changed(|capsule| capsule.facts.stub = Address(STACK + 8 * PAGE));
    assert!(matches!(error, FormatError::OverReplayer { .. }), "{error}");
    let error = changed(|capsule| capsule.facts.stub = Address(STUB + 1));
    assert!(matches!(error, FormatError::BadFacts(_)), "{error}");
}

#[test]
fn facts_must_make_sense() {
    for change in [
        (|facts| facts.entry.stack = Sp(STACK)) as fn(&mut Facts),
        |facts| facts.entry.depth = 0,
        |facts| facts.entry.depth = i32::MAX,
        |facts| facts.entry.thread = Address(u64::MAX),
        |facts| facts.entry.function = Pc(1 << 63),
        |facts| facts.entry.float_control = u32::MAX,
        |facts| facts.files.clear(),
    ] {
        let error = changed(|capsule| change(&mut capsule.facts));
        assert!(matches!(error, FormatError::BadFacts(_)), "{error}");
    }
    let error = changed(|capsule| {
        let one = capsule.facts.safefetch[0];
        capsule.facts.safefetch = vec![one; 1000];
    });
    assert!(
        matches!(error, FormatError::TooMany { found: 1000, .. }),
        "{error}"
    );
    let replace = |what: &str, with: &str| {
        assert_eq!(what.len(), with.len());
        patched(|core| {
            let found = core
                .windows(what.len())
                .position(|window| window == what.as_bytes());
            put(core, found.unwrap(), with.as_bytes());
        })
    };
    for (what, with) in [
        ("\"kind\": \"fault\"", "\"kind\": \"other\""),
        ("\"depth\": 64", "\"depth\": \"6"),
        ("\"walker\"", "\"walked\""),
    ] {
        let error = replace(what, with);
        assert!(matches!(error, FormatError::Facts(_)), "{error}");
    }
}

#[test]
fn texts_that_steer_terminals_are_refused() {
    for change in [
        (|facts| facts.signature.push('\u{1b}')) as fn(&mut Facts),
        |facts| facts.perturbation.push('\u{7}'),
        |facts| facts.jvm.push('\n'),
        |facts| facts.walker.push('\r'),
        |facts| facts.walkfuzz.push('\0'),
        |facts| facts.libc_code.push('\u{9b}'),
        |facts| facts.shims.push("\u{1b}[2J".into()),
        |facts| facts.files[0].name.push('\u{8}'),
        |facts| facts.files[0].path.push('\n'),
        |facts| facts.files[0].identity.push('\u{1b}'),
    ] {
        let error = changed(|capsule| change(&mut capsule.facts));
        assert!(
            matches!(error, FormatError::BadFacts(what) if what.contains("control")),
            "{error}"
        );
    }
}

#[test]
fn endless_and_huge_files_are_not_read() {
    let error = Capsule::read(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.wfcap");
    // 10 GB, none of it on the disk.
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(10 << 30).unwrap();
    let error = Capsule::read(&path).unwrap_err();
    assert!(matches!(error, FormatError::TooBig { .. }), "{error}");
}

#[test]
fn a_flipped_bit_of_the_file_never_makes_another_capsule() {
    let capsule = sample();
    let packed = capsule.to_bytes().unwrap();
    let mut refused = 0;
    for at in 0..packed.len() {
        let mut packed = packed.clone();
        packed[at] ^= 1 << (at % 8);
        match Capsule::from_bytes(&packed) {
            Ok(read) => assert_eq!(read, capsule, "byte {at}"),
            Err(FormatError::Compression(_)) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused + 16 > packed.len(), "{refused} of {}", packed.len());
}

#[test]
fn every_changed_byte_is_read_or_refused() {
    // Every byte of headers and notes; a sample of the pages.
    let core = sample().to_core();
    let mut read = 0;
    for at in (0..4096.min(core.len())).chain((4096..core.len()).step_by(97)) {
        for flip in [1, 0x80, 0xff] {
            let mut core = core.clone();
            core[at] ^= flip;
            read += u32::from(Capsule::from_core(&core).is_ok());
        }
    }
    assert!(read > 100, "some bytes may be anything: {read}");
}

proptest! {
    #[test]
    fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2048), at in 0_usize..8192) {
        let _ = Capsule::from_bytes(&bytes);
        let _ = Capsule::from_core(&bytes);
        let mut core = sample().to_core();
        let at = at.min(core.len() - bytes.len().min(core.len()));
        for (target, byte) in core[at..].iter_mut().zip(&bytes) {
            *target = *byte;
        }
        let _ = Capsule::from_core(&core);
    }
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("file"), b"old").unwrap();
    std::os::unix::fs::symlink("file", path("link")).unwrap();
    sample().write(&path("link")).unwrap();
    assert!(path("link").is_symlink(), "what it leads to is replaced");
    assert_eq!(Capsule::read(&path("file")).unwrap(), sample());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    std::os::unix::fs::symlink("circle", path("circle")).unwrap();
    for name in ["socket", "circle", "."] {
        let before = path(name).symlink_metadata().unwrap().file_type();
        sample().write(&path(name)).unwrap_err();
        assert_eq!(path(name).symlink_metadata().unwrap().file_type(), before);
    }
}
