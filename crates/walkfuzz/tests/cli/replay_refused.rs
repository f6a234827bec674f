//! `walkfuzz replay` on machines that lack what it takes: one sentence says what is missing and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use walkfuzz_capsule::{Content, example};

use crate::support::{fails, folder, walkfuzz};

/// A capsule that needs no other file. Its walk faults at once, for its code is zeros.
fn capsule(folder: &Path) -> PathBuf {
    let mut capsule = example();
    for page in capsule.pages.values_mut() {
        if matches!(page.entry, Content::File { .. }) {
            page.entry = Content::Zero;
        }
    }
    let path = folder.join("walk.wfcap");
    capsule.write(&path).unwrap();
    path
}

/// What `walkfuzz replay` says where the kernel answers these system calls with an error.
fn replay_without(calls: &[i64], errno: i32, file: &Path, more: &[&str]) -> Output {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let action = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    let mut command = walkfuzz();
    command.arg("replay").arg(file).args(more);
    // A filter is the thread's and its children's.
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&program).unwrap();
        command.output().unwrap()
    });
    thread.join().unwrap()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn without_ptrace_the_filter_is_named() {
    let home = folder();
    let file = capsule(home.path());
    // The same capsule where nothing is forbidden: another outcome than it expects, which is an answer.
    let free = replay_without(&[], libc::EPERM, &file, &[]);
    assert_eq!(free.status.code(), Some(1), "{free:?}");
    for errno in [libc::EPERM, libc::ENOSYS] {
        let refused = replay_without(&[libc::SYS_ptrace], errno, &file, &[]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(refused.stdout.is_empty());
        assert_eq!(said.lines().count(), 1, "{said}");
        let start =
            "error: this process may not trace its own child: a seccomp filter refuses it (";
        assert!(said.starts_with(start), "{said}");
        assert!(said.contains("--cap-add=SYS_PTRACE"), "{said}");
    }
    let left = fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 1, "nothing is written");
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn without_the_bulk_write_it_replays_all_the_same() {
    let home = folder();
    let file = capsule(home.path());
    let more = ["--loop", "--times", "50", "--json"];
    let [with, without] = [&[][..], &[libc::SYS_process_vm_writev][..]].map(|calls| {
        let output = replay_without(calls, libc::EPERM, &file, &more);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = crate::support::json(&output.stdout);
        (said["times"].clone(), said["got"].clone())
    });
    assert_eq!(with, without);
    assert_eq!(with.0, 50);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn without_fsgsbase_the_fast_lane_says_so() {
    let home = folder();
    let file = capsule(home.path());
    // A kernel that does not offer the instructions: an auxiliary vector that does not name them.
    let source = home.path().join("auxv.c");
    fs::write(
        &source,
        "unsigned long getauxval(unsigned long type) { (void)type; return 0; }\n",
    )
    .unwrap();
    let library = home.path().join("auxv.so");
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skip: no C compiler (cc) on this machine");
        return;
    }
    let mut command = walkfuzz();
    command.arg("replay").arg(&file).arg("--in-process");
    command.env("LD_PRELOAD", &library);
    let sentence = "lacks the instructions that set the thread pointer (fsgsbase): replay without --in-process";
    fails(&mut command, 3, sentence);
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn without_its_libjvm_it_is_unknown() {
    let home = folder();
    let file = home.path().join("walk.wfcap");
    // Its pages by reference are of a build that nobody has.
    example().write(&file).unwrap();
    for more in [&[][..], &["--in-process"], &["--loop"]] {
        let mut command = walkfuzz();
        command.arg("replay").arg(&file).args(more);
        let sentence = "unknown: needs build id abcd (libjvm.so of JDK 17.0.15)";
        fails(&mut command, 4, sentence);
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn a_page_over_the_replayer_itself_is_named() {
    // Where Linux puts a program if it is told not to choose at random.
    const PROGRAM: u64 = 0x5555_5555_4000;
    let home = folder();
    let mut capsule = example();
    for page in capsule.pages.values_mut() {
        page.entry = Content::Zero;
    }
    let page = capsule.pages.values().next().unwrap().clone();
    capsule.pages.insert(PROGRAM, page);
    let file = home.path().join("over.wfcap");
    capsule.write(&file).unwrap();
    let program = walkfuzz();
    let replay = |more: &[&str]| {
        std::process::Command::new("setarch")
            .arg("-R")
            .arg(program.get_program())
            .arg("replay")
            .arg(&file)
            .args(more)
            .output()
    };
    let Ok(fast) = replay(&["--in-process"]) else {
        eprintln!("skip: no setarch on this machine");
        return;
    };
    let said = String::from_utf8(fast.stderr).unwrap();
    assert_eq!(fast.status.code(), Some(3), "{said}");
    let sentence =
        format!("error: this program lies where the capsule's page at {PROGRAM:#x} must be");
    assert!(said.starts_with(&sentence), "{said}");
    // The judge's process has nothing left that could be in the way.
    let judged = replay(&[]).unwrap();
    assert_eq!(judged.status.code(), Some(1), "{judged:?}");
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn a_path_in_a_capsule_is_never_opened() {
    let home = folder();
    let planted = home.path().join("planted");
    fs::write(&planted, [0x90; 1 << 16]).unwrap();
    let link = home.path().join("libjvm.so");
    std::os::unix::fs::symlink(&planted, &link).unwrap();
    let above = format!(
        "{}/../{}/planted",
        home.path().display(),
        home.path().file_name().unwrap().display()
    );
    for (name, path) in [
        ("libjvm.so", planted.display().to_string()),
        ("libjvm.so", link.display().to_string()),
        ("libjvm.so", above),
        ("../libjvm.so", planted.display().to_string()),
        ("../../etc/passwd", "/etc/passwd".to_owned()),
    ] {
        let mut capsule = example();
        (capsule.facts.files[0].name, capsule.facts.files[0].path) = (name.into(), path);
        let file = home.path().join("walk.wfcap");
        capsule.write(&file).unwrap();
        let mut command = walkfuzz();
        command.arg("replay").arg(&file);
        let sentence = format!("unknown: needs build id abcd ({name} of JDK 17.0.15)");
        fails(&mut command, 4, &sentence);
    }
    let left = fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 3, "nothing is written");
}

/// A capsule whose walk runs this code.
fn with_code(folder: &Path, bytes: &[u8]) -> PathBuf {
    let mut capsule = example();
    for page in capsule.pages.values_mut() {
        page.entry = Content::Zero;
    }
    let at = capsule.facts.entry.function.0;
    let mut code = [0; 4096];
    for (offset, byte) in ((at % 4096) as usize..).zip(bytes) {
        code[offset] = *byte;
    }
    let page = capsule.pages.get_mut(&(at & !4095)).unwrap();
    page.entry = Content::Bytes(Box::new(code));
    let file = folder.join("code.wfcap");
    capsule.write(&file).unwrap();
    file
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn a_capsule_that_calls_execve_is_refused_in_both_lanes() {
    let home = folder();
    // mov eax, 59; syscall
    let file = with_code(home.path(), &[0xb8, 59, 0, 0, 0, 0x0f, 0x05]);
    for more in [&[][..], &["--loop"], &["--in-process"]] {
        let mut command = walkfuzz();
        command.arg("replay").arg(&file).args(more);
        fails(
            &mut command,
            2,
            "refused: its walk wants to make system call 59",
        );
    }
}

/// The fast lane's child may still end; and a call of the kernel as 32-bit programs make it kills. Neither is the machine's fault.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn a_capsule_that_ends_the_fast_lane_is_refused() {
    let home = folder();
    for code in [
        // mov eax, 231 (exit_group); xor edi, edi; syscall
        &[0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05][..],
        // mov eax, 1 (exit, as 32-bit programs number it); int 0x80
        &[0xb8, 1, 0, 0, 0, 0xcd, 0x80],
    ] {
        let file = with_code(home.path(), code);
        let mut command = walkfuzz();
        command.arg("replay").arg(&file).arg("--in-process");
        fails(
            &mut command,
            2,
            "refused: its walk ended the sandboxed process",
        );
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "replays on x86_64 only")]
fn a_ctrl_c_ends_with_what_there_is() {
    let home = folder();
    let file = capsule(home.path());
    for more in [&[][..], &["--loop"], &["--in-process"]] {
        let mut command = std::process::Command::new(walkfuzz().get_program());
        command.args(["replay", "--json", "--times", "1000000000"]);
        let child = command
            .args(more)
            .arg(&file)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(700));
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{more:?} {output:?}");
        let said = crate::support::json(&output.stdout);
        assert_eq!(said["interrupted"], true, "{said}");
        let walks = said["times"].as_u64().unwrap();
        assert!(walks > 0 && walks < 1_000_000_000, "{more:?} {said}");
    }
}

#[test]
fn with_json_a_refusal_is_an_answer_too() {
    let home = folder();
    let file = home.path().join("walk.wfcap");
    example().write(&file).unwrap();
    let answer = |word: &str, file: &Path, code: i32| {
        let output = walkfuzz().arg(word).arg(file).arg("--json").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = crate::support::json(&output.stdout);
        assert_eq!(said["exit_code"], code);
        let errors = String::from_utf8(output.stderr).unwrap();
        let error = said["error"].as_str().unwrap().to_owned();
        assert_eq!(errors, format!("error: {error}\n"));
        (said["verdict"].clone(), error)
    };
    if cfg!(target_arch = "x86_64") {
        let (verdict, error) = answer("replay", &file, 4);
        assert_eq!(verdict, "unknown");
        assert!(error.contains("needs build id abcd"), "{error}");
    }
    let (verdict, error) = answer("minimise", &capsule(home.path()), 2);
    assert_eq!(verdict, "error");
    assert!(error.contains("cannot be minimised: "), "{error}");
}
