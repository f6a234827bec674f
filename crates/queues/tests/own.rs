//! ASGST's queue and iterators in a JVM in this process: nothing is wrong with walkfuzz's own, and each mutant is found and rightly named.
//!
//! A process can have one JVM, so that the test runs itself again for each JDK.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use walkfuzz_asgst::api::{IteratorApi, QueueApi};
use walkfuzz_context::element::element;
use walkfuzz_context::generate::Rng;
use walkfuzz_context::{Arch, MAX_WALKS};
use walkfuzz_harness::Settings;
use walkfuzz_jvm::{Jdk, Places};
use walkfuzz_queues::own::elements::Elements;
use walkfuzz_queues::own::mutants::{IteratorMutant, QueueMutant};
use walkfuzz_queues::own::{Held, iterator_ops, operations, queue_ops};

use arbitrary::{Arbitrary, Unstructured};
use walkfuzz_context::generate::Dice;

/// Inputs within which a mutant is found.
const INPUTS: u64 = 400;
/// Inputs in which nothing is found in walkfuzz's own.
const OWN: u64 = 60;

/// Operations from a seed, as libFuzzer's bytes give them, and a number.
fn drawn<T: for<'a> Arbitrary<'a>>(seed: u64) -> (u8, Vec<T>) {
    let mut rng = Rng::new(seed);
    let bytes: Vec<u8> = (0..120).map(|_| rng.word() as u8).collect();
    (rng.word() as u8, operations(Unstructured::new(&bytes)))
}

fn queue_of(mutant: QueueMutant) -> &'static str {
    match mutant {
        QueueMutant::OneLess => "capacity: ",
        QueueMutant::NeverFull => "full: ",
        QueueMutant::ResizeDrops | QueueMutant::Loses => "lost: ",
        QueueMutant::IndexOffByOne => "index: ",
        QueueMutant::StaysOpen => "ended: ",
        QueueMutant::Twice => "duplicate: ",
    }
}

fn iterator_of(mutant: IteratorMutant) -> &'static str {
    match mutant {
        IteratorMutant::LinesSwapped => "lines: ",
        IteratorMutant::NoRewind => "rewind: ",
        IteratorMutant::NestedEndsOuter => "nested: ",
        IteratorMutant::Outlives => "after the end: ",
    }
}

fn queue_mistake(held: &mut Held, api: &QueueApi, inputs: u64) -> Option<(u64, String)> {
    (0..inputs).find_map(|seed| {
        let mistake = queue_ops::run(held, api, &drawn(seed).1).unwrap();
        mistake.map(|mistake| (seed + 1, mistake.to_string()))
    })
}

fn iterator_mistake(held: &mut Held, api: &IteratorApi, inputs: u64) -> Option<(u64, String)> {
    (0..inputs).find_map(|seed| {
        let (options, ops) = drawn(seed);
        let fresh = seed % 16 == 0;
        let mistake = iterator_ops::run(held, api, options, &ops, fresh).unwrap();
        mistake.map(|mistake| (seed + 1, mistake.to_string()))
    })
}

fn elements(held: &mut Held, api: &QueueApi) {
    let mut queue = Elements::new(held, api, MAX_WALKS).unwrap();
    let mut rng = Rng::new(5);
    for input in 0..OWN {
        let words = queue.words().to_vec();
        let edits: Vec<_> = (0..MAX_WALKS)
            .map(|_| element(&mut rng, &words, Arch::NATIVE))
            .collect();
        let mistake = queue.run(held, api, &edits, input % 2 == 1).unwrap();
        assert_eq!(mistake, None, "input {input}");
    }
    println!(
        "{} elements edited, none handed out otherwise than once",
        queue.edited
    );
    assert!(queue.edited > OWN * 10);
}

#[test]
fn our_own_holds_and_mutants_are_found_on_each_jdk() {
    let mut jdks: Vec<Jdk> = Places::from_env()
        .discover()
        .into_iter()
        .filter_map(|candidate| candidate.jdk.ok())
        .collect();
    jdks.sort_by_key(|jdk| jdk.version.feature());
    jdks.dedup_by_key(|jdk| jdk.version.feature());
    if jdks.is_empty() {
        println!("skip: there is no JDK here");
    }
    for jdk in jdks {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "on_one_jdk", "--nocapture"])
            .env("WALKFUZZ_JDK", &jdk.home)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        println!("JDK {}:\n{said}", jdk.version);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "JDK {}: {complaint}", jdk.version);
        assert!(said.contains("Loses: found"), "{said}");
    }
}

#[test]
#[ignore = "run for each JDK by the other test"]
fn on_one_jdk() {
    let runs = tempfile::tempdir().unwrap();
    let mut settings = Settings::from_environment().unwrap();
    settings.runs = runs.path().to_owned();
    let mut held = Held::start(&settings).unwrap();
    let (queue, iterator) = (held.api.queue.unwrap(), held.api.iterator.unwrap());
    assert_eq!(iterator_mistake(&mut held, &iterator, 4 * OWN), None);
    assert_eq!(queue_mistake(&mut held, &queue, OWN), None);
    elements(&mut held, &queue);
    for mutant in IteratorMutant::ALL {
        let found = iterator_mistake(&mut held, &mutant.api(), INPUTS);
        let (inputs, what) = found.unwrap_or_else(|| panic!("{mutant:?} was not found"));
        println!("{mutant:?}: found in {inputs} inputs: {what}");
        assert!(what.starts_with(iterator_of(mutant)), "{mutant:?}: {what}");
    }
    for mutant in QueueMutant::ALL {
        let found = queue_mistake(&mut held, &mutant.api(), INPUTS);
        let (inputs, what) = found.unwrap_or_else(|| panic!("{mutant:?} was not found"));
        println!("{mutant:?}: found in {inputs} inputs: {what}");
        assert!(what.starts_with(queue_of(mutant)), "{mutant:?}: {what}");
    }
}
