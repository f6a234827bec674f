//! What makes two findings the same.
//!
//! A signature holds the kind of outcome, the function it happened in, the walker, and for a failed check of the VM its
//! place. It does not hold the pc: the same fault moves by a few bytes with every build. It does not hold the tier: the
//! same fault may be reached from a wild context first and from a natural one later.
//!
//! The text form is stable: it stands in stores, file names derive from its hash, known issues match it.
//! Fields are separated by `|`, and `%` escapes `|`, `%` and line breaks in them:
//! `SIGSEGV|nmethod::get_original_pc|agct`, `guarantee|frame::sender|agct|frame.cpp:346 guarantee(cb != nullptr) failed`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use walkfuzz_context::Tier;

/// A signal, by its Linux name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Bad address.
    Segv,
    /// Bad mapping or alignment.
    Bus,
    /// Bad instruction.
    Ill,
    /// Bad arithmetic.
    Fpe,
    /// Breakpoint or single step.
    Trap,
    /// `abort`.
    Abrt,
    /// Bad system call.
    Sys,
    /// Killed, by the kernel or by somebody else.
    Kill,
    /// Asked to end.
    Term,
    /// Any other, by its number.
    Other(u8),
}

const SIGNALS: [(Signal, i32, &str); 9] = [
    (Signal::Segv, 11, "SIGSEGV"),
    (Signal::Bus, 7, "SIGBUS"),
    (Signal::Ill, 4, "SIGILL"),
    (Signal::Fpe, 8, "SIGFPE"),
    (Signal::Trap, 5, "SIGTRAP"),
    (Signal::Abrt, 6, "SIGABRT"),
    (Signal::Sys, 31, "SIGSYS"),
    (Signal::Kill, 9, "SIGKILL"),
    (Signal::Term, 15, "SIGTERM"),
];

impl Signal {
    /// The signal of this number on Linux. `None`: no signal has it.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        if let Some((signal, ..)) = SIGNALS.iter().find(|(_, n, _)| *n == number) {
            return Some(*signal);
        }
        u8::try_from(number)
            .ok()
            .filter(|n| (1..=64).contains(n))
            .map(Signal::Other)
    }

    /// Whether a process gets it for what it did itself. The others are sent to it.
    #[must_use]
    pub fn is_crash(self) -> bool {
        !matches!(self, Signal::Kill | Signal::Term | Signal::Other(_))
    }

    /// Its number on Linux.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Signal::Other(number) => i32::from(number),
            known => SIGNALS
                .iter()
                .find(|(s, ..)| *s == known)
                .map_or(0, |(_, n, _)| *n),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIGNALS.iter().find(|(s, ..)| s == self) {
            Some((.., name)) => f.pad(name),
            None => f.pad(&format!("SIG{}", self.number())),
        }
    }
}

impl FromStr for Signal {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let known = SIGNALS
            .iter()
            .find(|(.., name)| *name == text)
            .map(|(s, ..)| *s);
        let number = || {
            let number = text.strip_prefix("SIG")?.parse().ok()?;
            // SIG11 is not another name of SIGSEGV: one signature, one text.
            Signal::from_number(number)
                .filter(|s| matches!(s, Signal::Other(_)) && s.to_string() == text)
        };
        known
            .or_else(number)
            .ok_or_else(|| SignatureError::Kind(text.to_owned()))
    }
}

/// What kind of outcome a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A synchronous signal in the walk.
    Signal(Signal),
    /// The walk did not come back.
    Hang,
    /// `abort` without a reason that is known.
    Abort,
    /// The process ended and left no crash log: nothing is known but how it ended, and whether a walk was open.
    Death,
    /// A check of the VM failed: `guarantee`, `fatal`, `ShouldNotReachHere`, in debug builds `assert`.
    Guarantee,
    /// Frames that another witness contradicts.
    WrongFrames,
    /// A breach of the walker's contract: canary, allocation, lock.
    Breach,
    /// The walk wrote to the stack of the thread that it walked.
    Write,
}

