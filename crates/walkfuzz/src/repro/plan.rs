//! What `repro` will do about a thing: which JVM, which inputs to begin with, what to look for.

use std::time::Duration;

use walkfuzz_harness::{is_at_hand, walkers_of};
use walkfuzz_jvm::{Jdk, Places, Version};
use walkfuzz_record::{Finding, JvmFacts, KnownMatch, RunFolder};
use walkfuzz_triage::corpus::Entry;
use walkfuzz_triage::crash_plan::worth_taking;

use crate::failure::Failure;
use crate::repro::campaign::{Aim, Campaign};

/// A campaign, and what to say beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What is reproduced, in words.
    pub(crate) what: String,
    /// What could not be taken over, in words.
    pub(crate) notes: Vec<String>,
    /// Issues that it looks like.
    pub(crate) known: Vec<KnownMatch>,
    /// The JDK.
    pub(crate) jdk: Jdk,
    pub(crate) campaign: Campaign,
}

/// What the user asks for beside the thing.
#[derive(Clone, Debug)]
pub(crate) struct Wishes {
    pub(crate) jdk: Option<String>,
    pub(crate) gc: Option<String>,
    pub(crate) budget: Duration,
}

/// Options that each run gets anyway, or that belong to the run they were used in.
const OURS: [&str; 6] = [
    "-Xmx",
    "-XX:ErrorFile=",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:-UsePerfData",
    "--add-exports=java.base/jdk.internal.vm=ALL-UNNAMED",
    "-Djava.class.path=",
];

impl Plan {
    /// For a finding: the same JDK, collector and options, and the finding's input.
    pub(crate) fn for_finding(
        run: &RunFolder,
        finding: &Finding,
        wishes: &Wishes,
    ) -> Result<Self, Failure> {
        is_at_hand(&finding.walker.name).map_err(Failure::usage)?;
        let mut notes = Vec::new();
        let jdk = same_jdk(&finding.jvm, wishes)?;
        if jdk_differs(&jdk, &finding.jvm) {
            notes.push(format!("it was found on {}", finding.jvm.version));
        }
        let artifact = finding.input.artifact.as_ref();
        let seeds: Vec<Vec<u8>> = artifact
            .and_then(|artifact| run.read_named(artifact).ok())
            .into_iter()
            .collect();
        if seeds.is_empty() {
            notes.push("its input is not kept: the campaign begins with none".to_owned());
        }
        let environment = environment(&jdk, Some(&finding.jvm), wishes);
        let mut environment = with_walkers(environment, &finding.signature)?;
        if finding.engine == "step" && finding.registers.edited.is_empty() {
            // An untouched context comes back at its instruction, where hardly any timer meets a thread.
            environment.push(("WALKFUZZ_ENGINE".to_owned(), finding.engine.clone()));
        }
        Ok(Self {
            what: format!("finding {}: {}", finding.id, finding.title),
            notes,
            known: finding.known.clone(),
            jdk,
            campaign: Campaign {
                aim: Aim {
                    signature: Some(finding.signature.clone()),
                    ..Aim::default()
                },
                seeds,
                only_given: false,
                budget: wishes.budget,
                environment,
            },
        })
    }

    /// For an input. Where nothing is known of what it did, any fault counts that its own walks make.
    pub(crate) fn for_input(
        what: String,
        input: Vec<u8>,
        aim: Aim,
        facts: Option<&JvmFacts>,
        wishes: &Wishes,
    ) -> Result<Self, Failure> {
        let jdk = match facts {
            Some(facts) => same_jdk(facts, wishes)?,
            None => Places::from_env().choose(wishes.jdk.as_deref())?,
        };
        Ok(Self {
            what,
            notes: Vec::new(),
            known: Vec::new(),
            campaign: Campaign {
                only_given: aim == Aim::default(),
                aim,
                seeds: vec![input],
                budget: wishes.budget,
                environment: environment(&jdk, facts, wishes),
            },
            jdk,
        })
    }

