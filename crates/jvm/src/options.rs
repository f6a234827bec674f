//! With which options a JVM is started.

use std::env;
use std::path::PathBuf;

use crate::JvmError;
use crate::find::Places;
use crate::jdk::Jdk;
use crate::words;

/// HotSpot's garbage collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collector {
    /// Serial.
    Serial,
    /// Parallel.
    Parallel,
    /// G1.
    G1,
    /// Z.
    Z,
    /// Shenandoah.
    Shenandoah,
    /// Epsilon, which collects nothing.
    Epsilon,
}

impl Collector {
    /// Every collector.
    pub const ALL: [Collector; 6] = [
        Collector::Serial,
        Collector::Parallel,
        Collector::G1,
        Collector::Z,
        Collector::Shenandoah,
        Collector::Epsilon,
    ];

    /// The name that the environment variable, cells and reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Collector::Serial => "serial",
            Collector::Parallel => "parallel",
            Collector::G1 => "g1",
            Collector::Z => "z",
            Collector::Shenandoah => "shenandoah",
            Collector::Epsilon => "epsilon",
        }
    }

    /// The collector of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Collector> {
        Collector::ALL
            .into_iter()
            .find(|collector| collector.name() == name)
    }

    fn option(self) -> &'static str {
        match self {
            Collector::Serial => "-XX:+UseSerialGC",
            Collector::Parallel => "-XX:+UseParallelGC",
            Collector::G1 => "-XX:+UseG1GC",
            Collector::Z => "-XX:+UseZGC",
            Collector::Shenandoah => "-XX:+UseShenandoahGC",
            Collector::Epsilon => "-XX:+UseEpsilonGC",
        }
    }

    /// Whether a feature release counts the collector as an experiment (Z and Shenandoah until JEP 377 and 379 in 15).
    fn experimental(self, feature: u32) -> bool {
        match self {
            Collector::Serial | Collector::Parallel | Collector::G1 => false,
            Collector::Z | Collector::Shenandoah => feature < 15,
            Collector::Epsilon => true,
        }
    }
}

/// What JVM to start, and how.
#[derive(Clone, Debug)]
pub struct JvmOptions {
    /// Which JDK.
    pub jdk: Jdk,
    /// Which collector; `None` leaves the choice to the JVM.
    pub collector: Option<Collector>,
    /// The greatest heap size, in the notation of -Xmx.
    pub heap: String,
    /// More options, in the launcher's or JNI's notation.
    pub extra: Vec<String>,
    /// The class path.
    pub class_path: Vec<PathBuf>,
    /// The folder for the JVM's crash logs (`hs_err_pid<pid>.log`); `None` is the current folder.
    pub error_folder: Option<PathBuf>,
}

impl JvmOptions {
    /// The defaults: the JVM's own collector and a heap of 128 MB.
    #[must_use]
    pub fn new(jdk: Jdk) -> JvmOptions {
        let heap = "128m".to_owned();
        JvmOptions {
            jdk,
            collector: None,
            heap,
            extra: Vec::new(),
            class_path: Vec::new(),
            error_folder: None,
        }
    }

    /// What the environment says:
    ///
    /// | variable | meaning | default |
    /// |---|---|---|
    /// | `WALKFUZZ_JDK` | path or version of the JDK | JAVA_HOME, PATH, usual places, cache |
    /// | `WALKFUZZ_GC` | serial, parallel, g1, z, shenandoah, epsilon | the JVM's |
    /// | `WALKFUZZ_HEAP` | greatest heap size as in -Xmx | `128m` |
    /// | `WALKFUZZ_JAVA_OPTIONS` | more options, split like a shell's words | none |
    /// | `WALKFUZZ_CACHE` | the cache folder | `~/.cache/walkfuzz` |
    ///
    /// # Errors
    /// If a variable means nothing, or there is no such JDK.
    pub fn from_env(places: &Places) -> Result<JvmOptions, JvmError> {
        let set = |name| {
            env::var(name)
                .ok()
                .filter(|value: &String| !value.is_empty())
        };
        let jdk = places.choose(None)?;
        let mut options = JvmOptions::new(jdk);
        if let Some(value) = set("WALKFUZZ_GC") {
            options.collector =
                Some(
                    Collector::from_name(&value).ok_or_else(|| JvmError::BadSetting {
                        variable: "WALKFUZZ_GC",
                        value,
                        expected: format!(
                            "one of {}",
                            Collector::ALL.map(Collector::name).join(", ")
                        ),
                    })?,
                );
        }
        if let Some(value) = set("WALKFUZZ_HEAP") {
            options.heap = value;
        }
        if let Some(value) = set("WALKFUZZ_JAVA_OPTIONS") {
            options.extra = words::split(&value).map_err(|expected| JvmError::BadSetting {
                variable: "WALKFUZZ_JAVA_OPTIONS",
                value,
                expected: expected.to_owned(),
            })?;
        }
        Ok(options)
    }

