//! The run folder of a session, and the facts that stand in it.

use std::collections::BTreeMap;
use std::{fs, io};

use jiff::Timestamp;
use walkfuzz_jvm::{Jvm, JvmOptions};
use walkfuzz_record::machine::machine;
use walkfuzz_record::{Generation, JvmFacts, Options, RunFacts, RunFolder, SCHEMA, WalkerInfo};

use walkfuzz_walkers::Walker;

use crate::chosen;
use crate::error::HarnessError;
use crate::settings::Settings;

/// Makes a run folder for a JVM that is yet to be started. Its facts name the walker of the settings; a session writes its own.
///
/// # Errors
/// It cannot be made, or its walkers cannot walk.
pub fn create(
    settings: &Settings,
    options: &JvmOptions,
    arguments: &[String],
) -> Result<RunFolder, HarnessError> {
    chosen::check(settings.walker, settings.oracle)?;
    let jvm = JvmFacts {
        version: options.jdk.version.to_string(),
        build_id: options.jdk.identity.clone(),
        options: options.arguments(),
        ..JvmFacts::default()
    };
    Ok(RunFolder::create(
        &settings.runs,
        &facts_of(
            settings,
            jvm,
            settings.walker.name(),
            settings.walker.generation(),
            arguments,
        ),
    )?)
}

/// Removes the folder of a run that ended before it began, because its JVM or its walker was refused; whether it did. What holds a record, a crash log
/// or a finding stays.
pub(crate) fn remove_unused(folder: &RunFolder) -> bool {
    let Ok(entries) = fs::read_dir(folder.path()) else {
        return false;
    };
    let is_bare = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| match entry.file_name().to_str() {
            Some("run.json" | "processes.jsonl") => true,
            _ => fs::read_dir(entry.path()).is_ok_and(|mut inside| inside.next().is_none()),
        })
    };
    entries.into_iter().all(is_bare) && fs::remove_dir_all(folder.path()).is_ok()
}

/// The facts of a session with a running JVM.
pub(crate) fn facts(
    settings: &Settings,
    jvm: &Jvm,
    walker: &dyn Walker,
    arguments: &[String],
) -> RunFacts {
    let jdk = jvm.jdk();
    let collector = jvm
        .arguments()
        .iter()
        .find_map(|argument| {
            argument
                .strip_prefix("-XX:+Use")
                .and_then(|rest| rest.strip_suffix("GC"))
        })
        .map_or_else(|| "default".to_owned(), str::to_lowercase);
    let jvm = JvmFacts {
        version: jdk.version.to_string(),
        vendor: jdk.implementor.clone().unwrap_or_default(),
        build_id: jdk.identity.clone(),
        collector,
        options: jvm.arguments().to_vec(),
    };
    let mut facts = facts_of(settings, jvm, walker.name(), walker.generation(), arguments);
    for info in &mut facts.walkers {
        if let Some(version) = walker.version() {
            version.clone_into(&mut info.version);
        }
    }
    let names = walker.code_names().iter();
    facts.code_names = names.map(|(code, name)| (code.0, name.clone())).collect();
    facts
}

pub(crate) fn facts_of(
    settings: &Settings,
    jvm: JvmFacts,
    walker: &str,
    generation: Generation,
    arguments: &[String],
) -> RunFacts {
    let walker = WalkerInfo {
        name: walker.to_owned(),
        generation,
        version: jvm.version.clone(),
    };
    RunFacts {
        schema: SCHEMA,
        walkfuzz: env!("CARGO_PKG_VERSION").to_owned(),
        driver: "fuzz".to_owned(),
        command: arguments.to_vec(),
        seed: Some(settings.seed),
        started: Timestamp::now(),
        finished: None,
        walkers: vec![walker],
        code_names: BTreeMap::new(),
        oracle: settings.oracle.map(|oracle| oracle.name().to_owned()),
        jvm,
        machine: machine(),
    }
}

/// How the record of a session is laid out. Lane 0 is the flow's.
pub(crate) fn record_options(facts: &RunFacts) -> Options {
    Options {
        lanes: 2,
        walkers: facts.walkers.clone(),
        jvm_build_id: facts.jvm.build_id.clone(),
        jvm_version: facts.jvm.version.clone(),
        tick_hz: walkfuzz_engine::tick_hz(),
    }
}

/// Ends the process without running exit handlers: the JVM's would meet threads that still run Java code.
pub fn end_process(code: i32) -> ! {
    use std::io::Write as _;
    let _ = std::io::stderr().flush();
    let _ = std::io::stdout().flush();
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
