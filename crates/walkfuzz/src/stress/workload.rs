//! What a cell's workload is: one of our own programs, a program on a real library, a benchmark suite's, or the user's own.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use walkfuzz_jvm::{Places, Version, place_jar};
use walkfuzz_stress::Cell;
use walkfuzz_stress::launch::Program;
use walkfuzz_stress::programs;

use crate::failure::Failure;

/// The workload that stands for the user's command.
pub(crate) const COMMAND: &str = "command";
/// The JDK of such a command's cells: whichever it starts.
pub(crate) const OWN_JDK: &str = "own";
/// How long a jar may take to say what it holds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that can be sampled.
pub(crate) struct Workloads {
    jar: PathBuf,
    java: PathBuf,
    programs: BTreeMap<String, Entry>,
    /// The suites' jars, and the names of their benchmarks.
    suites: BTreeMap<&'static str, Suite>,
    /// The script that brings libraries, in a checkout.
    script: Option<PathBuf>,
    libraries: Mutex<BTreeMap<(String, u32), Result<Library, String>>>,
}

/// A line of the programs' own list.
struct Entry {
    kind: Kind,
    oldest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    Antagonist,
    Library,
}

/// What a program on a library needs.
#[derive(Clone)]
struct Library {
    class_path: Vec<PathBuf>,
    options: Vec<String>,
}

struct Suite {
    jar: PathBuf,
    names: Vec<String>,
}

impl Workloads {
    /// `renaissance` and `dacapo` are the suites' jars.
    pub(crate) fn find(
        renaissance: Option<&Path>,
        dacapo: Option<&Path>,
        places: &Places,
    ) -> Result<Self, Failure> {
        let jar = place_jar(
            &places.cache.join("workloads"),
            programs::NAME,
            programs::JAR,
        )?;
        let java = places.choose(None)?.home.join("bin/java");
        let mut suites = BTreeMap::new();
        for (name, jar, list, sign) in [
            ("renaissance", renaissance, "--raw-list", "finagle-http"),
            ("dacapo", dacapo, "-l", "lusearch"),
        ] {
            if let Some(jar) = jar.filter(|jar| !jar.as_os_str().is_empty()) {
                suites.insert(name, Suite::of(name, jar, list, sign, &java)?);
            }
        }
        let script = crate::checkout::root()
            .ok()
            .map(|root| root.join("scripts/get-libraries"));
        Ok(Self {
            programs: list(&java, &jar)?,
            jar,
            java,
            suites,
            script: script.filter(|script| script.is_file()),
            libraries: Mutex::default(),
        })
    }

    /// Why a cell's programs cannot run, if they cannot.
    pub(crate) fn refuses(&self, cell: &Cell) -> Option<String> {
        if cell.workload == COMMAND {
            return None;
        }
        if let Some((suite, name)) = cell.workload.split_once(':') {
            let Some(known) = self.suites.get(suite) else {
                return Some(format!("no jar of {suite}: name it with --{suite} JAR"));
            };
            if !known.names.iter().any(|known| known == name) {
                return Some(format!("{} has no benchmark `{name}`", known.jar.display()));
            }
            let alone = cell.antagonists().count() == 0;
            return (!alone).then(|| format!("{suite} runs without antagonists"));
        }
        let feature = feature(cell);
        let programs = std::iter::once((cell.workload.as_str(), false));
        for (name, antagonist) in programs.chain(cell.antagonists().map(|name| (name, true))) {
            let known = self
                .programs
                .get(name)
                .filter(|known| (known.kind == Kind::Antagonist) == antagonist);
            let Some(known) = known else {
                let what = if antagonist { "antagonist" } else { "workload" };
                return Some(format!("there is no {what} `{name}`"));
            };
            if feature < known.oldest {
                return Some(format!("{name} needs JDK {}", known.oldest));
            }
        }
        let library = self.programs.get(&cell.workload)?.kind == Kind::Library;
        let newest = self.newest(&cell.workload).filter(|_| library)?;
        (feature > newest).then(|| format!("{} does not run on JDK {feature}", cell.workload))
    }

