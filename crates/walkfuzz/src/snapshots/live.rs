//! What was found in snapshots, tried in a running JVM of the same build at other moments.
//!
//! A trial says at how many moments it happens. If it does, a campaign with the same input finds out what a finding of a running JVM has:
//! tier, witness, repetitions in frozen copies. A finding of edited memory is not tried: nothing edits a running JVM's memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use walkfuzz_capsule::Capsule;
use walkfuzz_harness::campaign::create_run;
use walkfuzz_harness::{EngineKind, Settings, interrupt};
use walkfuzz_jvm::{Collector, Jdk, JvmOptions, Places};
use walkfuzz_record::finding::{LiveTry, Portability};
use walkfuzz_record::{CellState, Finding, FindingVerdict, KOfN, RunFolder, VariantCell};

use crate::failure::Failure;
use crate::finding_words;
use crate::repro::campaign::{Aim, Campaign};
use crate::repro::plan::{Wishes, environment};
use crate::variants::args::CompilerMode;
use crate::variants::cell::{self, Effort, Place};
use crate::variants::every_jdk;
use crate::variants::subject::Subject;

/// Moments that each engine is given: none of so many means at most one in 170 (95 %).
const MOMENTS: u64 = 500;
/// The least that a trial, and a campaign, is worth starting for.
const LEAST: Duration = Duration::from_secs(3);
/// The most that a campaign gets.
const CAMPAIGN: Duration = Duration::from_secs(20);
/// The JVM.
const LIBJVM: &str = "libjvm.so";
/// What holds threads, in the order in which it is tried: moments far apart, then each instruction.
const ENGINES: [&str; 2] = ["live", "step"];

/// What became of a run's findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    /// Happened live, of those that were tried.
    pub(crate) happened: KOfN,
    /// Left for want of time or JDK.
    pub(crate) left: u64,
    /// Of edited memory, which is not tried.
    pub(crate) synthetic: u64,
}

/// Tries the findings of `run` that were not tried yet, within `budget`, and writes down what came of each.
pub(crate) fn try_findings(run: &RunFolder, budget: Duration) -> Result<Tried, Failure> {
    let findings = run.findings()?.findings;
    let is_synthetic = |finding: &&Finding| finding.verdict == FindingVerdict::Synthetic;
    let mut tried = Tried {
        synthetic: findings.iter().filter(is_synthetic).count() as u64,
        ..Tried::default()
    };
    let wanted = |finding: &Finding| {
        finding.engine == EngineKind::CAPSULE
            && finding.verdict != FindingVerdict::Synthetic
            && !was_tried(finding)
    };
    let todo: Vec<Finding> = findings.into_iter().filter(wanted).collect();
    if todo.is_empty() {
        return Ok(tried);
    }
    eprintln!(
        "walkfuzz: trying {} findings in running JVMs, within {} s",
        todo.len(),
        budget.as_secs()
    );
    let mut bench = Bench {
        run,
        places: Places::from_env(),
        jdks: Vec::new(),
        campaigns: BTreeMap::new(),
    };
    let began = Instant::now();
    let all = todo.len();
    for (done, finding) in todo.into_iter().enumerate() {
        let left = budget.saturating_sub(began.elapsed());
        if interrupt::seen() || left < LEAST {
            tried.left += (all - done) as u64;
            break;
        }
        let share = left / u32::try_from(all - done).unwrap_or(u32::MAX).max(1);
        let finding = bench.try_one(finding, share.max(LEAST).min(left))?;
        if was_tried(&finding) {
            let happened = finding.live.iter().any(|live| live.again.k > 0);
            tried.happened.k += u64::from(happened);
            tried.happened.of += 1;
        } else {
            tried.left += 1;
        }
    }
    Ok(tried)
}

fn was_tried(finding: &Finding) -> bool {
    let said = |live: &LiveTry| matches!(live.state, CellState::Tried | CellState::NotMet);
    finding.live.iter().any(said)
}

struct Bench<'a> {
    run: &'a RunFolder,
    places: Places,
    /// Those that were needed, and all that are known once one was not found otherwise.
    jdks: Vec<Jdk>,
    /// Run folders of campaigns, by build and collector.
    campaigns: BTreeMap<(String, String), RunFolder>,
}

