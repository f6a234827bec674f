//! What JVMs offer beyond the JVMTI specification: asked of each in a process of its own.

use std::process::Stdio;

use serde::{Deserialize, Serialize};
use walkfuzz_jvm::{JvmError, JvmOptions, Places, start};
use walkfuzz_walkers::RequestStackTrace;

use crate::child::myself;
use crate::failure::Failure;

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
    let has = |extensions: &Extensions| {
        let mut names = extensions.functions.iter();
        names.any(|name| name == RequestStackTrace::FUNCTION)
    };
    let offers: Vec<&str> = asked
        .iter()
        .filter(|(_, said)| said.as_ref().is_some_and(has))
        .map(|(home, _)| *home)
        .collect();
    let said = asked.iter().filter(|(_, said)| said.is_some()).count();
    let silent = match asked.len() - said {
        0 => String::new(),
        silent => format!("; {silent} did not answer"),
    };
    match &offers[..] {
        [] => format!("no: none of {said} JVMs offers it{silent}"),
        offers => format!(
            "yes: {} of {said} JVMs: {}{silent}",
            offers.len(),
            offers.join(", ")
        ),
    }
}

fn ask(home: &str) -> Option<Extensions> {
    let output = myself()
        .ok()?
        .args(["in-jvm", "extensions"])
        .env("WALKFUZZ_JDK", home)
        .env_remove("WALKFUZZ_GC")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let line = output.stdout.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}
