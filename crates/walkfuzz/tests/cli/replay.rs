//! `walkfuzz replay` with capsules of real JVMs, and with files that are none.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use walkfuzz_capsule::{Capsule, Content, Outcome, example};
use walkfuzz_context::Address;
use walkfuzz_jvm::{Jdk, Places};

use crate::support::{fails, folder, json, walkfuzz};

/// How often the fast lane may meet an address that is taken.
const TRIES: usize = 8;

fn replay(file: &Path) -> Command {
    let mut command = walkfuzz();
    command.arg("replay").arg(file);
    command
}

/// One JDK of each of these feature releases.
fn jdks() -> Vec<Jdk> {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("skip: capsules are captured on x86_64 only");
        return Vec::new();
    }
    let found: Vec<Jdk> = Places::from_env()
        .discover()
        .into_iter()
        .filter_map(|candidate| candidate.jdk.ok())
        .collect();
    let of = |feature: u32| {
        let jdk = found.iter().find(|jdk| jdk.version.feature() == feature);
        if jdk.is_none() {
            eprintln!("skip: no JDK {feature} on this machine");
        }
        jdk.cloned()
    };
    [17, 25].into_iter().filter_map(of).collect()
}

/// The capsules that a short blind run of a JVM leaves.
fn capture(jdk: &Jdk, runs: &Path) -> Vec<PathBuf> {
    let output = walkfuzz()
        .args(["in-jvm", "loop", "12"])
        .env("WALKFUZZ_BLIND", "1")
        .env("WALKFUZZ_JDK", &jdk.home)
        .env("WALKFUZZ_RUNS", runs)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let run = fs::read_dir(runs).unwrap().flatten().next().unwrap().path();
    let capsules = fs::read_dir(run.join("capsules"))
        .unwrap_or_else(|error| panic!("{error}: {}", run.display()));
    capsules.flatten().map(|entry| entry.path()).collect()
}

#[test]
fn capsules_of_real_jvms_end_as_they_say() {
    for jdk in jdks() {
        let runs = folder();
        let capsules = capture(&jdk, runs.path());
        assert!(!capsules.is_empty());
        for capsule in capsules {
            same_again(&capsule, runs.path());
            a_debugger_opens(&capsule, runs.path());
            minimised_again(&capsule, runs.path());
        }
    }
}

/// What was put to a capsule's perturbation goes again, and twice gives the same file, to the last byte.
fn minimised_again(file: &Path, folder: &Path) {
    let minimise = |file: &Path, out: &Path| -> Value {
        let mut command = walkfuzz();
        command.arg("minimise").arg(file).arg("--out").arg(out);
        let output = command.arg("--json").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{errors}");
        json(&output.stdout)
    };
    let outs = ["1", "2", "3"].map(|name| folder.join(format!("minimised-{name}.wfcap")));
    let first = minimise(file, &outs[0]);
    eprintln!("note: {first}");
    // A register that no walk looks at, and a nudge there and back.
    let mut more = Capsule::read(file).unwrap();
    more.facts.perturbation.push_str(" r9~bit40 r8+=0x1230");
    let grown = folder.join("grown.wfcap");
    more.write(&grown).unwrap();
    let second = minimise(&grown, &outs[1]);
    assert_eq!(second["after"], first["after"]);
    let edits = |form: &Value| form["edits"].as_u64().unwrap();
    if first["before"]["tier"] == "T4" {
        assert!(second["walks"].as_u64().unwrap() > 100, "{second}");
        assert_eq!(edits(&second["before"]), edits(&first["before"]) + 2);
        assert!(edits(&second["after"]) <= edits(&first["before"]));
    }
    minimise(&outs[1], &outs[2]);
    let bytes = outs.each_ref().map(|path| fs::read(path).unwrap());
    assert!(
        bytes[0] == bytes[1] && bytes[1] == bytes[2],
        "{first} {second}"
    );
    replay(&outs[2]).args(["--times", "20"]).assert().code(0);
    // What the search needs to know is said to be missing.
    more.facts.perturbed = None;
    more.write(&grown).unwrap();
    let mut command = walkfuzz();
    let sentence = "it does not say what its context was before it was perturbed";
    fails(command.arg("minimise").arg(&grown), 2, sentence);
}

