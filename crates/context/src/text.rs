//! The text form of perturbations and batches, for people; it reads back to the same value.
//!
//! ```text
//! pc=nmethod-body[12]+3    set to a value of a class, and its offset
//! fp=7                     set to a small number
//! sp+=16                   nudge
//! fp~bit5                  flip a bit
//! swap(sp,fp)              exchange two registers
//! fp=&sp-8                 alias: what sp holds, less 8
//! lr^pac0x5a               invert bits of the pointer authentication code
//! ```
//!
//! A perturbation is edits separated by spaces, or `untouched`. A batch is its moment, a colon, and its walks separated by
//! semicolons or line ends:
//!
//! ```text
//! x86_64 thread=1 steps=40 depth=64: pc=return-address[2] sp=return-address-slot[2]+8; untouched
//! ```
//!
//! `thread`, `steps` and `depth` may be left out when reading. pc, sp, fp and lr have these names on both architectures, the
//! other registers their own. Printing allocates nothing by itself; neither printing nor parsing belongs into a handler.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use crate::batch::{Batch, DepthLimit, MAX_WALKS};
use crate::edit::{Edit, MAX_EDITS, PAC_MASK, Perturbation};
use crate::registers::{Arch, Register};
use crate::value::{Value, ValueClass};

/// Why a text is no perturbation or batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A word that is none of the edits.
    #[error("not an edit: {0:?}")]
    Edit(String),
    /// A register that the architecture has not.
    #[error("no register {name:?} on {}", arch.name())]
    Register {
        /// The name.
        name: String,
        /// The architecture it was looked for on.
        arch: Arch,
    },
    /// A value class that does not exist.
    #[error("no value class {0:?}")]
    Class(String),
    /// A number that is none, or is out of range.
    #[error("not a number in {min}..={max}: {text:?}")]
    Number {
        /// What stood there.
        text: String,
        /// The smallest that fits.
        min: i64,
        /// The largest that fits.
        max: i64,
    },
    /// More edits than a perturbation holds.
    #[error("more than {MAX_EDITS} edits: {0:?}")]
    TooManyEdits(String),
    /// More walks than a batch holds.
    #[error("more than {MAX_WALKS} walks")]
    TooManyWalks,
    /// A text without the `arch ...:` in front.
    #[error("no architecture and colon in front: {0:?}")]
    Header(String),
    /// A depth limit that does not exist.
    #[error("no depth limit {0}: one of {limits:?}", limits = DepthLimit::LIMITS)]
    Depth(u16),
}

/// A perturbation and the architecture whose registers it edits: `x86_64: sp+=16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArchPerturbation {
    /// Whose registers.
    pub arch: Arch,
    /// The edits.
    pub perturbation: Perturbation,
}

impl fmt::Display for ArchPerturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arch, perturbation } = self;
        write!(f, "{}: {}", arch.name(), perturbation.display(*arch))
    }
}

impl FromStr for ArchPerturbation {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let header = || TextError::Header(text.to_owned());
        let (arch, edits) = text.split_once(':').ok_or_else(header)?;
        let arch = Arch::from_name(arch.trim()).ok_or_else(header)?;
        Ok(Self {
            arch,
            perturbation: Perturbation::parse(arch, edits)?,
        })
    }
}

impl Perturbation {
    /// The text form, without the architecture.
    #[must_use]
    pub fn display(&self, arch: Arch) -> DisplayPerturbation<'_> {
        DisplayPerturbation {
            arch,
            perturbation: self,
        }
    }

    /// Reads what [`display`](Self::display) prints.
    ///
    /// # Errors
    /// Says which word was not understood, and why.
    pub fn parse(arch: Arch, text: &str) -> Result<Self, TextError> {
        let mut perturbation = Self::UNTOUCHED;
        if text.trim() == "untouched" {
            return Ok(perturbation);
        }
        for word in text.split_ascii_whitespace() {
            if !perturbation.push(parse_edit(arch, word)?) {
                return Err(TextError::TooManyEdits(text.trim().to_owned()));
            }
        }
        Ok(perturbation)
    }
}

