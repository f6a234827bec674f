//! What all JVMs of a run share: JDK, program, limits, the agent that edits the queue.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use walkfuzz_jvm::{Jdk, Places, escaped, place_jar};
use walkfuzz_record::machine;
use walkfuzz_stress::launch::{self, Program};
use walkfuzz_stress::{Cell, Dimension, Profile, programs};

use crate::error::QueueError;

/// The first release whose flight recorder has such a queue.
const SINCE: u32 = 25;
/// The program that is sampled: it is in Java nearly always.
const PROGRAM: &str = "sorting";
/// How long a JVM lives.
pub(super) const LIFE: Duration = Duration::from_secs(60);
/// How long it may take beside that, to start and to end.
const BESIDE: Duration = Duration::from_secs(60);
/// How long it may say nothing of its progress: one that dies may hang while it writes what it recorded.
const SILENCE: Duration = Duration::from_secs(40);

/// See the module.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) jdk: Jdk,
    pub(super) profile: Profile,
    pub(super) cell: Cell,
    interposer: PathBuf,
    jar: PathBuf,
}

impl Stage {
    /// On this JDK, with this library of the interposer.
    pub(super) fn new(jdk: Jdk, interposer: PathBuf) -> Result<Self, QueueError> {
        let places = Places::from_env();
        if jdk.version.feature() < SINCE {
            return Err(QueueError::TooOld(jdk.version.feature()));
        }
        let mut profile = Profile::plain();
        profile.limits.sampled = LIFE;
        profile.limits.time_out = LIFE + BESIDE;
        profile.limits.hang = SILENCE;
        let cell = Cell::of(|dimension| {
            match dimension {
                Dimension::Jdk => return jdk.version.to_string(),
                Dimension::Collector | Dimension::Flags => "default",
                Dimension::Walker => "jfr-cputime",
                Dimension::Mode => "bare",
                Dimension::Workload => PROGRAM,
                Dimension::Antagonists => "none",
                Dimension::Clock => "timer",
                Dimension::Interval => "1ms",
            }
            .to_owned()
        });
        Ok(Self {
            interposer,
            jar: place_jar(
                &places.cache.join("workloads"),
                programs::NAME,
                programs::JAR,
            )?,
            jdk,
            profile,
            cell,
        })
    }

    /// The command of a JVM that is fed from a file and leaves what it leaves in `folder`.
    pub(super) fn command(&self, folder: &Path, feed: &Path) -> Result<Command, QueueError> {
        let path = |path: &Path| escaped(&path.display().to_string());
        let agent = format!(
            "-agentpath:{}=record={}/record-%p.map,profiler=jfr,perturb=0,queue={}",
            self.interposer.display(),
            path(folder),
            escaped(&format!("feed:{}", path(feed)))
        );
        let program = Program {
            // Signals go on while a crash log is written, which may take for ever then.
            options: vec![agent, "-XX:ErrorLogTimeout=20".to_owned()],
            class_path: vec![self.jar.clone()],
            words: [programs::MAIN, PROGRAM, "--seconds"]
                .map(str::to_owned)
                .into_iter()
                .chain([LIFE.as_secs().to_string()])
                .collect(),
            tells: true,
        };
        let words = launch::java(
            &self.cell,
            &self.jdk,
            &self.profile,
            &self.interposer,
            &program,
            folder,
            1,
        );
        let words = words.map_err(QueueError::Start)?;
        let mut words = words.iter();
        let mut command = machine::command(words.next().map_or("java", String::as_str));
        command
            .args(words)
            .current_dir(folder)
            .env_remove("JAVA_TOOL_OPTIONS");
        Ok(command)
    }

    /// What counts the samples of recordings.
    pub(super) fn reader(&self) -> Vec<String> {
        programs::reader(&self.jdk.home.join("bin/java"), &self.jar)
    }
}