    /// The newest JDK that a library was seen to work on, from its lock file.
    fn newest(&self, name: &str) -> Option<u32> {
        let root = self.script.as_ref()?.parent()?.parent()?;
        let lock = root
            .join("stress/workloads/libraries")
            .join(format!("{name}.lock"));
        let text = std::fs::read_to_string(lock).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("java "))?;
        line.split_once("..")?.1.trim().parse().ok()
    }

    /// How a cell's program is started.
    pub(crate) fn program(
        &self,
        cell: &Cell,
        sampled: Duration,
        seed: u64,
    ) -> Result<Program, String> {
        let seconds = sampled.as_secs().max(1).to_string();
        if let Some((suite, name)) = cell.workload.split_once(':') {
            let jar = self
                .suites
                .get(suite)
                .ok_or("its jar is gone")?
                .jar
                .display()
                .to_string();
            let words = match suite {
                "renaissance" => vec!["-jar", &jar, "--run-seconds", &seconds, name],
                _ => vec!["-jar", &jar, "-n", "3", name],
            };
            return Ok(Program {
                options: Vec::new(),
                class_path: Vec::new(),
                words: words.into_iter().map(str::to_owned).collect(),
                // Iterations, and checks of their results.
                tells: true,
            });
        }
        let mut class_path = vec![self.jar.clone()];
        let mut options = Vec::new();
        let kind = self.programs.get(&cell.workload).map(|entry| entry.kind);
        if kind == Some(Kind::Library) {
            let library = self.library(&cell.workload, feature(cell))?;
            class_path.extend(library.class_path);
            options = library.options;
        }
        if cell.antagonists().any(|name| name == "redefinition") {
            // Spares a second JVM that attaches.
            options.push(format!("-javaagent:{}", self.jar.display()));
        }
        let mut words = vec![programs::MAIN.to_owned(), cell.workload.clone()];
        if cell.antagonists().count() > 0 {
            let names: Vec<&str> = cell.antagonists().collect();
            words.extend(["--with".to_owned(), names.join(",")]);
        }
        words.extend(["--seconds".to_owned(), seconds]);
        // The programs know signed seeds.
        words.extend(["--seed".to_owned(), seed.cast_signed().to_string()]);
        Ok(Program {
            options,
            class_path,
            words,
            tells: true,
        })
    }

    /// What prints the samples of flight recordings.
    pub(crate) fn reader(&self) -> Vec<String> {
        programs::reader(&self.java, &self.jar)
    }

    /// A library's jars and options; the jars are brought if they are not here.
    fn library(&self, name: &str, feature: u32) -> Result<Library, String> {
        let mut known = self
            .libraries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), feature);
        let library = known.entry(key).or_insert_with(|| {
            let class_path = self.ask_script(&[name])?;
            let options = self.ask_script(&["--options", &feature.to_string(), name])?;
            Ok(Library {
                class_path: class_path.trim().split(':').map(PathBuf::from).collect(),
                options: options.split_whitespace().map(str::to_owned).collect(),
            })
        });
        library.clone()
    }

    fn ask_script(&self, words: &[&str]) -> Result<String, String> {
        let script = self.script.as_ref().ok_or(
            "libraries are brought by scripts/get-libraries of a checkout, and this is none",
        )?;
        let output = Command::new(script)
            .args(words)
            .output()
            .map_err(|error| format!("cannot start {}: {error}", script.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(said
            .lines()
            .last()
            .unwrap_or("the libraries cannot be brought")
            .to_owned())
    }
}

fn feature(cell: &Cell) -> u32 {
    Version::parse(&cell.jdk).map_or(0, |version| version.feature())
}

/// What a program answered on its standard output, and on its standard error.
struct Answer {
    text: String,
    complaint: String,
}

/// What a program says that ends soon; why it says nothing, behind a comma.
fn answer(mut command: Command, limit: Duration) -> Result<Answer, String> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let (text, complaint) = (heard(child.stdout.take()), heard(child.stderr.take()));
    let left = || limit.saturating_sub(began.elapsed());
    // Both ends are closed when it ends, or a moment before.
    let heard = (text.recv_timeout(left()), complaint.recv_timeout(left()));
    let _ = child.kill();
    let _ = child.wait();
    match heard {
        (Ok(text), Ok(complaint)) => Ok(Answer { text, complaint }),
        _ => Err(format!("it has no answer after {} s", limit.as_secs())),
    }
}

/// All that comes out of a pipe, when nothing more can come.
fn heard(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut said);
        }
        // Who asked may have given up.
        let _ = tell.send(String::from_utf8_lossy(&said).into_owned());
    });
    told
}

/// What the programs' jar says that it holds.
fn list(java: &Path, jar: &Path) -> Result<BTreeMap<String, Entry>, Failure> {
    let mut command = walkfuzz_record::machine::command(java);
    command.arg("-cp").arg(jar).args([programs::MAIN, "--list"]);
    let Answer { text, complaint } = answer(command, PATIENCE).map_err(|why| {
        Failure::environment(format_args!("{} lists no program: {why}", jar.display()))
    })?;
    let entries: BTreeMap<String, Entry> = text.lines().filter_map(entry).collect();
    if entries.is_empty() {
        return Err(Failure::environment(format_args!(
            "{} lists no program: {}",
            jar.display(),
            complaint.trim()
        )));
    }
    Ok(entries)
}

/// `queens           program    11  N queens by fork and join`.
fn entry(line: &str) -> Option<(String, Entry)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let kind = match words.next()? {
        "program" => Kind::Program,
        "antagonist" => Kind::Antagonist,
        "library" => Kind::Library,
        _ => return None,
    };
    let oldest = words.next()?.parse().ok()?;
    Some((name, Entry { kind, oldest }))
}

impl Suite {
    fn of(name: &str, jar: &Path, list: &str, sign: &str, java: &Path) -> Result<Self, Failure> {
        if !jar.is_file() {
            return Err(Failure::usage(format_args!(
                "there is no jar {}",
                jar.display()
            )));
        }
        let mut command = walkfuzz_record::machine::command(java);
        command.arg("-jar").arg(jar).arg(list);
        let said = answer(command, PATIENCE).map_err(|why| {
            Failure::usage(format_args!(
                "{} is no jar of {name}: asked for its benchmarks ({list}), {why}",
                jar.display()
            ))
        })?;
        let names: Vec<String> = said.text.split_whitespace().map(str::to_owned).collect();
        if !names.iter().any(|name| name == sign) {
            return Err(Failure::usage(format_args!(
                "{} is no jar of {name}: asked for its benchmarks ({list}), it does not name {sign}",
                jar.display()
            )));
        }
        let jar = std::path::absolute(jar).map_err(Failure::environment)?;
        Ok(Self { jar, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_answer_is_not_waited_for() {
        let ask = |script: &str, limit| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            answer(command, limit)
        };
        let said = ask("echo one two; echo no >&2", PATIENCE).unwrap();
        assert_eq!(
            (said.text.as_str(), said.complaint.as_str()),
            ("one two\n", "no\n")
        );
        let began = Instant::now();
        for silent in ["exec sleep 60", "sleep 5 & echo one"] {
            let why = ask(silent, Duration::from_secs(1)).err();
            assert_eq!(why.as_deref(), Some("it has no answer after 1 s"));
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
