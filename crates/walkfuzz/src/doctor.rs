//! `walkfuzz doctor`: what this machine can run, and for each missing thing the command that brings it.

use std::fs::read_to_string;
use std::io::{IoSlice, IoSliceMut};

use serde::Serialize;
use walkfuzz_context::Arch;
use walkfuzz_record::machine::emulator;

use crate::cli::OutputArgs;
use crate::extensions;
use crate::failure::{ENVIRONMENT, Failure};
use crate::jdk::{self, JdkRow};
use crate::table::table;
use crate::tools::{self, CARGO_AFL, CARGO_FUZZ, RUSTC, says, version_in};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// A fact that limits something, or an optional thing that is not there.
    Note,
    Missing,
}

#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    state: State,
    found: String,
    /// The command that brings it.
    remedy: Option<String>,
}

impl Row {
    fn fact(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    fn note(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Note,
            found: found.into(),
            remedy: None,
        }
    }

    /// A program that must be there.
    fn needed(what: &'static str, found: Option<String>, remedy: &str) -> Self {
        match found {
            Some(found) => Self::fact(what, found),
            None => Self {
                what,
                state: State::Missing,
                found: "not found".to_owned(),
                remedy: Some(remedy.to_owned()),
            },
        }
    }
}

#[derive(Serialize)]
struct Diagnosis {
    ready: bool,
    can_step: bool,
    emulated: bool,
    checks: Vec<Row>,
    jdks: Vec<JdkRow>,
}

pub(crate) fn run(args: &OutputArgs) -> Result<(), Failure> {
    let jdks = jdk::found();
    let mut checks = machine();
    checks.extend(programs());
    let usable = jdks.iter().filter(|jdk| jdk.usable).count();
    let said = (usable > 0).then(|| format!("{usable} usable of {}", jdks.len()));
    checks.push(Row::needed(
        "JDK",
        said,
        &format!("walkfuzz jdk install {}", walkfuzz_jvm::DEFAULT_JDK),
    ));
    if usable > 0 {
        let homes: Vec<&str> = jdks
            .iter()
            .filter(|jdk| jdk.usable)
            .map(|jdk| jdk.home.as_str())
            .collect();
        let said = extensions::request_stack_trace(&homes);
        checks.push(Row::note("RequestStackTrace", said));
    }
    let ready = checks.iter().all(|row| row.state != State::Missing);
    let diagnosis = Diagnosis {
        ready,
        can_step: walkfuzz_engine::can_step(),
        emulated: emulator().is_some(),
        checks,
        jdks,
    };
    if args.json {
        crate::print_json(&diagnosis)?;
    } else {
        crate::print(for_people(&diagnosis).as_bytes())?;
    }
    if ready {
        Ok(())
    } else {
        Err(Failure::said(ENVIRONMENT))
    }
}

fn for_people(diagnosis: &Diagnosis) -> String {
    let rows: Vec<Vec<String>> = diagnosis
        .checks
        .iter()
        .map(|row| {
            let mark = match row.state {
                State::Ok => "ok",
                State::Note => "..",
                State::Missing => "--",
            };
            let remedy = row
                .remedy
                .as_ref()
                .map(|remedy| format!("; bring it with: {remedy}"))
                .unwrap_or_default();
            vec![
                mark.to_owned(),
                row.what.to_owned(),
                format!("{}{remedy}", row.found),
            ]
        })
        .collect();
    let mut text = table(&rows);
    if !diagnosis.jdks.is_empty() {
        let rows: Vec<_> = diagnosis.jdks.iter().map(JdkRow::cells).collect();
        text.push_str(&format!("\n{}", table(&rows)));
    }
    let missing = diagnosis
        .checks
        .iter()
        .filter(|row| row.state == State::Missing)
        .count();
    text.push_str(&match missing {
        0 => "\nready: walkfuzz fuzz\n".to_owned(),
        1 => "\n1 thing is missing\n".to_owned(),
        more => format!("\n{more} things are missing\n"),
    });
    text
}

