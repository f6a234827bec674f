//! `walkfuzz minimise`: the smallest perturbation in a capsule, and no word of memory that it does not need.

use serde::Serialize;
use walkfuzz_capsule::{Capsule, Outcome};
use walkfuzz_harness::HarnessError;
use walkfuzz_harness::minimise_file::minimise_capsule;

use crate::cli::MinimiseArgs;
use crate::failure::Failure;
use crate::replay::{Jdks, read};
use crate::table::table;
use crate::{print, print_json};

/// A capsule's size, as a maintainer sees it.
#[derive(Serialize)]
struct Form {
    perturbation: String,
    tier: String,
    edits: usize,
    /// Pages.
    pages: usize,
    /// Words of data that are not zero, code left out.
    words: usize,
}

#[derive(Serialize)]
struct Answer {
    signature: String,
    before: Form,
    after: Form,
    /// Walks that the search took.
    walks: usize,
    /// `fault` where the very same fault was asked for, to the last register, and `frames` where the very same frames were; else `signature`.
    same: &'static str,
}

pub(crate) fn run(args: &MinimiseArgs) -> Result<(), Failure> {
    let mut capsule = read(&args.file)?;
    let mut jdks = Jdks::default();
    capsule.resolve(|file| jdks.find(file))?;
    // A signature names a function: its symbols are in the libjvm of this machine, wherever the capsule's was.
    let places: Vec<String> = capsule
        .facts
        .files
        .iter()
        .map(|file| file.path.clone())
        .collect();
    for file in &mut capsule.facts.files {
        if let Some(here) = jdks.find(file) {
            file.path = here.display().to_string();
        }
    }
    let mut minimised = minimise_capsule(&capsule).map_err(|error| {
        let text = format!("{}: {error}", args.file.display());
        match error {
            HarnessError::NoOpinion(_) => Failure::environment(text),
            _ => Failure::usage(text),
        }
    })?;
    for facts in [&mut capsule.facts, &mut minimised.capsule.facts] {
        for (file, place) in facts.files.iter_mut().zip(&places) {
            file.path.clone_from(place);
        }
    }
    if let Some(path) = &args.out {
        minimised
            .capsule
            .write(path)
            .map_err(Failure::environment)?;
    }
    let answer = Answer {
        signature: capsule.facts.signature.clone(),
        before: form(&capsule),
        after: form(&minimised.capsule),
        walks: minimised.walks,
        same: match (minimised.same_end, &capsule.facts.expected) {
            (false, _) => "signature",
            (true, Outcome::Fault(_)) => "fault",
            (true, Outcome::Frames(_)) => "frames",
        },
    };
    if args.json {
        print_json(&answer)
    } else {
        print(screen(&answer).as_bytes())
    }
}

fn form(capsule: &Capsule) -> Form {
    let facts = &capsule.facts;
    Form {
        perturbation: facts.perturbation.clone(),
        tier: facts
            .perturbed
            .as_ref()
            .map_or_else(String::new, |moment| moment.tier.clone()),
        edits: facts.perturbation.split_whitespace().count(),
        pages: capsule.pages.len(),
        words: capsule.words().count(),
    }
}

/// For people.
fn screen(answer: &Answer) -> String {
    let row = |name: &str, form: &Form| {
        vec![
            name.to_owned(),
            form.tier.clone(),
            form.edits.to_string(),
            form.pages.to_string(),
            form.words.to_string(),
            form.perturbation.clone(),
        ]
    };
    let head = ["", "tier", "edits", "pages", "words", "perturbation"];
    let rows = [
        head.map(str::to_owned).to_vec(),
        row("before", &answer.before),
        row("after", &answer.after),
    ];
    let how = match answer.walks {
        0 => format!(
            "its tier is {}, and what another perturbation's would be cannot be told without the JVM: none was tried",
            answer.before.tier
        ),
        walks => format!("{walks} walks"),
    };
    let note = match answer.same {
        "fault" => {
            "in this file the untouched registers end in the same function, for it has only the memory that its own walk needs: \
             the very same fault was asked for\n"
        }
        "frames" => {
            "in this file the untouched registers give frames that are wrong in the same way, for it has only the memory that its own walk needs: \
             the very same frames were asked for\n"
        }
        _ => "",
    };
    format!("{}: {how}\n{note}{}", answer.signature, table(&rows))
}