/// Prints a perturbation ([`Perturbation::display`]).
#[derive(Clone, Copy, Debug)]
pub struct DisplayPerturbation<'a> {
    arch: Arch,
    perturbation: &'a Perturbation,
}

impl fmt::Display for DisplayPerturbation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.perturbation.is_untouched() {
            return f.write_str("untouched");
        }
        for (index, edit) in self.perturbation.edits().iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write_edit(f, self.arch, edit)?;
        }
        Ok(())
    }
}

fn write_edit(f: &mut fmt::Formatter<'_>, arch: Arch, edit: &Edit) -> fmt::Result {
    // A register that the architecture lacks prints as a question mark, which does not read back: it has no meaning to keep.
    let name = |register: Register| register.name(arch).unwrap_or("?");
    match *edit {
        Edit::Nudge { register, delta } => {
            let sign = if delta < 0 { '-' } else { '+' };
            write!(f, "{}{sign}={}", name(register), delta.unsigned_abs())
        }
        Edit::Set { register, value } => write!(f, "{}={value}", name(register)),
        Edit::Flip { register, bit } => write!(f, "{}~bit{bit}", name(register)),
        Edit::Swap { a, b } => write!(f, "swap({},{})", name(a), name(b)),
        Edit::Alias {
            register,
            source,
            delta,
        } => {
            write!(f, "{}=&{}", name(register), name(source))?;
            write_offset(f, i64::from(delta))
        }
        Edit::Sign { register, bits } => write!(f, "{}^pac{bits:#x}", name(register)),
    }
}

fn write_offset(f: &mut fmt::Formatter<'_>, offset: i64) -> fmt::Result {
    if offset == 0 {
        Ok(())
    } else {
        write!(f, "{offset:+}")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            ValueClass::Literal => write!(f, "{}", self.selector)?,
            class => write!(f, "{}[{}]", class.name(), self.selector)?,
        }
        write_offset(f, i64::from(self.offset))
    }
}

impl FromStr for Value {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (class, selector, offset) = match text.split_once('[') {
            Some((name, rest)) => {
                let class =
                    ValueClass::from_name(name).ok_or_else(|| TextError::Class(name.to_owned()))?;
                let (selector, offset) = rest
                    .split_once(']')
                    .ok_or_else(|| TextError::Edit(text.to_owned()))?;
                (class, selector, offset)
            }
            None => {
                let (selector, offset) = split_offset(text);
                if !selector.starts_with(|c: char| c.is_ascii_digit()) {
                    return Err(TextError::Class(text.to_owned()));
                }
                (ValueClass::Literal, selector, offset)
            }
        };
        Ok(Self::new(class, number(selector)?, offset_number(offset)?))
    }
}

fn parse_edit(arch: Arch, word: &str) -> Result<Edit, TextError> {
    let unknown = || TextError::Edit(word.to_owned());
    let register = |name: &str| {
        Register::from_name(arch, name).ok_or_else(|| TextError::Register {
            name: name.to_owned(),
            arch,
        })
    };
    if let Some(pair) = word.strip_prefix("swap(") {
        let (a, b) = pair
            .strip_suffix(')')
            .and_then(|pair| pair.split_once(','))
            .ok_or_else(unknown)?;
        return Ok(Edit::Swap {
            a: register(a)?,
            b: register(b)?,
        });
    }
    let name_end = word
        .find(|c: char| !c.is_ascii_alphanumeric())
        .ok_or_else(unknown)?;
    let (name, rest) = word.split_at(name_end);
    if let Some(bit) = rest.strip_prefix("~bit") {
        Ok(Edit::Flip {
            register: register(name)?,
            bit: bounded(bit, 0, 63)?,
        })
    } else if let Some(bits) = rest.strip_prefix("^pac") {
        Ok(Edit::Sign {
            register: register(name)?,
            bits: bounded(bits, 0, i64::from(PAC_MASK))?,
        })
    } else if let Some(delta) = rest.strip_prefix("+=") {
        Ok(Edit::Nudge {
            register: register(name)?,
            delta: number(delta)?,
        })
    } else if let Some(delta) = rest.strip_prefix("-=") {
        Ok(Edit::Nudge {
            register: register(name)?,
            delta: offset_number(&format!("-{delta}"))?,
        })
    } else if let Some(alias) = rest.strip_prefix("=&") {
        let (source, delta) = split_offset(alias);
        Ok(Edit::Alias {
            register: register(name)?,
            source: register(source)?,
            delta: offset_number(delta)?,
        })
    } else if let Some(value) = rest.strip_prefix('=') {
        Ok(Edit::Set {
            register: register(name)?,
            value: value.parse()?,
        })
    } else {
        Err(unknown())
    }
}

