//! Walks of planted walkers are captured in this process, and replayed from files.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "planted walkers do what walkers must not"
)]

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use walkfuzz_capsule::capture::{Keep, KnownFile, Request, capture};
use walkfuzz_capsule::{
    Capsule, CaptureError, Content, Ended, Outcome, Puppet, PuppetError, SafeFetch,
};
use walkfuzz_context::{Address, Pc};

type Walker = unsafe extern "C" fn(*mut Trace, i32, *mut c_void);

#[repr(C)]
struct Trace {
    env: u64,
    frames: i32,
    at: *mut [u64; 2],
}

/// What the planted walkers read: a chain of words far from each other.
struct World {
    trace: Box<Trace>,
    frames: Box<[[u64; 2]; 64]>,
    context: Box<[u64; 128]>,
    heap: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let mut frames = Box::new([[7; 2]; 64]);
        let heap = (0..1 << 16).map(|index| index * 3 + 1).collect();
        let trace = Box::new(Trace {
            env: 0,
            frames: 0,
            at: frames.as_mut_ptr(),
        });
        let mut world = Self {
            trace,
            frames,
            context: Box::new([0xfeed; 128]),
            heap,
        };
        world.context[0] = world.heap.as_ptr() as u64;
        world
    }

    fn request(&self, walker: Walker) -> Request {
        assert_eq!(self.trace.at.cast_const(), self.frames.as_ptr());
        Request {
            function: Pc(walker as *const () as u64),
            trace: Address(&raw const *self.trace as u64),
            depth: 32,
            context: Address(self.context.as_ptr() as u64),
            safefetch: Vec::new(),
            files: Vec::new(),
            walker: "planted".into(),
            jvm: "17.0.0".into(),
            keep: Keep {
                registers: None,
                signature: "SIGSEGV|planted|planted".into(),
                perturbation: "sp+=8".into(),
                perturbed: None,
                minimise: true,
                whole: Vec::new(),
            },
        }
    }
}

/// Reads eight words of the heap, writes as many frames, and then does what `then` does with the last.
macro_rules! walker {
    ($name:ident, $then:expr) => {
        unsafe extern "C" fn $name(trace: *mut Trace, depth: i32, context: *mut c_void) {
            unsafe {
                let heap = *context.cast::<*const u64>();
                let mut sum = 0;
                for index in 0..8.min(depth as usize) {
                    let word = heap.add(index * 4096).read_volatile();
                    (*trace).at.add(index).write_volatile([index as u64, word]);
                    sum += word;
                }
                (*trace).frames = 8;
                let then: unsafe fn(*mut Trace, u64) = $then;
                then(trace, sum);
            }
        }
    };
}

walker!(returns, |_, _| {});
walker!(faults, |_, sum| {
    (sum as *const u64).read_volatile();
});
walker!(hangs, |trace, _| loop {
    (*trace).env += 1;
});
walker!(calls, |_, _| {
    std::arch::asm!("syscall", inout("rax") 39_u64 => _, out("rcx") _, out("r11") _);
});
walker!(forbidden, |_, _| {
    (GUARDED.load(Relaxed) as *const u64).read_volatile();
});
walker!(writes_code, |_, _| {
    (returns as *mut u8).write_volatile(0);
});

/// Calls each function of libc that has a shim. Frames say what came of it.
unsafe extern "C" fn calls_libc(trace: *mut Trace, _: i32, context: *mut c_void) {
    unsafe {
        let heap = *context.cast::<*const u64>();
        let text = c"a walk that calls";
        let mut copy = [0_u8; 256];
        let words = [
            libc::pthread_getspecific(KEY.load(Relaxed) as u32) as u64,
            libc::pthread_getspecific(KEY.load(Relaxed) as u32 + 300) as u64,
            libc::memcpy(copy.as_mut_ptr().cast(), heap.cast(), black_box(200)) as u64
                - copy.as_ptr() as u64,
            libc::memcmp(copy.as_ptr().cast(), heap.cast(), black_box(200)) as u64,
            libc::memcmp(c"a".as_ptr().cast(), c"b".as_ptr().cast(), black_box(1)).signum() as u64,
            libc::memmove(
                copy.as_mut_ptr().add(8).cast(),
                copy.as_ptr().cast(),
                black_box(64),
            ) as u64
                - copy.as_ptr() as u64,
            copy.as_ptr().add(64).cast::<u64>().read_unaligned(),
            libc::strlen(black_box(text.as_ptr())) as u64,
            libc::strcmp(black_box(text.as_ptr()), c"a walk".as_ptr()).signum() as u64,
            libc::strcmp(black_box(text.as_ptr()), c"a walk that calls".as_ptr()) as u64,
            libc::memset(copy.as_mut_ptr().cast(), 7, black_box(100)) as u64 - copy.as_ptr() as u64,
            copy[98..102].iter().map(|byte| u64::from(*byte)).sum(),
        ];
        let frames = words.len();
        for (index, word) in words.into_iter().enumerate() {
            (*trace).at.add(index).write_volatile([index as u64, word]);
        }
        (*trace).frames = frames as i32;
    }
}