const WORDS: [(Kind, &str); 7] = [
    (Kind::Hang, "hang"),
    (Kind::Abort, "abort"),
    (Kind::Death, "death"),
    (Kind::Guarantee, "guarantee"),
    (Kind::WrongFrames, "wrong-frames"),
    (Kind::Breach, "breach"),
    (Kind::Write, "write"),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(kind, _)| kind == self)) {
            (Kind::Signal(signal), _) => signal.fmt(f),
            (_, Some((_, word))) => f.pad(word),
            (_, None) => Ok(()),
        }
    }
}

impl FromStr for Kind {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        match WORDS.iter().find(|(_, word)| *word == text) {
            Some((kind, _)) => Ok(*kind),
            None => text.parse().map(Kind::Signal),
        }
    }
}

/// What makes two findings the same. The [module](self) says why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signature {
    /// The kind of outcome.
    pub kind: Kind,
    /// The short name of the function that it happened in, as `SymbolisedPc::site` gives it. Of wrong frames: what is wrong, and where. Of a death: [`Signature::OPEN_WALK`] or
    /// [`Signature::NO_OPEN_WALK`].
    pub function: String,
    /// The walker's short name, such as `agct`; [`Signature::NO_WALKER`] for a crash without one.
    pub walker: String,
    /// What else tells it apart. Of wrong frames: who says so, and why they are wrong where that is known. Of a failed check: its `file:line`, then what failed. Of a breach: which one. Of a
    /// death: how it ended.
    pub detail: Option<String>,
}

impl Signature {
    /// What the names of walkfuzz's own ASGST functions begin with: what is found in them is no finding in a JVM.
    const SELF_TEST: &str = "asgst-";
    /// What [`Signature::walker`] holds if no walker had to do with it.
    pub const NO_WALKER: &str = "none";

    /// What [`Signature::function`] holds for a death inside a walk.
    pub const OPEN_WALK: &str = "walk";

    /// What [`Signature::function`] holds for a death while no walk was open.
    pub const NO_OPEN_WALK: &str = "no walk open";

    /// The signature of a process that ended in a way that nobody explains. `how` goes behind "process": `killed by SIGKILL`.
    #[must_use]
    pub fn death(how: &str, open_walk: bool, walker: &str) -> Self {
        let place = if open_walk {
            Self::OPEN_WALK
        } else {
            Self::NO_OPEN_WALK
        };
        Self::new(Kind::Death, place, walker).with_detail(how)
    }

    /// A signature without detail.
    #[must_use]
    pub fn new(kind: Kind, function: impl Into<String>, walker: impl Into<String>) -> Self {
        Self {
            kind,
            function: function.into(),
            walker: walker.into(),
            detail: None,
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into()).filter(|detail| !detail.is_empty());
        self
    }

    /// The hash of the text form.
    #[must_use]
    pub fn id(&self) -> SignatureId {
        let digest = Sha256::digest(self.to_string());
        let mut head = [0; 8];
        head.copy_from_slice(&digest[..8]);
        SignatureId(u64::from_be_bytes(head))
    }

