//! A planted walk is taken as a snapshot of this process, and walked from other registers in another process, which has its memory elsewhere.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "planted walkers do what walkers must not"
)]

use std::ffi::c_void;
use std::path::Path;

use walkfuzz_capsule::capture::{Ground, Keep, Request, capture};
use walkfuzz_capsule::resident::Resident;
use walkfuzz_capsule::{Capsule, Ended, Outcome, ResidentError};
use walkfuzz_context::{Address, Arch, Pc, Registers};

const FILE: &str = "WALKFUZZ_TEST_RESIDENT";
/// The exit code that says: this process lies where the snapshot must be.
const TRY_AGAIN: i32 = 77;
const WORDS: usize = 1 << 16;
/// A word at which the walk does not end.
const ENDLESS: u64 = 0xe1d1_e555;
const WALKS: u64 = 20_000;

#[repr(C)]
struct Trace {
    env: u64,
    frames: i32,
    at: *mut [u64; 2],
}

/// Reads the words at rbp and rsp, counts up what it finds at rbp, and returns frames of both: a walk that writes.
unsafe extern "C" fn walker(trace: *mut Trace, depth: i32, context: *mut c_void) {
    unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        let fp = context.uc_mcontext.gregs[libc::REG_RBP as usize] as *mut u64;
        let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as *const u64;
        let word = fp.read_volatile();
        if word == ENDLESS {
            // Calls nothing: the snapshot has no other code.
            std::arch::asm!("2: jmp 2b", options(noreturn));
        }
        fp.write_volatile(word + 1);
        let frames = (*trace).at;
        for index in 0..(word as usize % 8).min(depth as usize) {
            frames
                .add(index)
                .write([index as u64, word ^ sp.read_volatile()]);
        }
        (*trace).frames = (word % 8) as i32;
    }
}

/// What stands in the snapshot: registers point into `words`, of which the end is not in it.
struct World {
    trace: Box<Trace>,
    frames: Box<[[u64; 2]; 64]>,
    context: Box<libc::ucontext_t>,
    words: Vec<u64>,
}

fn take(path: &Path) -> (Capsule, u64) {
    let mut frames = Box::new([[0; 2]; 64]);
    let mut world = World {
        trace: Box::new(Trace {
            env: 0,
            frames: 0,
            at: frames.as_mut_ptr(),
        }),
        frames,
        context: Box::new(unsafe { std::mem::zeroed() }),
        words: (0..WORDS as u64).map(|word| word * 7 + 3).collect(),
    };
    let words = world.words.as_ptr() as u64;
    assert_eq!(world.trace.at.cast_const(), world.frames.as_ptr());
    let gregs = &mut world.context.uc_mcontext.gregs;
    gregs[libc::REG_RBP as usize] = words.cast_signed();
    gregs[libc::REG_RSP as usize] = words.cast_signed() + 64;
    let half = words + WORDS as u64 * 4;
    let (capsule, _) = capture(&Request {
        function: Pc(walker as *const () as u64),
        trace: Address(&raw const *world.trace as u64),
        depth: 32,
        context: Address(&raw const *world.context as u64),
        safefetch: Vec::new(),
        files: Vec::new(),
        walker: "planted".into(),
        jvm: "17.0.0".into(),
        keep: Keep {
            #[expect(clippy::single_range_in_vec_init, reason = "a list of ranges")]
            whole: vec![words..half],
            ..Keep::default()
        },
    })
    .unwrap();
    capsule.write(path).unwrap();
    (capsule, words)
}

fn registers(untouched: &Registers, seed: u64) -> Registers {
    let mut registers = *untouched;
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    random ^= random >> 29;
    let place = |name: &str| {
        let mut names = Arch::X86_64.register_names().iter();
        names.position(|known| *known == name).unwrap()
    };
    let fp = place("rbp");
    registers.words[fp] = match random % 16 {
        0 => 0x10,
        1 => u64::MAX << 48 | 5,
        // Somewhere in words; the second half is not in the snapshot.
        _ => registers.words[fp] + random % (WORDS as u64) * 8,
    };
    registers
}