/// And then faults.
unsafe extern "C" fn calls_libc_and_faults(trace: *mut Trace, depth: i32, context: *mut c_void) {
    unsafe {
        calls_libc(trace, depth, context);
        black_box(0x30 as *const u64).read_volatile();
    }
}

/// A function that has no shim.
unsafe extern "C" fn calls_more_of_libc(trace: *mut Trace, _: i32, _: *mut c_void) {
    unsafe {
        let number = libc::strtoul(black_box(c"21").as_ptr(), std::ptr::null_mut(), 10);
        (*trace).frames = -(number as i32) - libc::strlen(black_box(c"21".as_ptr())) as i32;
    }
}

/// Ends in a function of libc's.
unsafe extern "C" fn faults_in_libc(_: *mut Trace, _: i32, _: *mut c_void) {
    unsafe { black_box(libc::strlen(black_box(0x30 as *const libc::c_char))) };
}

static KEY: AtomicU64 = AtomicU64::new(0);

static GUARDED: AtomicU64 = AtomicU64::new(0);

/// Captures, writes, reads, replays.
fn there_and_back(request: &Request) -> (Capsule, Ended) {
    let (capsule, effort) = capture(request).unwrap();
    println!("{effort:?}, {} pages", capsule.pages.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.wfcap");
    capsule.write(&path).unwrap();
    println!("{} bytes", std::fs::metadata(&path).unwrap().len());
    let read = Capsule::read(&path).unwrap();
    assert_eq!(read, capsule);
    let mut puppet = Puppet::new(&read).unwrap();
    let first = puppet.walk().unwrap();
    for _ in 0..200 {
        assert_eq!(puppet.walk().unwrap(), first, "walks repeat");
    }
    (read, first)
}

#[test]
fn a_fault_comes_back_to_the_last_register() {
    let world = World::new();
    let (capsule, ended) = there_and_back(&world.request(faults));
    let sum: u64 = (0..8).map(|index| world.heap[index * 4096]).sum();
    let Outcome::Fault(fault) = capsule.facts.expected else {
        panic!("{:?}", capsule.facts.expected);
    };
    assert_eq!((fault.signal, fault.code), (11, 1));
    assert_eq!(fault.address, Address(sum));
    assert_eq!(
        capsule.facts.expected.differences(&ended),
        Vec::<String>::new()
    );
    // Another expectation is not met, and what is different is named.
    let mut other = fault;
    other.address = Address(1);
    other.registers.words[3] ^= 1;
    let differences = Outcome::Fault(other).differences(&ended);
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(
        differences[0].starts_with("address: expected 0x1, got"),
        "{differences:?}"
    );
    assert!(differences[1].starts_with("rbx: "), "{differences:?}");
}

#[test]
fn a_walk_that_returns_keeps_its_frames() {
    let world = World::new();
    let (capsule, ended) = there_and_back(&world.request(returns));
    let Outcome::Frames(frames) = capsule.facts.expected else {
        panic!("{:?}", capsule.facts.expected);
    };
    assert_eq!((frames.frames, frames.near_misses), (8, 0));
    assert!(capsule.facts.expected.is(&ended));
    assert!(frames.hash != 0);
}

#[test]
fn only_what_the_walk_needs_is_kept() {
    let mut world = World::new();
    // A secret right beside each word that is read, and one on a page that is not.
    // The code, which lies beside the walker's, holds only its complement.
    let secret = !black_box(0xa13d_18a1_3d18_a13d_u64);
    for index in 0..8 {
        world.heap[index * 4096 + 1] = secret;
        world.heap[index * 4096 + 1024] = secret;
    }
    let request = world.request(faults);
    let mut of_whole = request.clone();
    of_whole.keep.minimise = false;
    let (whole, _) = capture(&of_whole).unwrap();
    let (capsule, effort) = capture(&request).unwrap();
    let has = |capsule: &Capsule| {
        let core = capsule.to_core();
        core.windows(8).any(|window| window == secret.to_le_bytes())
    };
    assert!(has(&whole), "the pages that are read are kept whole");
    assert!(!has(&capsule));
    assert!(effort.lines.1 * 10 < effort.lines.0, "{effort:?}");
    assert!(effort.lines.1 >= 9, "eight words and the stack: {effort:?}");
    let mut puppet = Puppet::new(&capsule).unwrap();
    assert!(capsule.facts.expected.is(&puppet.walk().unwrap()));
}

#[test]
fn pages_of_a_file_are_taken_by_reference() {
    let world = World::new();
    let path = std::env::current_exe().unwrap();
    let mut request = world.request(faults);
    request.files.push(KnownFile {
        path: path.clone(),
        identity: "this program".into(),
    });
    let (mut capsule, _) = capture(&request).unwrap();
    assert!(!capsule.has_references());
    let own = |file: &walkfuzz_capsule::FileFacts| {
        (file.identity == "this program").then(|| path.clone())
    };
    assert_eq!(capsule.refer(|_| None), 0);
    assert!(capsule.refer(own) > 0);
    let code = capsule
        .pages
        .values()
        .filter(|page| page.protection.execute());
    for page in code {
        assert!(matches!(page.entry, Content::File { file: 0, .. }));
    }
    let mut read = Capsule::from_bytes(&capsule.to_bytes().unwrap()).unwrap();
    assert_eq!(read, capsule);
    assert!(read.has_references());
    let error = Puppet::new(&read).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "needs build id this program ({} of JDK 17.0.0)",
            path.file_name().unwrap().display()
        )
    );
    assert!(matches!(error, PuppetError::NeedsFile { .. }));
    assert!(read.clone().resolve(|_| None).is_err());
    assert!(read.clone().resolve(|_| Some("/dev/null".into())).is_err());
    read.resolve(own).unwrap();
    let mut puppet = Puppet::new(&read).unwrap();
    assert!(capsule.facts.expected.is(&puppet.walk().unwrap()));
}

