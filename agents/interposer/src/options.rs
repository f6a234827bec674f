//! What the agent can be told: `KEY=VALUE` pairs joined by commas; `options=` is the last, and has the rest for the profiler.

use std::path::PathBuf;

use walkfuzz_context::element::parse;
use walkfuzz_context::{Arch, Perturbation};
use walkfuzz_jvm::unescaped;

/// Whose handlers are stood before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A library that is loaded as an agent is, and what it is told.
    Library(PathBuf, String),
    /// The JVM's own: JFR.
    Jfr,
}

/// What becomes of the elements of JFR's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueEdits {
    /// Edits drawn at random.
    Random,
    /// These edits of each.
    Fixed(Perturbation),
    /// Edits from a file that somebody writes meanwhile.
    Fed(PathBuf),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the record goes.
    pub record: PathBuf,
    /// Whose handlers.
    pub subject: Subject,
    /// Calls with perturbed contexts after each untouched one in Java.
    pub perturb: u32,
    /// Of what is drawn at random.
    pub seed: u64,
    /// Of JFR's queue; `None`: it is left as it is.
    pub queue: Option<QueueEdits>,
}

/// What is wrong with the options.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OptionError {
    /// A word without `=`.
    #[error("`{0}` is no KEY=VALUE")]
    NoValue(String),
    /// A key that means nothing.
    #[error(
        "there is no option `{0}`; there are record, profiler, perturb, seed, queue and options"
    )]
    Unknown(String),
    /// A value that means nothing.
    #[error("{key}={value} means nothing; expected {expected}")]
    Value {
        /// The option.
        key: String,
        /// What stood behind it.
        value: String,
        /// What can stand there.
        expected: &'static str,
    },
    /// Nothing but JFR has such a queue.
    #[error("queue= edits JFR's queue of samples; it goes with profiler=jfr alone")]
    NotJfr,
    /// Something is not said that must be.
    #[error("{0} is missing")]
    Missing(&'static str),
}

impl Options {
    /// Understands the agent's options.
    ///
    /// # Errors
    /// They mean nothing.
    pub fn parse(text: &str, pid: u32) -> Result<Self, OptionError> {
        let (own, rest) = match text.strip_prefix("options=") {
            Some(rest) => ("", rest),
            None => text.split_once(",options=").unwrap_or((text, "")),
        };
        let (mut record, mut profiler) = (None, None);
        let (mut perturb, mut seed, mut queue) = (64, 1, None);
        for pair in own.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(OptionError::NoValue(pair.to_owned()));
            };
            let wrong = |expected| OptionError::Value {
                key: key.to_owned(),
                value: value.to_owned(),
                expected,
            };
            let path = || unescaped(value, pid).ok_or_else(|| wrong("a path; %25 stands for %"));
            match key {
                "record" => record = Some(PathBuf::from(path()?)),
                "profiler" => profiler = Some(path()?),
                "perturb" => {
                    let number = value.parse().ok().filter(|number| *number <= 1024);
                    perturb = number.ok_or_else(|| wrong("a number up to 1024"))?;
                }
                "seed" => seed = value.parse().map_err(|_| wrong("a number"))?,
                "queue" => {
                    let edits = unescaped(value, pid).and_then(|text| edits_of(&text));
                    let expected = "random, feed:FILE, or edits of sp, pc, bcp, ticks, period and size such as sp~bit5";
                    queue = Some(edits.ok_or_else(|| wrong(expected))?);
                }
                _ => return Err(OptionError::Unknown(key.to_owned())),
            }
        }
        let subject = match profiler.ok_or(OptionError::Missing("profiler"))? {
            name if name == "jfr" => Subject::Jfr,
            path => Subject::Library(PathBuf::from(path), rest.to_owned()),
        };
        if queue.is_some() && subject != Subject::Jfr {
            return Err(OptionError::NotJfr);
        }
        Ok(Self {
            record: record.ok_or(OptionError::Missing("record"))?,
            subject,
            perturb,
            seed,
            queue,
        })
    }
}

fn edits_of(text: &str) -> Option<QueueEdits> {
    Some(match (text, text.strip_prefix("feed:")) {
        ("random", _) => QueueEdits::Random,
        (_, Some(path)) => QueueEdits::Fed(PathBuf::from(path)),
        _ => QueueEdits::Fixed(parse(Arch::NATIVE, text).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_the_profilers() {
        let text = "record=/a%2Cb-%p,perturb=3,profiler=/x.so,options=start,event=cpu,file=%p";
        let options = Options::parse(text, 7).unwrap();
        let rest = "start,event=cpu,file=%p".to_owned();
        assert_eq!(options.record, PathBuf::from("/a,b-7"));
        assert_eq!(options.subject, Subject::Library("/x.so".into(), rest));
        assert_eq!((options.perturb, options.seed), (3, 1));
        let jfr = Options::parse("record=r,profiler=jfr", 7).unwrap();
        assert_eq!((jfr.subject, jfr.queue), (Subject::Jfr, None));
        let edits = Options::parse("record=r,profiler=jfr,queue=bcp%3D0 sp+%3D8", 7).unwrap();
        let Some(QueueEdits::Fixed(edits)) = edits.queue else {
            panic!("{edits:?}");
        };
        assert_eq!(edits.edits().len(), 2);
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (text, named) in [
            ("record=r", "profiler is missing"),
            ("profiler=jfr", "record is missing"),
            ("record=r,profiler=jfr,perturb=2000", "perturb=2000"),
            ("record=r,profiler=jfr,seed=x", "seed=x"),
            ("record=r,profiler=jfr,queue=wild", "queue=wild"),
            ("record=r,profiler=/x.so,queue=random", "profiler=jfr alone"),
            ("record=r,colour=red", "colour"),
            ("record", "`record` is no KEY=VALUE"),
        ] {
            let error = Options::parse(text, 7).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