/// Splits in front of the first sign.
fn split_offset(text: &str) -> (&str, &str) {
    text.split_at(text.find(['+', '-']).unwrap_or(text.len()))
}

/// A number type that the texts hold.
trait Number: TryFrom<i64> {
    const MIN: i64;
    const MAX: i64;
}

macro_rules! number {
    ($($type:ident)*) => {$(
        impl Number for $type {
            const MIN: i64 = $type::MIN as i64;
            const MAX: i64 = $type::MAX as i64;
        }
    )*};
}
number!(u8 u16 i16 i32);

/// A number without a sign, decimal or with `0x`.
fn number<T: Number>(text: &str) -> Result<T, TextError> {
    bounded(text, T::MIN.max(0), T::MAX)
}

/// Nothing, or a number with a sign.
fn offset_number<T: Number>(text: &str) -> Result<T, TextError> {
    match text.strip_prefix('-') {
        _ if text.is_empty() => bounded("0", 0, 0),
        Some(digits) => checked(text, magnitude(digits).map(|n| -n), T::MIN, T::MAX),
        None => checked(
            text,
            text.strip_prefix('+').and_then(magnitude),
            T::MIN,
            T::MAX,
        ),
    }
}

fn bounded<T: Number>(text: &str, min: i64, max: i64) -> Result<T, TextError> {
    checked(text, magnitude(text), min, max)
}

fn checked<T: Number>(text: &str, number: Option<i64>, min: i64, max: i64) -> Result<T, TextError> {
    number
        .filter(|number| (min..=max).contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| TextError::Number {
            text: text.to_owned(),
            min,
            max,
        })
}

fn magnitude(digits: &str) -> Option<i64> {
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (digits, 10),
    };
    // `from_str_radix` takes a sign, which none of our callers may have left.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    match u32::from_str_radix(digits, radix) {
        Ok(number) => Some(i64::from(number)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(i64::MAX),
        Err(_) => None,
    }
}

impl fmt::Display for Batch {
    /// One line; with `{:#}` a line per walk.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            arch,
            thread,
            steps,
            depth,
            ..
        } = self;
        write!(
            f,
            "{} thread={thread} steps={steps} depth={depth}:",
            arch.name()
        )?;
        for (index, walk) in self.walks().iter().enumerate() {
            let separator = match (f.alternate(), index) {
                (true, _) => "\n  ",
                (false, 0) => " ",
                (false, _) => "; ",
            };
            write!(f, "{separator}{}", walk.display(*arch))?;
        }
        Ok(())
    }
}

impl FromStr for Batch {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let bad_header = || TextError::Header(text.to_owned());
        let (header, walks) = text.split_once(':').ok_or_else(bad_header)?;
        let mut fields = header.split_ascii_whitespace();
        let arch = fields
            .next()
            .and_then(Arch::from_name)
            .ok_or_else(bad_header)?;
        let mut batch = Batch::untouched(arch);
        for field in fields {
            match field.split_once('=') {
                Some(("thread", thread)) => batch.thread = number(thread)?,
                Some(("steps", steps)) => batch.steps = number(steps)?,
                Some(("depth", depth)) => {
                    let frames = number(depth)?;
                    batch.depth =
                        DepthLimit::from_frames(frames).ok_or(TextError::Depth(frames))?;
                }
                _ => return Err(bad_header()),
            }
        }
        let mut parsed = Vec::new();
        for walk in walks.split([';', '\n']) {
            if !walk.trim().is_empty() {
                parsed.push(Perturbation::parse(arch, walk)?);
            }
        }
        if parsed.len() > MAX_WALKS {
            return Err(TextError::TooManyWalks);
        }
        batch.set_walks(&parsed);
        Ok(batch)
    }
}