/// Executable pages of the capsule that are libc's or the dynamic loader's.
fn pages_of_libc(capsule: &Capsule) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc: Vec<_> = maps
        .lines()
        .filter(|line| line.contains("/libc.so") || line.contains("/ld-linux"))
        .map(|line| {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            [from, to].map(|end| u64::from_str_radix(end, 16).unwrap())
        })
        .collect();
    assert!(libc.len() > 4, "{maps}");
    let code = capsule
        .pages
        .iter()
        .filter(|(_, page)| page.protection.execute());
    code.filter(|(at, _)| libc.iter().any(|[from, to]| (from..to).contains(at)))
        .count()
}

#[test]
fn a_walk_that_calls_leaf_functions_of_libc_has_none_of_its_code() {
    let mut key = 0;
    let value = 0x5eed as *const c_void;
    unsafe {
        assert_eq!(libc::pthread_key_create(&raw mut key, None), 0);
        assert_eq!(libc::pthread_setspecific(key, value), 0);
    }
    KEY.store(u64::from(key), Relaxed);
    let mut world = World::new();
    let request = world.request(calls_libc);
    let (capsule, ended) = there_and_back(&request);
    println!("{:?}", capsule.facts.shims);
    assert_eq!(capsule.facts.libc_code, "");
    assert_eq!(pages_of_libc(&capsule), 0);
    // memmove is often the same code as memcpy.
    for name in [
        "pthread_getspecific",
        "memcpy",
        "memset",
        "memcmp",
        "strlen",
        "strcmp",
    ] {
        assert!(
            capsule.facts.shims.iter().any(|shim| shim == name),
            "{name}"
        );
    }
    let values: Vec<(u64, u64)> = capsule
        .words()
        .filter_map(|(at, word)| Some((capsule.facts.thread_value_at(at)?, word)))
        .collect();
    assert_eq!(
        values,
        [(u64::from(key), 0x5eed)],
        "no other thread-local value"
    );
    // What libc itself says: the same frames.
    let context: *mut c_void = world.context.as_mut_ptr().cast();
    unsafe { calls_libc(&raw mut *world.trace, 32, context) };
    assert_eq!(world.frames[0][1], value as u64);
    let words = world.frames.iter().take(world.trace.frames as usize);
    let bytes: Vec<u8> = words
        .flatten()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let Ended::Outcome(Outcome::Frames(frames)) = ended else {
        panic!("{ended}");
    };
    assert_eq!(frames.frames, world.trace.frames);
    assert_eq!(frames.hash, hash(&bytes));
    // The same for one that faults.
    let (capsule, _) = there_and_back(&world.request(calls_libc_and_faults));
    let Outcome::Fault(fault) = capsule.facts.expected else {
        panic!("{}", capsule.facts.expected);
    };
    assert_eq!(fault.address, Address(0x30));
    assert_eq!(
        (pages_of_libc(&capsule), capsule.facts.libc_code.as_str()),
        (0, "")
    );
}

