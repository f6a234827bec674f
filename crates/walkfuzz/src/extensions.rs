//! What JVMs offer beyond the JVMTI specification: asked of each in a process of its own.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use walkfuzz_jvm::{JvmError, JvmOptions, Places, start};
use walkfuzz_walkers::RequestStackTrace;

use crate::child::myself;
use crate::failure::Failure;

/// How long a JVM may take to start and answer.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to wait before looking again whether it has ended.
const NAP: Duration = Duration::from_millis(10);

/// What one JVM says.
#[derive(Debug, Deserialize, Serialize)]
struct Extensions {
    /// The names of its extension functions.
    functions: Vec<String>,
}

/// In the process with the JVM: says what it offers, and ends without the JVM's exit handlers.
pub(crate) fn say() -> Result<(), Failure> {
    let options = JvmOptions::from_env(&Places::from_env())?;
    let jvm = start(&options)?;
    let mut functions = Vec::new();
    let mut refused = None;
    jvm.with_env("asking for extension functions", |_| {
        match jvm.jvmti().extension_functions() {
            Ok(found) => functions.extend(found.iter().map(|one| one.name().to_owned())),
            Err(error) => refused = Some(error),
        }
        Ok(())
    })?;
    if let Some(error) = refused {
        return Err(JvmError::into(error));
    }
    let line = serde_json::to_string(&Extensions { functions }).map_err(Failure::environment)?;
    crate::write_out(format!("{line}\n").as_bytes())?;
    walkfuzz_harness::campaign::end_process(0)
}

/// Whether each of these JDKs offers RequestStackTrace, in words.
pub(crate) fn request_stack_trace(homes: &[&str]) -> String {
    let asked: Vec<(&str, Option<Extensions>)> =
        homes.iter().map(|home| (*home, ask(home))).collect();
    in_words(&asked)
}

fn in_words(asked: &[(&str, Option<Extensions>)]) -> String {
    let has = |extensions: &Extensions| {
        let mut names = extensions.functions.iter();
        names.any(|name| name == RequestStackTrace::FUNCTION)
    };
    let homes = |wanted: &dyn Fn(&Option<Extensions>) -> bool| {
        let homes = asked.iter().filter(|(_, said)| wanted(said));
        homes.map(|(home, _)| *home).collect::<Vec<_>>()
    };
    let silent = homes(&Option::is_none);
    let offers = homes(&|said| said.as_ref().is_some_and(has));
    let said = asked.len() - silent.len();
    let mut parts = Vec::new();
    match &offers[..] {
        [] if said == 0 => {}
        [] => parts.push(format!("no: none of {said} JVMs offers it")),
        offers => parts.push(format!(
            "yes: {} of {said} JVMs: {}",
            offers.len(),
            offers.join(", ")
        )),
    }
    if !silent.is_empty() {
        let unknown = if said == 0 { "unknown: " } else { "" };
        parts.push(format!(
            "{unknown}did not answer within {} s: {}",
            LIMIT.as_secs(),
            silent.join(", ")
        ));
    }
    parts.join("; ")
}

fn ask(home: &str) -> Option<Extensions> {
    let mut command = myself().ok()?;
    command
        .args(["in-jvm", "extensions"])
        .env("WALKFUZZ_JDK", home)
        .env_remove("WALKFUZZ_GC");
    let said = output_within(command, LIMIT)?;
    let line = said.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

/// What a program writes to its standard output; `None` if it cannot be run, or has not come to its end within `limit`, whereupon it is killed.
fn output_within(mut command: Command, limit: Duration) -> Option<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let mut stdout = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        stdout.read_to_end(&mut said).map(|_| said)
    });
    let ended = loop {
        match child.try_wait() {
            Ok(None) if began.elapsed() < limit => std::thread::sleep(NAP),
            Ok(None) | Err(_) => break false,
            Ok(Some(_)) => break true,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    reader.join().ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let mut speaks = Command::new("echo");
        speaks.arg("here");
        assert_eq!(output_within(speaks, LIMIT).unwrap(), b"here\n");
        let mut sleeps = Command::new("sleep");
        sleeps.arg("3600");
        assert_eq!(output_within(sleeps, Duration::from_millis(50)), None);
        assert_eq!(output_within(Command::new("/nowhere"), LIMIT), None);
    }

    #[test]
    fn who_did_not_answer_is_named() {
        let offers = || {
            Some(Extensions {
                functions: vec![RequestStackTrace::FUNCTION.to_owned()],
            })
        };
        let asked = [("/jdks/a", None), ("/jdks/b", offers())];
        assert_eq!(
            in_words(&asked),
            "yes: 1 of 1 JVMs: /jdks/b; did not answer within 60 s: /jdks/a"
        );
        let silent = [("/jdks/a", None)];
        assert_eq!(
            in_words(&silent),
            "unknown: did not answer within 60 s: /jdks/a"
        );
    }
}
