//! The JVMs of a matrix: which of its JDKs are here, and which options each of them takes.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use walkfuzz_jvm::{Jdk, JvmOptions, Places};

use crate::cell::Cell;
use crate::launch::{collector, flag_options, modules};
use crate::profile::Profile;

/// A JDK's version and options.
type Question = (String, Vec<String>);
/// What the JVM says against them.
type Answer = Option<String>;

/// The JDKs of a matrix.
#[derive(Debug, Default)]
pub struct Subjects {
    jdks: Vec<Jdk>,
    /// What was named and is not here, with the reason.
    pub missing: Vec<String>,
    /// What each JVM said to options.
    answers: Mutex<HashMap<Question, Answer>>,
    /// The modules of each runtime.
    modules: Mutex<HashMap<String, HashSet<String>>>,
}

impl Subjects {
    /// Finds what `values` name: `default`, `installed` (every one of this machine), a line (`17`), a release (`17.0.9`), a folder.
    #[must_use]
    pub fn find(values: &[String], places: &Places) -> Self {
        let mut subjects = Self::default();
        for value in values {
            match value.as_str() {
                "installed" => {
                    let found = places.discover().into_iter();
                    for jdk in found.filter_map(|candidate| candidate.jdk.ok()) {
                        subjects.add(jdk);
                    }
                }
                value => {
                    let wanted = (value != "default").then_some(value);
                    match places.choose(wanted) {
                        Ok(jdk) => subjects.add(jdk),
                        Err(error) => subjects.missing.push(error.to_string()),
                    }
                }
            }
        }
        subjects.jdks.sort_by(|a, b| a.version.cmp(&b.version));
        subjects
    }

    fn add(&mut self, jdk: Jdk) {
        // A cell names its JDK by the version: of two builds of one version the preferred one is taken.
        let version = jdk.version.to_string();
        if self.named(&version).is_none() {
            self.jdks.push(jdk);
        }
    }

    /// The versions, as cells name them.
    #[must_use]
    pub fn versions(&self) -> Vec<String> {
        self.jdks
            .iter()
            .map(|jdk| jdk.version.to_string())
            .collect()
    }

    /// The JDK of that version.
    #[must_use]
    pub fn named(&self, version: &str) -> Option<&Jdk> {
        self.jdks
            .iter()
            .find(|jdk| jdk.version.to_string() == version)
    }

    /// Why a cell's JVM cannot be had, if it cannot: the JVM itself is asked, once for each collector and each set of flags.
    #[must_use]
    pub fn refuses(&self, cell: &Cell, profile: &Profile) -> Option<String> {
        let jdk = self.named(&cell.jdk)?;
        let lacks = modules(cell)
            .into_iter()
            .find(|module| !self.has_module(jdk, module));
        if let Some(module) = lacks {
            return Some(format!("JDK {} has no module {module}", cell.jdk));
        }
        let plain = JvmOptions::new(jdk.clone());
        let mut options = plain.clone();
        options.collector = match collector(&cell.collector) {
            Ok(collector) => collector,
            Err(why) => return Some(why),
        };
        if options.collector.is_some()
            && let Some(why) = self.answer(jdk, options.arguments())
        {
            return Some(format!(
                "JDK {} has no {} collector: {why}",
                cell.jdk, cell.collector
            ));
        }
        let mut options = plain;
        options.extra = match flag_options(profile, &cell.flags) {
            Ok(flags) if flags.is_empty() => return None,
            Ok(flags) => flags,
            Err(why) => return Some(why),
        };
        let why = self.answer(jdk, options.arguments())?;
        Some(format!(
            "JDK {} does not take the flags {}: {why}",
            cell.jdk, cell.flags
        ))
    }

    /// Whether a runtime has a module; all of them if it does not say.
    fn has_module(&self, jdk: &Jdk, module: &str) -> bool {
        let version = jdk.version.to_string();
        let mut known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let modules = known.entry(version).or_insert_with(|| {
            let mut command = walkfuzz_record::machine::command(jdk.home.join("bin/java"));
            let said = command.arg("--list-modules").stdin(Stdio::null()).output();
            let said = said.map(|output| output.stdout).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).into_owned();
            let names = said.lines().filter_map(|line| line.split('@').next());
            names.map(str::to_owned).collect()
        });
        modules.is_empty() || modules.contains(module)
    }

    fn answer(&self, jdk: &Jdk, arguments: Vec<String>) -> Answer {
        let key = (jdk.version.to_string(), arguments);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = answers.get(&key) {
            return known.clone();
        }
        let answer = ask(jdk, &key.1);
        answers.insert(key, answer.clone());
        answer
    }
}

/// What a JVM says against options.
fn ask(jdk: &Jdk, arguments: &[String]) -> Answer {
    let mut command = walkfuzz_record::machine::command(jdk.home.join("bin/java"));
    // Interpreted, whatever the options say of that: -Xcomp would compile a whole start for an answer.
    command.args(arguments).args(["-Xint", "-version"]);
    command.stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let mut said = output.stdout;
            said.extend(output.stderr);
            let said = String::from_utf8_lossy(&said).into_owned();
            let line = said
                .lines()
                .find(|line| !line.starts_with("Error: Could not create"));
            Some(line.unwrap_or("it does not start").trim().to_owned())
        }
        Err(error) => Some(error.to_string()),
    }
}