    /// The options in JNI's notation, in the order in which the JVM gets them; the user's come last and win.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let (extra, mut class_path) = jni_notation(&self.extra);
        let feature = self.jdk.version.feature();
        let mut arguments = vec![format!("-Xmx{}", self.heap)];
        if let Some(collector) = self.collector {
            if collector.experimental(feature) {
                arguments.push("-XX:+UnlockExperimentalVMOptions".to_owned());
            }
            arguments.push(collector.option().to_owned());
        }
        if let Some(folder) = &self.error_folder {
            arguments.push(format!(
                "-XX:ErrorFile={}/hs_err_pid%p.log",
                folder.display()
            ));
        }
        // A fuzzer's JVM dies often: no core dump each time, and no shared statistics file that a dead process leaves in /tmp.
        arguments.push("-XX:-CreateCoredumpOnCrash".to_owned());
        arguments.push("-XX:-UsePerfData".to_owned());
        if feature >= 19 {
            // The workload runs continuations on its own threads.
            arguments.push("--add-exports=java.base/jdk.internal.vm=ALL-UNNAMED".to_owned());
        }
        class_path.splice(
            0..0,
            self.class_path
                .iter()
                .map(|path| path.display().to_string()),
        );
        if !class_path.is_empty() {
            arguments.push(format!("-Djava.class.path={}", class_path.join(":")));
        }
        arguments.extend(extra);
        arguments
    }
}

/// The launcher takes some options as two words, which JNI wants as one; `-cp` exists in the launcher alone.
fn jni_notation(options: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut joined, mut class_path) = (Vec::new(), Vec::new());
    let mut rest = options.iter().peekable();
    while let Some(option) = rest.next() {
        let value = rest.next_if(|next| {
            !next.starts_with('-') && (option.starts_with('-')) && !option.contains('=')
        });
        match (option.as_str(), value) {
            ("-cp" | "-classpath" | "--class-path", Some(value)) => class_path.push(value.clone()),
            (_, Some(value)) if option.starts_with("--") => {
                joined.push(format!("{option}={value}"))
            }
            (_, value) => {
                joined.push(option.clone());
                joined.extend(value.cloned());
            }
        }
    }
    (joined, class_path)
}

#[cfg(test)]
mod tests {
    use walkfuzz_context::Arch;

    use super::*;
    use crate::{Source, Version};

    fn jdk(version: &str) -> Jdk {
        Jdk {
            home: "/jdk".into(),
            libjvm: "/jdk/lib/server/libjvm.so".into(),
            version: Version::parse(version).unwrap(),
            implementor: None,
            source: Source::Named,
            arch: Arch::NATIVE,
            build_id: None,
            identity: "00".to_owned(),
            symtab: true,
        }
    }

    #[test]
    fn experimental_collectors_are_unlocked_where_they_are_experiments() {
        let unlocked = |version, collector| {
            let options = JvmOptions {
                collector: Some(collector),
                ..JvmOptions::new(jdk(version))
            };
            options
                .arguments()
                .iter()
                .any(|a| a == "-XX:+UnlockExperimentalVMOptions")
        };
        assert!(unlocked("11.0.13", Collector::Z));
        assert!(!unlocked("17.0.9", Collector::Z));
        assert!(unlocked("25", Collector::Epsilon));
        assert!(!unlocked("11.0.13", Collector::G1));
    }

    #[test]
    fn the_users_options_come_last_and_in_jnis_notation() {
        let mut options = JvmOptions::new(jdk("21.0.8"));
        options.class_path.push("/frames.jar".into());
        options.extra = [
            "-cp",
            "/a.jar:/b.jar",
            "--add-opens",
            "java.base/java.lang=ALL-UNNAMED",
            "-Xmx64m",
        ]
        .map(String::from)
        .to_vec();
        let arguments = options.arguments();
        assert!(
            arguments.contains(&"-Djava.class.path=/frames.jar:/a.jar:/b.jar".to_owned()),
            "{arguments:?}"
        );
        assert!(arguments.ends_with(&[
            "--add-opens=java.base/java.lang=ALL-UNNAMED".to_owned(),
            "-Xmx64m".to_owned()
        ]));
        assert_eq!(arguments[0], "-Xmx128m");
    }

    #[test]
    fn collectors_have_names() {
        for collector in Collector::ALL {
            assert_eq!(Collector::from_name(collector.name()), Some(collector));
        }
        assert_eq!(Collector::from_name("cms"), None);
    }
}
