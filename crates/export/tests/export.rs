//! What is written for a finding: C that compiles for every edit and value class, scripts that a shell reads, and refusals.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use walkfuzz_context::{Arch, Batch, DepthLimit, Edit, Perturbation, Register, Value, ValueClass};
use walkfuzz_export::{AGENT, Export, ExportError, FILES, README, SCRIPT};
use walkfuzz_record::Generation;
use walkfuzz_record::finding::{FaultSite, FindingBlob, FindingInput, FindingOutcome};
use walkfuzz_record::recorder::WalkerInfo;
use walkfuzz_record::{Finding, FindingVerdict, JvmFacts, MachineFacts, OutcomeKind, WitnessCount};

fn finding(perturbation: &str) -> Finding {
    Finding {
        schema: 1,
        id: "137e88e015f9".into(),
        signature: "SIGSEGV|JavaThread::pd_get_top_frame|agct".into(),
        title: "SIGSEGV in JavaThread::pd_get_top_frame via agct [T4]".into(),
        verdict: FindingVerdict::Robustness,
        tier: "T4".into(),
        witness: WitnessCount::default(),
        walker: WalkerInfo {
            name: "agct".into(),
            generation: Generation::Agct,
            version: "17.0.15".into(),
        },
        outcome: FindingOutcome {
            kind: OutcomeKind::Fault,
            signal: Some("SIGSEGV".into()),
            code: Some(1),
            code_name: None,
            address: None,
            detail: None,
            contradiction: None,
        },
        registers: Default::default(),
        site: Some(FaultSite {
            function: Some("JavaThread::pd_get_top_frame(frame*, void*, bool)".into()),
            module: Some("libjvm.so".into()),
            offset: Some("0xeb1496".into()),
            ..FaultSite::default()
        }),
        blob: FindingBlob {
            kind: "nmethod".into(),
            name: Some("java.lang.Object.<init>()V (level 3, id 1)".into()),
            offset: Some(33),
            offset_class: None,
        },
        input: FindingInput {
            perturbation: perturbation.into(),
            ..FindingInput::default()
        },
        engine: "live".into(),
        thread: 0,
        reliability: Default::default(),
        live: Vec::new(),
        first_seen: Timestamp::UNIX_EPOCH,
        last_seen: Timestamp::UNIX_EPOCH,
        count: 1,
        tainted: false,
        known: Vec::new(),
        moment: None,
        capsule: Default::default(),
        jvm: JvmFacts {
            version: "17.0.15".into(),
            vendor: "Debian".into(),
            build_id: "97da31".into(),
            collector: "default".into(),
            options: Vec::new(),
        },
        machine: MachineFacts {
            arch: Arch::NATIVE.name().into(),
            kernel: "6.1".into(),
            cpus: 2,
            emulated: false,
        },
        commands: Vec::new(),
    }
}

fn text(finding: &Finding, file: &str) -> String {
    let export = Export::of(finding, None).unwrap();
    let found = export.files.iter().find(|(name, _)| *name == file);
    found.unwrap().1.clone()
}

/// The body of the agent's `edit`, without its indentation.
fn edit_body(perturbation: &str) -> Vec<String> {
    let agent = text(&finding(perturbation), AGENT);
    let from = agent.find("static bool edit(").unwrap();
    let body = agent[from..].split_once("{\n").unwrap().1;
    let body = body.split_once("\n}\n").unwrap().0;
    body.lines().map(|line| line.trim().to_owned()).collect()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skip: no {program}");
    }
    found
}