impl Bench<'_> {
    /// The finding with what came of it, which is written down.
    fn try_one(&mut self, mut finding: Finding, time: Duration) -> Result<Finding, Failure> {
        let subject = Subject::of_finding(Some(self.run.clone()), &finding)?;
        let began = Instant::now();
        finding.live.clear();
        match self.jdk(&finding) {
            None => {
                let live = not_run(
                    &finding,
                    "no JDK of that build is here; WALKFUZZ_JDK names one",
                );
                eprintln!(
                    "walkfuzz: {}: {}",
                    finding.signature,
                    finding_words::live(&live)
                );
                finding.live.push(live);
            }
            Some(jdk) => {
                let place = Place {
                    collector: Collector::from_name(&finding.jvm.collector),
                    jdk,
                    mode: CompilerMode::Default,
                };
                for engine in ENGINES {
                    let subject = Subject {
                        engine,
                        ..subject.clone()
                    };
                    let effort = Effort {
                        moments: MOMENTS,
                        enough: u64::MAX,
                        time: (time / 4).max(LEAST),
                        patience: (time / 8).max(LEAST),
                    };
                    let cell = cell::run(&subject, &place, effort)?;
                    let live = live_try(engine, cell);
                    let happened = live.again.k > 0;
                    eprintln!(
                        "walkfuzz: {}: {}",
                        subject.signature,
                        finding_words::live(&live)
                    );
                    finding.live.push(live);
                    if happened || interrupt::seen() {
                        break;
                    }
                }
                let left = time.saturating_sub(began.elapsed());
                if finding.live.iter().any(|live| live.again.k > 0) && !interrupt::seen() {
                    self.examine(&mut finding, &place, left.clamp(LEAST, CAMPAIGN))?;
                }
            }
        }
        // The line adds to what was written before.
        finding.count = 0;
        self.run.append_finding(&finding)?;
        Ok(finding)
    }

    /// The JDK that the snapshot was taken of: where it was, or another copy of the same build.
    fn jdk(&mut self, finding: &Finding) -> Option<Jdk> {
        let build = finding.jvm.build_id.as_str();
        if let Some(known) = self.jdks.iter().find(|jdk| jdk.identity == build) {
            return Some(known.clone());
        }
        let capsule = finding.capsule.path.as_ref();
        let capsule = capsule.and_then(|path| Capsule::read(&self.run.named(path).ok()?).ok());
        let files = capsule
            .map(|capsule| capsule.facts.files)
            .unwrap_or_default();
        let libjvm = files.iter().find(|file| file.name == LIBJVM);
        // HOME/lib/server/libjvm.so
        let home = libjvm.and_then(|file| Path::new(&file.path).ancestors().nth(3));
        let there = home.and_then(|home| self.places.choose(home.to_str()).ok());
        match there {
            Some(jdk) => self.jdks.push(jdk),
            None => self.jdks.extend(every_jdk(&self.places)),
        }
        self.jdks.iter().find(|jdk| jdk.identity == build).cloned()
    }

    /// Tier, witness and verdict, as a finding of a running JVM has them.
    fn examine(
        &mut self,
        finding: &mut Finding,
        place: &Place,
        time: Duration,
    ) -> Result<(), Failure> {
        let Some(live) = finding.live.last_mut() else {
            return Ok(());
        };
        let key = (place.jdk.identity.clone(), finding.jvm.collector.clone());
        let folder = match self.campaigns.get(&key) {
            Some(folder) => folder,
            None => {
                let folder = campaign_folder(self.run, place)?;
                self.campaigns.entry(key).or_insert(folder)
            }
        };
        let artifact = finding.input.artifact.as_ref();
        let seeds = artifact.and_then(|artifact| self.run.read_named(artifact).ok());
        let wishes = Wishes {
            jdk: None,
            gc: None,
            budget: time,
        };
        let mut environment = environment(&place.jdk, Some(&finding.jvm), &wishes);
        environment.push(("WALKFUZZ_ENGINE".to_owned(), live.engine.clone()));
        let campaign = Campaign {
            aim: Aim {
                signature: Some(finding.signature.clone()),
                ..Aim::default()
            },
            seeds: seeds.into_iter().collect(),
            only_given: false,
            budget: time,
            environment,
        };
        // The campaign for another finding may have met this one, too.
        let met = match campaign.complete(folder) {
            Some(met) => Some(met),
            None => campaign.run(folder)?.met,
        };
        live.run = Some(folder.path().display().to_string());
        let Some(met) = met else {
            return Ok(());
        };
        eprintln!("walkfuzz: {}: live it is {}", met.signature, met.title);
        // Registers, input and capsule stay the snapshot's, which belong together.
        finding.title = met.title;
        finding.tier = met.tier;
        finding.witness = met.witness;
        finding.verdict = met.verdict;
        finding.known = met.known;
        finding.reliability = met.reliability;
        finding.commands.extend(met.commands);
        Ok(())
    }
}

/// A run folder beside that of the snapshots' findings.
fn campaign_folder(run: &RunFolder, place: &Place) -> Result<RunFolder, Failure> {
    let mut settings = Settings::from_environment()?;
    settings.runs = std::path::absolute(run.path())
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .unwrap_or(settings.runs);
    let mut options = JvmOptions::new(place.jdk.clone());
    options.collector = place.collector;
    let command: Vec<String> = std::env::args().collect();
    let folder = create_run(&settings, &options, &command)?;
    let mut facts = folder.facts()?;
    facts.driver = "snapshots live".to_owned();
    folder.write_facts(&facts)?;
    Ok(folder)
}

fn live_try(engine: &str, cell: VariantCell) -> LiveTry {
    LiveTry {
        engine: engine.to_owned(),
        state: cell.state,
        reason: cell.reason,
        jdk: cell.jdk,
        collector: cell.collector,
        again: Portability::from(cell.again),
        others: cell.others,
        controls: cell.controls,
        deaths: cell.deaths,
        run: None,
    }
}

fn not_run(finding: &Finding, why: &str) -> LiveTry {
    LiveTry {
        engine: ENGINES[0].to_owned(),
        state: CellState::CouldNotRun,
        reason: Some(why.to_owned()),
        jdk: finding.jvm.version.clone(),
        collector: finding.jvm.collector.clone(),
        again: Portability::from(KOfN::new(0, 0)),
        others: 0,
        controls: KOfN::new(0, 0),
        deaths: 0,
        run: None,
    }
}

/// For people.
pub(crate) fn line(tried: Tried) -> String {
    let Tried {
        happened,
        left,
        synthetic,
    } = tried;
    let mut text = format!(
        "  live: {} of {} findings happened in a running JVM",
        happened.k, happened.of
    );
    if left > 0 {
        text.push_str(&format!(", {left} not tried"));
    }
    if synthetic > 0 {
        text.push_str(&format!(", {synthetic} of edited memory cannot be"));
    }
    text.push('\n');
    text
}