    /// For an entry of the corpus: its input on the JDK that it speaks of.
    pub(crate) fn for_entry(entry: &Entry, wishes: &Wishes) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let wanted = entry.jdk.as_ref();
        let version = wishes
            .jdk
            .as_deref()
            .or(wanted.map(|jdk| jdk.version.as_str()));
        let jdk = Places::from_env().choose(version)?;
        let mut wishes = wishes.clone();
        if let Some(wanted) = wanted {
            if wanted.build_id != jdk.identity {
                notes.push(format!(
                    "it was found on another build of {}",
                    wanted.version
                ));
            }
            let collector = Some(wanted.collector.clone()).filter(|name| !name.is_empty());
            wishes.gc = wishes.gc.or(collector);
        }
        Ok(Self {
            what: format!("entry {}: {}", entry.name, entry.title),
            notes,
            known: Vec::new(),
            campaign: Campaign {
                aim: Aim {
                    signature: Some(entry.signature.clone()),
                    ..Aim::default()
                },
                seeds: vec![entry.batch().to_bytes()],
                only_given: false,
                budget: wishes.budget,
                environment: with_walkers(environment(&jdk, None, &wishes), &entry.signature)?,
            },
            jdk,
        })
    }
}

/// The variables that make a child walk with what the signature speaks of.
pub(crate) fn with_walkers(
    mut environment: Vec<(String, String)>,
    signature: &str,
) -> Result<Vec<(String, String)>, Failure> {
    let walkers = walkers_of(signature).map_err(Failure::usage)?;
    let walkers = walkers.into_iter();
    environment.extend(walkers.map(|(name, value)| (name.to_owned(), value)));
    Ok(environment)
}

fn jdk_differs(jdk: &Jdk, facts: &JvmFacts) -> bool {
    jdk.version.to_string() != Version::release(&facts.version)
}

/// The JDK that is asked for, else the one that was walked.
fn same_jdk(facts: &JvmFacts, wishes: &Wishes) -> Result<Jdk, Failure> {
    let wanted = wishes
        .jdk
        .as_deref()
        .unwrap_or(Version::release(&facts.version));
    Ok(Places::from_env().choose(Some(wanted).filter(|wanted| !wanted.is_empty()))?)
}

/// The variables that make a child walk that JVM in the same way.
pub(crate) fn environment(
    jdk: &Jdk,
    facts: Option<&JvmFacts>,
    wishes: &Wishes,
) -> Vec<(String, String)> {
    let mut variables = vec![("WALKFUZZ_JDK".to_owned(), jdk.home.display().to_string())];
    let collector = wishes.gc.clone().or_else(|| {
        facts
            .map(|facts| facts.collector.clone())
            .filter(|collector| !collector.is_empty() && collector != "default")
    });
    variables.extend(collector.map(|gc| ("WALKFUZZ_GC".to_owned(), gc)));
    let Some(facts) = facts else {
        return variables;
    };
    let heap = facts
        .options
        .iter()
        .find_map(|option| option.strip_prefix("-Xmx"));
    variables.extend(heap.map(|heap| ("WALKFUZZ_HEAP".to_owned(), heap.to_owned())));
    let collectors = |option: &str| option.starts_with("-XX:+Use") && option.ends_with("GC");
    let extra: Vec<&str> = facts
        .options
        .iter()
        .map(String::as_str)
        .filter(|option| !OURS.iter().any(|ours| option.starts_with(ours)))
        .filter(|option| !collectors(option) && is_harmless(option))
        .collect();
    if !extra.is_empty() {
        variables.push(("WALKFUZZ_JAVA_OPTIONS".to_owned(), extra.join(" ")));
    }
    variables
}

/// Whether an option of a finding, which may be somebody else's file, can do no more than change how code is executed.
fn is_harmless(option: &str) -> bool {
    let tier = option.strip_prefix("-XX:TieredStopAtLevel=");
    matches!(option, "-Xint" | "-Xcomp")
        || tier.is_some_and(|level| matches!(level, "0" | "1" | "2" | "3" | "4"))
        || !worth_taking(option).is_empty()
}