fn compiles(compiler: &str, agent: &str) {
    let mut child = Command::new(compiler)
        .args([
            "-x",
            "c",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
        ])
        .args(["-Wno-missing-field-initializers", "-Werror", "-fPIC", "-S"])
        .args(["-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(agent.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn edits_become_statements_of_c() {
    if Arch::NATIVE != Arch::X86_64 {
        eprintln!("skip: the expected names are x86_64's");
        return;
    }
    assert_eq!(
        edit_body("pc=deopt-handler[2]+4 sp=1 fp=non-canonical[1]"),
        [
            "word value;",
            "if (!deopt_handler(t, 2, &value))",
            "return false;",
            "PC = value + 4;",
            "SP = 1;",
            "FP = 0xdeadbeefdeadbee8; /* non-canonical */",
            "return kind_at(PC) == NMETHOD;",
        ]
    );
    assert_eq!(
        edit_body("fp=&sp-24 sp+=8 rax~bit3 swap(pc,r10)"),
        [
            "word value;",
            "FP = SP + near(-24, 8, 32);",
            "SP += near(8, 8, 32);",
            "REGISTER(RAX) ^= 1ull << (near(3, 1, 32) & 63);",
            "value = PC, PC = REGISTER(R10), REGISTER(R10) = value;",
            "return kind_at(PC) == NMETHOD;",
        ]
    );
    assert_eq!(
        edit_body("untouched"),
        ["return kind_at(PC) == NMETHOD;"],
        "an untouched walk needs no edit"
    );
}

/// Every class and every edit on one register, on this machine's architecture and, where its compiler is there, the other.
#[test]
fn every_agent_compiles_without_a_warning() {
    let compilers = [
        (Arch::NATIVE, "cc"),
        (Arch::X86_64, "x86_64-linux-gnu-gcc"),
        (Arch::Aarch64, "aarch64-linux-gnu-gcc"),
    ];
    for (arch, compiler) in compilers {
        if (arch == Arch::NATIVE && compiler != "cc") || !has(compiler) {
            continue;
        }
        let register = arch.fp();
        let mut all: Vec<Edit> = ValueClass::ALL
            .into_iter()
            .filter(|class| *class != ValueClass::PollPage)
            .map(|class| Edit::Set {
                register,
                value: Value::new(class, 7, -300),
            })
            .collect();
        all.extend([
            Edit::Nudge {
                register,
                delta: i32::MIN,
            },
            Edit::Flip { register, bit: 63 },
            Edit::Swap {
                a: register,
                b: Register(3),
            },
            Edit::Alias {
                register,
                source: Register(2),
                delta: -8,
            },
            Edit::Sign {
                register,
                bits: 0x7f,
            },
        ]);
        let compiled = all.len();
        let mut perturbations: Vec<Perturbation> = all
            .chunks(1)
            .chain(all.chunks(6))
            .map(Perturbation::from_edits)
            .collect();
        perturbations.push(Perturbation::UNTOUCHED);
        for perturbation in perturbations {
            let mut finding = finding(&perturbation.display(arch).to_string());
            finding.machine.arch = arch.name().into();
            compiles(compiler, &text(&finding, AGENT));
        }
        assert!(compiled > 35, "{compiled}");
    }
}

#[test]
fn an_agent_holds_what_its_edits_need_and_no_directive() {
    let lean = text(&finding("pc=deopt-handler[0] sp=1"), AGENT);
    assert!(lean.contains("learn_handler(end)"));
    for absent in ["stack_word", "return_address", "zone(", "heap", "//@", "{{"] {
        assert!(!lean.contains(absent), "{absent}");
    }
    let full = text(&finding("pc=return-address[3] fp=red-zone[15]-9"), AGENT);
    for present in [
        "return_address(t, 3,",
        "red_zone(t, 15,",
        "static word spread(",
    ] {
        assert!(full.contains(present), "{present}");
    }
    assert!(!full.contains("learn_handler"));
    for file in [README, SCRIPT] {
        let text = text(&finding("sp=1"), file);
        assert!(!text.contains("{{") && !text.contains("//@"), "{text}");
    }
}

#[test]
fn the_artifact_says_how_many_frames() {
    let mut batch = Batch::untouched(Arch::NATIVE);
    batch.depth = DepthLimit::from_frames(8).unwrap();
    let export = Export::of(&finding("sp=1"), Some(&batch)).unwrap();
    assert!(export.files[0].1.contains("DEPTH = 8"));
    assert!(text(&finding("sp=1"), AGENT).contains("DEPTH = 64"));
}

#[test]
fn a_collector_is_kept_and_flags_are_default_otherwise() {
    let mut finding = finding("sp=1");
    assert!(text(&finding, SCRIPT).contains("bin/java\" -agentpath:"));
    finding.jvm.collector = "z".into();
    assert!(text(&finding, SCRIPT).contains("bin/java\" -XX:+UseZGC -agentpath:"));
}

#[test]
fn what_no_agent_can_do_is_refused_in_a_sentence() {
    let refused = |change: &dyn Fn(&mut Finding)| {
        let mut finding = finding("sp=1");
        change(&mut finding);
        Export::of(&finding, None).unwrap_err().to_string()
    };
    for (kind, says) in [
        (OutcomeKind::Wrote, "wrote silently"),
        (OutcomeKind::ProcessDeath, "the process died"),
        (OutcomeKind::Hang, "hung"),
        (OutcomeKind::Breach, "came back"),
    ] {
        let said = refused(&|finding| finding.outcome.kind = kind);
        assert!(
            said.contains(says) && said.contains("137e88e015f9"),
            "{said}"
        );
    }
    assert!(refused(&|finding| finding.walker.name = "other".into()).contains("other"));
    assert!(refused(&|finding| finding.machine.arch = "vax".into()).contains("vax"));
    assert!(refused(&|finding| finding.site = None).contains("not known"));
    let edits =
        |text: &'static str| refused(&move |finding| finding.input.perturbation = text.into());
    assert!(edits("sp=poll-page[0]").contains("poll-page"));
    assert!(edits("sp:=1").contains("cannot be read"));
}

/// Findings come from files, and files from elsewhere.
#[test]
fn text_of_a_finding_stays_text() {
    let mut finding = finding("sp=1");
    let evil = "*/ int evil; /*\n'; touch evil; '$(touch evil)`touch evil`\"; touch evil; \"\\";
    finding.title = evil.into();
    finding.jvm.version = evil.into();
    finding.jvm.vendor = evil.into();
    finding.blob.name = Some(evil.into());
    finding.site.as_mut().unwrap().function = Some(evil.into());
    finding.site.as_mut().unwrap().module = Some(evil.into());
    finding.signature = format!("SIG{evil}|f|agct");
    if has("cc") {
        compiles("cc", &text(&finding, AGENT));
    }
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("export");
    Export::of(&finding, None).unwrap().write(&export).unwrap();
    // No JDK is there: the script reads itself up to that, which runs every assignment.
    let output = Command::new("sh")
        .arg(export.join(SCRIPT))
        .arg(folder.path().join("nowhere"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("no bin/java in"), "{errors}");
    assert_eq!(std::fs::read_dir(&export).unwrap().count(), FILES.len());
    let check = Command::new("sh")
        .arg("-n")
        .arg(export.join(SCRIPT))
        .status();
    assert!(check.unwrap().success());
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let export = Export::of(&finding("sp=1"), None).unwrap();
    export.write(folder.path()).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected = FILES;
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(matches!(
        export.write(folder.path()),
        Err(ExportError::NotEmpty { .. })
    ));
    assert!(matches!(
        export.write(&folder.path().join(AGENT).join("below")),
        Err(ExportError::Write { .. })
    ));
}