/// Of frames, as docs/capsules.md has it (FNV-1a over words).
fn hash(bytes: &[u8]) -> u64 {
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    words.chunks(2).fold(0xcbf2_9ce4_8422_2325, |hash, frame| {
        let hash = (hash ^ frame[1]).wrapping_mul(0x0000_0100_0000_01b3);
        (hash ^ (frame[0] & 0xffff_ffff)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn a_walk_that_needs_more_of_libc_keeps_its_code() {
    let world = World::new();
    for (walker, why) in [
        (calls_more_of_libc as Walker, "the walk runs libc.so.6+0x"),
        (
            faults_in_libc,
            "with shims the walk ends otherwise (signal 11",
        ),
    ] {
        let (capsule, ended) = there_and_back(&world.request(walker));
        assert!(capsule.facts.expected.is(&ended));
        let said = &capsule.facts.libc_code;
        assert!(said.starts_with(why), "{said}");
        assert_eq!(capsule.facts.shims, Vec::<String>::new());
        assert!(pages_of_libc(&capsule) > 0);
    }
}

#[test]
fn what_has_no_end_is_not_captured() {
    let world = World::new();
    let error = capture(&world.request(hangs)).unwrap_err();
    assert!(
        matches!(&error, CaptureError::NoOutcome(ended) if **ended == Ended::Hang),
        "{error}"
    );
    let error = capture(&world.request(calls)).unwrap_err();
    assert!(
        matches!(&error, CaptureError::NoOutcome(ended) if **ended == Ended::SystemCall(39)),
        "{error}"
    );
}

#[test]
fn a_foreign_capsule_can_do_nothing() {
    let world = World::new();
    let (capsule, _) = capture(&world.request(returns)).unwrap();
    // Somebody has put other code into it.
    let replaced = |code: &[u8]| {
        let mut capsule = capsule.clone();
        let at = capsule.facts.entry.function.0;
        for (address, byte) in (at..).zip(code) {
            let page = capsule.pages.get_mut(&(address & !4095)).unwrap();
            let Content::Bytes(bytes) = &mut page.entry else {
                panic!("the walker's page is in the capsule");
            };
            bytes[(address & 4095) as usize] = *byte;
        }
        Puppet::new(&capsule).unwrap().walk().unwrap()
    };
    // mov eax, NUMBER; syscall
    assert_eq!(
        replaced(&[0xb8, 59, 0, 0, 0, 0x0f, 0x05]),
        Ended::SystemCall(59)
    );
    assert_eq!(
        replaced(&[0xb8, 231, 0, 0, 0, 0x0f, 0x05]),
        Ended::SystemCall(231)
    );
    // The 32-bit way in: mov eax, 11; int 0x80
    assert_eq!(
        replaced(&[0xb8, 11, 0, 0, 0, 0xcd, 0x80]),
        Ended::SystemCall(11)
    );
    // jmp to itself
    assert_eq!(replaced(&[0xeb, 0xfe]), Ended::Hang);
    // ret: nothing was walked
    let Ended::Outcome(Outcome::Frames(frames)) = replaced(&[0xc3]) else {
        panic!("it returns");
    };
    assert_eq!(frames.frames, 0);
}

#[test]
fn forbidden_pages_are_not_unmapped_ones() {
    // SAFETY: a fresh mapping.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    GUARDED.store(page as u64 + 8, Relaxed);
    let world = World::new();
    for (walker, address) in [
        (forbidden as Walker, page as u64 + 8),
        (writes_code, returns as *const () as u64),
    ] {
        let (capsule, ended) = there_and_back(&world.request(walker));
        let Outcome::Fault(fault) = capsule.facts.expected else {
            panic!("{:?}", capsule.facts.expected);
        };
        assert_eq!((fault.signal, fault.code), (11, 2));
        assert_eq!(fault.address, Address(address));
        assert!(capsule.facts.expected.is(&ended));
    }
}

#[test]
fn near_misses_go_on_where_the_jvm_goes_on() {
    let world = World::new();
    let mut request = world.request(faults);
    let (capsule, _) = capture(&request).unwrap();
    let Outcome::Fault(fault) = capsule.facts.expected else {
        panic!("{:?}", capsule.facts.expected);
    };
    // The same load as a SafeFetch whose continuation is another walker's begin.
    request.safefetch.push(SafeFetch {
        fault: fault.registers.pc(),
        continuation: Pc(plain_return as *const () as u64),
    });
    let (capsule, ended) = there_and_back(&request);
    let Outcome::Frames(frames) = capsule.facts.expected else {
        // What the load's function had pushed lies on top of its return address: it returns to data.
        panic!("{}", capsule.facts.expected);
    };
    assert_eq!(frames.near_misses, 1);
    assert!(capsule.facts.expected.is(&ended));
}

/// Leaves the walk, whatever is on the stack: like a longjmp to the stub, whose address the capsule keeps on the walk's stack.
#[unsafe(naked)]
unsafe extern "C" fn plain_return() {
    std::arch::naked_asm!(
        // The return address is the last word of a page; the stack is less than a page deep.
        "or rsp, 0xfff",
        "sub rsp, 7",
        "ret",
    )
}

/// What a capsule does in the fast lane is what it does before the judge. In another process, for in this one the capsules' pages are in use.
#[test]
fn the_fast_lane_agrees_with_the_judge() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let walkers = [("faults", faults as Walker), ("returns", returns)];
    for (name, walker) in walkers {
        let (capsule, _) = capture(&world.request(walker)).unwrap();
        let mut spoilt = capsule.clone();
        capsule.write(&folder.path().join(name)).unwrap();
        for (name, code) in [
            // mov eax, 59; syscall
            ("calls", &[0xb8, 59, 0, 0, 0, 0x0f, 0x05][..]),
            // jmp to itself
            ("hangs", &[0xeb, 0xfe][..]),
            // ud2
            ("other", &[0x0f, 0x0b][..]),
        ] {
            let at = capsule.facts.entry.function.0;
            let page = spoilt.pages.get_mut(&(at & !4095)).unwrap();
            let Content::Bytes(bytes) = &mut page.entry else {
                panic!("the walker's page is in the capsule");
            };
            let offset = (at & 4095) as usize;
            bytes[offset..offset + code.len()].copy_from_slice(code);
            spoilt.write(&folder.path().join(name)).unwrap();
        }
    }
    // An address may be taken by chance.
    for _ in 0..5 {
        let output = walkfuzz_record::machine::command(std::env::current_exe().unwrap())
            .args(["--exact", "fast_lane", "--ignored", "--nocapture"])
            .env("CAPSULES", folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        if !said.contains("collision") {
            assert!(output.status.success());
            assert!(said.contains("agreed on 5"), "{said}");
            return;
        }
    }
    panic!("every try collided");
}

#[test]
#[ignore = "run by the_fast_lane_agrees_with_the_judge"]
fn fast_lane() {
    let folder = std::env::var_os("CAPSULES").unwrap();
    let mut agreed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let capsule = Capsule::read(&path).unwrap();
        let judged = Puppet::new(&capsule).unwrap().walk().unwrap();
        let tally = match walkfuzz_capsule::in_process::walk(&capsule, 3) {
            Err(walkfuzz_capsule::InProcessError::Collision { address }) => {
                println!("collision at {address:#x}");
                return;
            }
            tally => tally.unwrap(),
        };
        println!("{}: {judged}; {tally:?}", path.display());
        assert_eq!(tally.walks, 3);
        if capsule.facts.expected.is(&judged) {
            assert_eq!((tally.identical, tally.first_other), (3, None));
        } else {
            assert_eq!((tally.identical, tally.first_other), (0, Some(judged)));
        }
        agreed += 1;
    }
    let floor = walkfuzz_capsule::in_process::floor(1000).unwrap();
    assert_eq!((floor.walks, floor.identical), (1000, 1000));
    assert!(!floor.cpu.is_zero(), "{floor:?}");
    println!("agreed on {agreed}");
}