fn machine() -> Vec<Row> {
    let file = |path: &str| read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let scope = match file("/proc/sys/kernel/yama/ptrace_scope") {
        None => Row::fact(
            "ptrace scope",
            "no Yama: processes of one user may trace each other",
        ),
        Some(scope) if scope == "0" => Row::fact("ptrace scope", "0"),
        Some(scope) => Row::note(
            "ptrace scope",
            format!("{scope}: only children can be traced"),
        ),
    };
    let vm_read = if can_read_memory() {
        Row::fact("process_vm_readv", "works")
    } else {
        Row::note(
            "process_vm_readv",
            "refused: memory of other processes cannot be read",
        )
    };
    let perf = match file("/proc/sys/kernel/perf_event_paranoid") {
        None => Row::note("perf events", "not in this kernel"),
        Some(level) if level.parse::<i32>().is_ok_and(|level| level <= 2) => {
            Row::fact("perf_event_paranoid", level)
        }
        Some(level) => Row::note(
            "perf_event_paranoid",
            format!("{level}: perf events are for root"),
        ),
    };
    let step = if walkfuzz_engine::can_step() {
        Row::fact("single steps", "the step engine works")
    } else {
        Row::note("single steps", "not on this architecture: no step engine")
    };
    let arch = Arch::NATIVE.name();
    let architecture = match emulator() {
        None => Row::fact("architecture", arch),
        Some(by) => Row::note(
            "architecture",
            format!(
                "{arch}, emulated by {}: not its timing, its memory order, its pointer authentication",
                by.display()
            ),
        ),
    };
    vec![
        architecture,
        Row::fact(
            "kernel",
            file("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        ),
        Row::fact("cpus", cpus.to_string()),
        tick(),
        scope,
        vm_read,
        perf,
        step,
    ]
}

/// CONFIG_HZ is nowhere to be read, but the coarse clock moves once a tick.
fn tick() -> Row {
    let resolution = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE).ok();
    let hz = resolution.map(|tick| 1e9 / (tick.tv_sec() as f64 * 1e9 + tick.tv_nsec() as f64));
    match hz {
        Some(hz) => Row::fact(
            "kernel ticks",
            format!("{hz:.0} a second: CPU-time timers fire no more often"),
        ),
        None => Row::note("kernel ticks", "unknown"),
    }
}

fn can_read_memory() -> bool {
    let source = [0x5a_u8; 8];
    let mut target = [0_u8; 8];
    let from = nix::sys::uio::RemoteIoVec {
        base: IoSlice::new(&source).as_ptr() as usize,
        len: source.len(),
    };
    let me = nix::unistd::getpid();
    let read = nix::sys::uio::process_vm_readv(me, &mut [IoSliceMut::new(&mut target)], &[from]);
    read == Ok(source.len()) && target == source
}

fn programs() -> Vec<Row> {
    let version = |program| says(program, &["--version"]);
    let apt = |package: &str| format!("apt-get install -y --no-install-recommends {package}");
    let rustc = version("rustc");
    let recent = rustc
        .clone()
        .filter(|text| version_in(text).is_some_and(|version| version >= RUSTC));
    let mut rust = Row::needed("rustc", recent, "rustup default stable");
    if let (State::Missing, Some(found)) = (rust.state, rustc) {
        rust.found = format!("{found}, but {}.{} is needed", RUSTC.0, RUSTC.1);
        rust.remedy = Some("rustup update stable".to_owned());
    }
    let fuzz = match tools::cargo_fuzz() {
        Some(found) if !found.ends_with(CARGO_FUZZ) => Row::note(
            "cargo-fuzz",
            format!(
                "{found}; tried with {CARGO_FUZZ}: {}",
                tools::bring_cargo_fuzz()
            ),
        ),
        found => Row::needed("cargo-fuzz", found, &tools::bring_cargo_fuzz()),
    };
    let afl = match says("cargo", &["afl", "--version"]) {
        Some(found) => Row::fact("cargo-afl", found),
        None => Row::note(
            "cargo-afl",
            format!(
                "not found (optional); bring it with: cargo install cargo-afl --version {CARGO_AFL} --locked"
            ),
        ),
    };
    vec![
        Row::needed("git", version("git"), &apt("git")),
        Row::needed("C compiler", version("cc"), &apt("gcc")),
        Row::needed("C++ compiler", version("c++"), &apt("g++")),
        Row::needed("cargo", version("cargo"), "rustup default stable"),
        rust,
        fuzz,
        afl,
        Row::needed("python3", version("python3"), &apt("python3")),
        Row::needed(
            "pip",
            says("python3", &["-m", "pip", "--version"]),
            &apt("python3-pip"),
        ),
    ]
}