fn same_again(file: &Path, folder: &Path) {
    let answer = |arguments: &[&str]| -> Option<Value> {
        let output = replay(file).args(arguments).arg("--json").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if errors.contains("this program lies where") {
            return None;
        }
        assert_eq!(output.status.code(), Some(0), "{errors}");
        Some(json(&output.stdout))
    };
    for (arguments, walks) in [
        (&["--times", "100"][..], 100),
        (&["--times", "5000", "--loop"][..], 5000),
        (&["--times", "100000", "--in-process"][..], 100_000),
    ] {
        let said = (0..TRIES).find_map(|_| answer(arguments)).unwrap();
        eprintln!(
            "note: {}: {} {}, {:.2} ms, {:.0}/s",
            said["jvm"],
            said["signature"],
            said["how"],
            said["milliseconds_mean"],
            said["per_second"]
        );
        assert_eq!(said["verdict"], "identical");
        assert_eq!(
            (&said["times"], &said["identical"]),
            (&walks.into(), &walks.into())
        );
        assert!(said["milliseconds_mean"].as_f64().unwrap() < 100.0);
        let is_timed = said["milliseconds_median"].is_f64();
        assert_eq!(is_timed, said["how"] != "in-process", "{said}");
    }
    no_code_of_libc(&Capsule::read(file).unwrap());
    let small = folder.join("small.wfcap");
    replay(file).arg("--refer").arg(&small).assert().code(0);
    let sizes = [file, &small].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes[1] * 2 < sizes[0] && sizes[1] < 12 << 10, "{sizes:?}");
    replay(&small).assert().code(0);

    let changed = |name: &str, change: &dyn Fn(&mut Capsule)| {
        let path = folder.join(name);
        let mut capsule = Capsule::read(&small).unwrap();
        change(&mut capsule);
        capsule.write(&path).unwrap();
        path
    };
    // Another expectation: what is different is named.
    let other = changed("other.wfcap", &|capsule| {
        if let Outcome::Fault(fault) = &mut capsule.facts.expected {
            fault.address = Address(0x1234);
        }
    });
    let output = replay(&other).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("different: 0 of 1"), "{said}");
    assert!(said.contains("address: expected 0x1234, got"), "{said}");
    // Of a JVM that is not here; its path in the file means nothing.
    let foreign = changed("foreign.wfcap", &|capsule| {
        capsule.facts.files[0].identity = "00ff".into();
        capsule.facts.files[0].path = "../../../etc/passwd".into();
    });
    let sentence = "unknown: needs build id 00ff (libjvm.so of JDK ";
    fails(&mut replay(&foreign), 4, sentence);
    // mov eax, 59 (execve); syscall
    let capsule = Capsule::read(file).unwrap();
    let path = folder.join("execve.wfcap");
    let mut evil = capsule;
    let at = evil.facts.entry.function.0;
    let code = [0xb8, 59, 0, 0, 0, 0x0f, 0x05];
    for (address, byte) in (at..).zip(code) {
        let page = evil.pages.get_mut(&(address & !4095)).unwrap();
        if let Content::Bytes(bytes) = &mut page.entry {
            bytes[(address & 4095) as usize] = byte;
        }
    }
    evil.write(&path).unwrap();
    fails(
        &mut replay(&path),
        2,
        "refused: its walk wants to make system call 59",
    );
}

/// gdb shows the registers and the native backtrace of the fault.
fn a_debugger_opens(file: &Path, folder: &Path) {
    let core = folder.join("walk.core");
    let packed = fs::File::open(file).unwrap();
    fs::write(&core, zstd::decode_all(packed).unwrap()).unwrap();
    let output = std::process::Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "set pagination off", "-c"])
        .arg(&core)
        .args([
            "-ex",
            "sharedlibrary",
            "-ex",
            "bt 1",
            "-ex",
            "info registers",
        ])
        .args(["-ex", "x/i $pc"])
        .output();
    let Ok(output) = output else {
        eprintln!("skip: no gdb on this machine");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let facts = Capsule::read(file).unwrap().facts;
    let Outcome::Fault(fault) = facts.expected else {
        panic!("{}", facts.expected);
    };
    assert!(
        said.contains("Program terminated with signal SIG"),
        "{said}"
    );
    let names = fault.registers.arch.register_names().iter();
    for (name, word) in names.zip(fault.registers.words) {
        let line = said
            .lines()
            .find(|line| line.split_whitespace().next() == Some(*name));
        let shown = line.and_then(|line| line.split_whitespace().nth(1));
        assert_eq!(shown, Some(format!("{word:#x}").as_str()), "{name}: {said}");
    }
    // The signature names the function that faulted.
    let function = facts.signature.split('|').nth(1).unwrap();
    let begin = format!("#0  {:#018x} in {function}", fault.registers.pc().0);
    let top = said.lines().filter(|line| line.starts_with(&begin));
    assert!(top.count() >= 1, "{begin}: {said}");
}

/// Another libc changes nothing, and its code is nobody's to pass on.
fn no_code_of_libc(capsule: &Capsule) {
    let facts = &capsule.facts;
    eprintln!("note: shims {:?} {}", facts.shims, facts.libc_code);
    let libc = facts
        .files
        .iter()
        .find(|file| file.name.starts_with("libc."));
    let mappings = &libc.unwrap().mappings;
    assert!(mappings.len() > 2, "{mappings:?}");
    let code = capsule
        .pages
        .iter()
        .filter(|(_, page)| page.protection.execute());
    let of_libc = code.filter(|(address, _)| {
        let mut holding = mappings.iter();
        holding.any(|mapping| (mapping.start..mapping.end).contains(address))
    });
    assert_eq!(of_libc.count(), 0, "{}", facts.libc_code);
}

#[test]
fn what_is_no_capsule_is_said_in_a_sentence() {
    let home: TempDir = folder();
    let write = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let good = example().to_bytes().unwrap();
    for (path, sentence) in [
        (home.path().join("none"), "No such file"),
        (home.path().to_owned(), "Is a directory"),
        (write("empty", b""), "no zstd stream"),
        (write("text", b"no capsule"), "no zstd stream"),
        (write("cut", &good[..good.len() / 2]), "no zstd stream"),
    ] {
        fails(&mut replay(&path), 2, sentence);
    }
    let mut other = example();
    other.facts.page_size = 65536;
    let path = write("pages", &other.to_bytes().unwrap());
    fails(&mut replay(&path), 2, "pages of 65536 bytes");
    let mut other = example();
    other.facts.arch = "s390x".into();
    let path = write("arch", &other.to_bytes().unwrap());
    fails(&mut replay(&path), 2, "is for s390x");
    // A link is followed, and what it leads to is no capsule.
    let link = home.path().join("link.wfcap");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    fails(&mut replay(&link), 2, "no zstd stream");
    let left = fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 6, "nothing was written");
}
