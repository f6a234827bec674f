//! Signatures: text, hash, title.

use proptest::prelude::*;
use walkfuzz_context::Tier;
use walkfuzz_triage::{Kind, Signal, Signature};

fn segv() -> Signature {
    Signature::new(
        Kind::Signal(Signal::Segv),
        "nmethod::get_original_pc",
        "agct",
    )
}

#[test]
fn titles() {
    let guarantee = Signature::new(Kind::Guarantee, "frame::sender", "agct");
    let detailed = guarantee
        .clone()
        .with_detail("frame.cpp:346 guarantee(cb != nullptr) failed");
    let breach = Signature::new(Kind::Breach, "AsyncGetCallTrace", "agct");
    let wrong = Signature::new(Kind::WrongFrames, "other bci at frame 0", "agct")
        .with_detail(Signature::disagreement("reference", None));
    assert_eq!(wrong.oracle(), Some("reference"));
    let why = Signature::disagreement("reference", Some("half a frame, and more"));
    assert_eq!(wrong.clone().with_detail(why).oracle(), Some("reference"));
    assert_eq!(breach.oracle(), None);
    let titles = [
        segv().title(Some(Tier::T1)),
        Signature::new(Kind::Hang, "CodeCache::find_blob", "agct").title(Some(Tier::T4)),
        guarantee.title(None),
        detailed.title(Some(Tier::T0)),
        guarantee.with_detail("frame.cpp:346").title(None),
        breach.title(None),
        breach.clone().with_detail("canary").title(None),
        Signature::new(Kind::WrongFrames, "frame::sender", "jfr").title(Some(Tier::T2)),
        wrong.title(Some(Tier::T1)),
        Signature::new(Kind::Abort, "os::abort", "agct").title(None),
    ];
    insta::assert_snapshot!(titles.join("\n"), @r"
    SIGSEGV in nmethod::get_original_pc via agct [T1]
    hang in CodeCache::find_blob via agct [T4]
    guarantee failed in frame::sender via agct
    guarantee(cb != nullptr) failed at frame.cpp:346 via agct [T0]
    guarantee failed at frame.cpp:346 via agct
    breach of contract in AsyncGetCallTrace via agct
    breach of contract (canary) in AsyncGetCallTrace via agct
    wrong frames at frame::sender via jfr [T2]
    wrong frames of agct: other bci at frame 0, reference disagrees [T1]
    abort in os::abort via agct
    ");
}

#[test]
fn text_and_hash_are_stable() {
    // Stores and file names hold these: a change breaks them.
    assert_eq!(segv().to_string(), "SIGSEGV|nmethod::get_original_pc|agct");
    assert_eq!(segv().id().to_string(), "aa9c77757fef9e68");
    assert_eq!(segv().id().to_string().parse(), Ok(segv().id()));
    let odd = Signature::new(Kind::Signal(Signal::Other(34)), "a|b%", "x\ny").with_detail("d|");
    assert_eq!(odd.to_string(), "SIG34|a%7cb%25|x%0ay|d%7c");
}

#[test]
fn wrong_texts_are_refused() {
    for (text, message) in [
        (
            "SIGSEGV|f",
            "a signature has 3 or 4 fields separated by `|`, not 2",
        ),
        (
            "SIGSEGV|f|w|d|e",
            "a signature has 3 or 4 fields separated by `|`, not 5",
        ),
        (
            "SIGFOO|f|w",
            "`SIGFOO` is neither a signal nor hang, abort, death, guarantee, wrong-frames or breach",
        ),
        (
            "SIG11|f|w",
            "`SIG11` is neither a signal nor hang, abort, death, guarantee, wrong-frames or breach",
        ),
        (
            "SIG+40|f|w",
            "`SIG+40` is neither a signal nor hang, abort, death, guarantee, wrong-frames or breach",
        ),
        ("hang|f%|w", "`f%` holds a `%` that begins no escape"),
    ] {
        assert_eq!(text.parse::<Signature>().unwrap_err().to_string(), message);
    }
    assert!("123".parse::<walkfuzz_triage::SignatureId>().is_err());
    assert!(
        "+123456789abcdef"
            .parse::<walkfuzz_triage::SignatureId>()
            .is_err()
    );
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1..=64).prop_map(|n| Kind::Signal(Signal::from_number(n).unwrap())),
        Just(Kind::Hang),
        Just(Kind::Abort),
        Just(Kind::Guarantee),
        Just(Kind::WrongFrames),
        Just(Kind::Breach),
    ]
}

proptest! {
    #[test]
    fn text_round_trips(kind in kinds(), function in "\\PC*|[a-z|%\n\r0-9]*", walker in "[a-z|%]*", detail in proptest::option::of("[a-z|%: ]+")) {
        let mut signature = Signature::new(kind, function, walker);
        signature.detail = detail;
        let text = signature.to_string();
        prop_assert!(!text.contains('\n') && !text.contains('\r'));
        prop_assert_eq!(text.parse::<Signature>().unwrap(), signature.clone());
        let _ = signature.title(Some(Tier::T3));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        if let Ok(signature) = text.parse::<Signature>() {
            prop_assert_eq!(signature.to_string().parse::<Signature>().unwrap(), signature);
        }
    }

    #[test]
    fn signals_have_one_number(number in any::<i32>()) {
        match Signal::from_number(number) {
            Some(signal) => {
                prop_assert_eq!(signal.number(), number);
                prop_assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal);
            }
            None => prop_assert!(!(1..=64).contains(&number)),
        }
    }
}

#[test]
fn a_death_is_called_what_is_known_of_it() {
    use walkfuzz_triage::{Ended, Exit};

    let title = |ended: Ended, open_walk| {
        let signature = Signature::death(&ended.describe(), open_walk, "agct");
        assert_eq!(signature.to_string().parse(), Ok(signature.clone()));
        signature.title(Some(Tier::T4))
    };
    let killed = Ended::ByItself(Exit::Signal(9));
    assert_eq!(
        title(killed, true),
        "process killed by SIGKILL while walking via agct [T4]"
    );
    assert_eq!(
        title(killed, false),
        "process killed by SIGKILL, no walk open, after recoveries via agct [T4]"
    );
    assert_eq!(
        title(Ended::ByItself(Exit::Code(77)), true),
        "process exited with 77 while walking via agct [T4]"
    );
    assert_eq!(
        title(Ended::StoodStill, true),
        "process stood still while walking via agct [T4]"
    );
}