    /// The signature as a sentence, with the tier that the finding was minimised to, if any:
    /// `SIGSEGV in nmethod::get_original_pc via agct [T1]`.
    #[must_use]
    pub fn title(&self, tier: Option<Tier>) -> String {
        let function = &self.function;
        let mut title = match (self.kind, self.detail.as_deref()) {
            (Kind::Guarantee, Some(detail)) => {
                let (place, what) = detail
                    .split_once(' ')
                    .unwrap_or((detail, "guarantee failed"));
                format!("{what} at {place}")
            }
            (Kind::Guarantee, None) => format!("guarantee failed in {function}"),
            (Kind::WrongFrames, Some(why)) => {
                format!("wrong frames of {}: {function}, {why}", self.walker)
            }
            (Kind::WrongFrames, None) => format!("wrong frames at {function}"),
            (Kind::Breach, Some(what)) => format!("breach of contract ({what}) in {function}"),
            (Kind::Breach, None) => format!("breach of contract in {function}"),
            (Kind::Write, _) => format!("write to the walked stack in {function}"),
            (Kind::Death, how) => {
                let how = how.unwrap_or("ended");
                if function == Self::OPEN_WALK {
                    format!("process {how} while walking")
                } else {
                    format!("process {how}, {function}, after recoveries")
                }
            }
            (kind @ (Kind::Signal(_) | Kind::Hang | Kind::Abort), detail) => {
                let detail = detail.map(|d| format!(" ({d})")).unwrap_or_default();
                format!("{kind} in {function}{detail}")
            }
        };
        let is_named = self.kind == Kind::WrongFrames && self.detail.is_some();
        if self.walker != Self::NO_WALKER && !is_named {
            title.push_str(&format!(" via {}", self.walker));
        }
        if self.walker.starts_with(Self::SELF_TEST) {
            title.push_str(" (self-test)");
        }
        if let Some(tier) = tier {
            title.push_str(&format!(" [{tier}]"));
        }
        title
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}|{}|{}",
            self.kind,
            escape(&self.function),
            escape(&self.walker)
        )?;
        match &self.detail {
            Some(detail) => write!(f, "|{}", escape(detail)),
            None => Ok(()),
        }
    }
}

impl From<Signature> for String {
    fn from(signature: Signature) -> String {
        signature.to_string()
    }
}

impl TryFrom<String> for Signature {
    type Error = SignatureError;

    fn try_from(text: String) -> Result<Self, SignatureError> {
        text.parse()
    }
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let fields: Vec<&str> = text.split('|').collect();
        let (kind, function, walker, detail) = match fields[..] {
            [kind, function, walker] => (kind, function, walker, None),
            [kind, function, walker, detail] => (kind, function, walker, Some(detail)),
            _ => return Err(SignatureError::Fields(fields.len())),
        };
        Ok(Self {
            kind: kind.parse()?,
            function: unescape(function)?,
            walker: unescape(walker)?,
            detail: detail
                .map(unescape)
                .transpose()?
                .filter(|detail| !detail.is_empty()),
        })
    }
}

/// The hash of a signature; 16 hexadecimal digits as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignatureId(pub u64);

impl fmt::Display for SignatureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for SignatureId {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        u64::from_str_radix(text, 16)
            .ok()
            .filter(|_| digits)
            .map(SignatureId)
            .ok_or_else(|| SignatureError::Id(text.to_owned()))
    }
}

/// Why a text is no signature.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// A wrong number of fields.
    #[error("a signature has 3 or 4 fields separated by `|`, not {0}")]
    Fields(usize),
    /// An unknown first field.
    #[error("`{0}` is neither a signal nor hang, abort, death, guarantee, wrong-frames or breach")]
    Kind(String),
    /// A bad escape.
    #[error("`{0}` holds a `%` that begins no escape")]
    Escape(String),
    /// Not 16 hexadecimal digits.
    #[error("`{0}` is not a signature id of 16 hexadecimal digits")]
    Id(String),
}

const ESCAPES: [(char, &str); 4] = [('%', "%25"), ('|', "%7c"), ('\n', "%0a"), ('\r', "%0d")];

fn escape(field: &str) -> String {
    field
        .chars()
        .fold(String::with_capacity(field.len()), |mut out, c| {
            match ESCAPES.iter().find(|(plain, _)| *plain == c) {
                Some((_, escaped)) => out.push_str(escaped),
                None => out.push(c),
            }
            out
        })
}

fn unescape(field: &str) -> Result<String, SignatureError> {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(c) = rest.chars().next() {
        if c != '%' {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (plain, escaped) = ESCAPES
            .iter()
            .find(|(_, escaped)| rest.starts_with(escaped))
            .ok_or_else(|| SignatureError::Escape(field.to_owned()))?;
        out.push(*plain);
        rest = &rest[escaped.len()..];
    }
    Ok(out)
}