/// All walks, one after the other; what came of them, and of how many they left the snapshot or faulted.
fn chain(resident: &mut Resident) -> (u64, u64, u64) {
    let untouched = resident.untouched().unwrap();
    let (mut chain, mut left, mut faults) = (0_u64, 0, 0);
    for seed in 0..WALKS {
        let ended = resident.walk(&registers(&untouched, seed), 32);
        let word = match ended {
            Ended::Outcome(Outcome::Frames(frames)) => {
                frames.hash ^ u64::from(frames.frames.cast_unsigned())
            }
            Ended::Outcome(Outcome::Fault(fault)) => {
                faults += 1;
                fault.address.0 ^ fault.registers.pc().0
            }
            Ended::MissingPage(address) => {
                left += 1;
                address.0
            }
            other => panic!("{other}"),
        };
        chain = (chain ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }
    (chain, left, faults)
}

#[test]
fn walks_are_the_same_each_time_and_under_the_judge() {
    if let Some(path) = std::env::var_os(FILE) {
        return elsewhere(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.wfcap");
    let (capsule, _) = take(&path);
    println!("{} pages", capsule.pages.len());
    assert!(capsule.pages.len() > WORDS * 4 / 4096, "half of the words");
    let mut chains = Vec::new();
    for _ in 0..40 {
        let output = walkfuzz_record::machine::command(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("walks_are_the_same_each_time_and_under_the_judge")
            .env(FILE, &path)
            .output()
            .unwrap();
        if output.status.code() == Some(TRY_AGAIN) {
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let line = text.lines().find_map(|line| line.strip_prefix("chain "));
        chains.push(line.expect(&text).to_owned());
        if chains.len() == 2 {
            break;
        }
    }
    assert_eq!(chains.len(), 2, "free addresses in two of forty processes");
    assert_eq!(chains[0], chains[1], "in another process the same");
}

/// A word that is edited is what walks find, walk after walk, here and under the judge; whose capsule holds it.
fn edited_memory_is_walked(capsule: &Capsule, resident: &mut Resident) {
    let untouched = resident.untouched().unwrap();
    let word = Address(untouched.fp().0);
    assert_eq!(resident.edit(Address(word.0 + 1), 0), None);
    assert_eq!(resident.edit(Address(0x1000), 0), None);
    assert_eq!(resident.edit(word, 21), Some(3));
    for _ in 0..3 {
        // Other pages are opened and closed meanwhile.
        for seed in 0..64 {
            resident.walk(&registers(&untouched, seed), 32);
        }
        let Ended::Outcome(here) = resident.walk(&untouched, 32) else {
            panic!("no outcome");
        };
        assert!(matches!(here, Outcome::Frames(frames) if frames.frames == 5));
        let mut ground = Ground::of_capsule(capsule).unwrap();
        ground.edit(&[(word, 21)]).unwrap();
        let keep = Keep {
            registers: Some(untouched),
            minimise: true,
            ..Keep::default()
        };
        let (small, _) = ground.capsule(&keep).unwrap();
        assert_eq!(small.facts.expected, here);
    }
    // A walk that hangs does so under the judge, too, and has no capsule.
    assert_eq!(resident.edit(word, ENDLESS), Some(21));
    assert!(matches!(resident.walk(&untouched, 32), Ended::Hang));
    let mut ground = Ground::of_capsule(capsule).unwrap();
    ground.edit(&[(word, ENDLESS)]).unwrap();
    assert_eq!(ground.walk(&untouched).unwrap(), Ended::Hang);
    assert_eq!(resident.edit(word, 3), Some(ENDLESS));
}

/// In a process whose own memory is elsewhere, with luck.
fn elsewhere(path: &Path) {
    let capsule = Capsule::read(path).unwrap();
    let mut resident = Resident::new().unwrap();
    assert!(matches!(Resident::new(), Err(ResidentError::Taken)));
    match resident.add(&capsule) {
        Ok(0) => {}
        Err(ResidentError::Collision { .. }) => std::process::exit(TRY_AGAIN),
        other => panic!("{other:?}"),
    }
    resident.show(0).unwrap();
    let (first, left, faults) = chain(&mut resident);
    assert!(left > WALKS / 4 && left < WALKS * 3 / 4, "{left}");
    assert!(faults > WALKS / 32, "{faults}");
    for _ in 0..2 {
        assert_eq!(chain(&mut resident), (first, left, faults));
    }
    // Memory is as it was: a walk's count is not the next one's.
    let untouched = resident.untouched().unwrap();
    let frames = |resident: &mut Resident| match resident.walk(&untouched, 32) {
        Ended::Outcome(Outcome::Frames(frames)) => frames.frames,
        other => panic!("{other}"),
    };
    assert_eq!((frames(&mut resident), frames(&mut resident)), (3, 3));
    edited_memory_is_walked(&capsule, &mut resident);
    assert_eq!(frames(&mut resident), 3, "edited back");
    let mut ground = Ground::of_capsule(&capsule).unwrap();
    let mut judged = 0;
    for seed in 0..60 {
        let registers = registers(&untouched, seed);
        let here = resident.walk(&registers, 32);
        // Whatever was walked before.
        assert_eq!(ground.walk(&registers).unwrap(), here, "seed {seed}");
        let keep = Keep {
            registers: Some(registers),
            minimise: true,
            ..Keep::default()
        };
        let Ended::Outcome(here) = here else {
            assert!(ground.capsule(&keep).is_err());
            continue;
        };
        let (small, _) = ground
            .capsule(&keep)
            .unwrap_or_else(|error| panic!("seed {seed}, {here}: {error}"));
        assert_eq!(small.facts.expected, here, "seed {seed}");
        assert!(small.pages.len() < 40, "{}", small.pages.len());
        judged += 1;
    }
    assert!(judged > 20, "{judged}");
    println!("chain {first:016x}");
}
