//! Queued samples: which word of an element stands for which register, so that edits, value classes, generator, codec and text form serve elements too.
//!
//! Queues of samples hold what a handler took down of the interrupted frame, to be walked later. Their words have the registers' roles (sp, fp, pc; the
//! bytecode pointer has a register in HotSpot's interpreter) or borrow a register that no walker reads.
//!
//! ```text
//! sp~bit5          a bit of the stack pointer of an element
//! bcp+=8 ticks=0   its bytecode pointer, and when it was taken
//! ```
//!
//! Signal-safe: all but [`parse`] and [`text`].

use crate::arch;
use crate::codec::MAX_PERTURBATION_BYTES;
use crate::edit::{Edit, Perturbation};
use crate::generate::{Dice, edit, perturbation};
use crate::registers::{Arch, Register};
use crate::text::TextError;

/// Room for one perturbation in a file of them that a queue is fed from; in the first place stands how many were taken, as a little-endian number.
pub const FED: usize = 64;

const _: () = assert!(MAX_PERTURBATION_BYTES < FED);

/// A word of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// The stack pointer of the sampled frame.
    Sp,
    /// Its frame pointer.
    Fp,
    /// Its pc.
    Pc,
    /// The interpreter's bytecode pointer.
    Bcp,
    /// What the sampler gave along; in JFR's queue the time.
    Arg,
    /// JFR's: the time on the processor that the sample stands for.
    Period,
    /// Not of the element: how many elements the queue says that it holds.
    Size,
}

impl Word {
    /// Every word.
    pub const ALL: [Word; 7] = [
        Word::Sp,
        Word::Fp,
        Word::Pc,
        Word::Bcp,
        Word::Arg,
        Word::Period,
        Word::Size,
    ];
    /// The words of a request of JFR's, in its order, and the queue's size.
    pub const OF_JFR: [Word; 6] = [
        Word::Sp,
        Word::Pc,
        Word::Bcp,
        Word::Arg,
        Word::Period,
        Word::Size,
    ];

    /// The name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Word::Sp => "sp",
            Word::Fp => "fp",
            Word::Pc => "pc",
            Word::Bcp => "bcp",
            Word::Arg => "ticks",
            Word::Period => "period",
            Word::Size => "size",
        }
    }

    /// The register that stands for it.
    #[must_use]
    pub fn register(self, arch: Arch) -> Register {
        let [bcp, arg, period, size] = match arch {
            Arch::X86_64 => arch::x86_64::ELEMENT,
            Arch::Aarch64 => arch::aarch64::ELEMENT,
        };
        match self {
            Word::Sp => arch.sp(),
            Word::Fp => arch.fp(),
            Word::Pc => arch.pc(),
            Word::Bcp => bcp,
            Word::Arg => arg,
            Word::Period => period,
            Word::Size => size,
        }
    }
}

/// The perturbation with each register that stands for none of `words` replaced by one that does.
#[must_use]
pub fn folded(perturbation: &Perturbation, words: &[Word], arch: Arch) -> Perturbation {
    let fold = |register: Register| {
        let known = words.iter().any(|word| word.register(arch) == register);
        if known {
            return Some(register);
        }
        let index = usize::from(register.0).checked_rem(words.len())?;
        words.get(index).map(|word| word.register(arch))
    };
    let edits = perturbation.edits().iter();
    edits.filter_map(|edit| edit.with_registers(fold)).collect()
}

/// A perturbation of an element with these words: mostly one edit.
pub fn element(dice: &mut impl Dice, words: &[Word], arch: Arch) -> Perturbation {
    let drawn = match dice.below(8) {
        0 => perturbation(dice, arch),
        1 => Perturbation::from_edits(&[edit(dice, arch), edit(dice, arch)]),
        _ => {
            let register = words.get(dice.index(words.len().max(1)));
            let register = register.map_or(arch.sp(), |word| word.register(arch));
            let edit = edit(dice, arch);
            let first = edit.register();
            let moved = |old: Register| Some(if old == first { register } else { old });
            edit.with_registers(moved)
                .into_iter()
                .collect::<Perturbation>()
        }
    };
    folded(&drawn, words, arch)
}

/// Reads edits of an element, in the words' names or the registers'.
///
/// # Errors
/// Says which word was not understood.
pub fn parse(arch: Arch, text: &str) -> Result<Perturbation, TextError> {
    let names = Word::ALL.map(|word| (word.name(), word.register(arch).name(arch)));
    Perturbation::parse(arch, &renamed(text, &names))
}

/// The text form, in the words' names.
#[must_use]
pub fn text(perturbation: &Perturbation, arch: Arch) -> String {
    let text = perturbation.display(arch).to_string();
    let names = Word::ALL.map(|word| {
        let register = word.register(arch).name(arch);
        (register.unwrap_or_default(), Some(word.name()))
    });
    renamed(&text, &names)
}

/// The text with whole names replaced; a name is letters and digits. Of the value classes' names, which have hyphens, none has a part that is replaced by
/// something else.
fn renamed(text: &str, names: &[(&str, Option<&str>)]) -> String {
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_name = |c: char| c.is_ascii_alphanumeric();
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let known = names.iter().find(|(from, _)| *from == name);
        renamed.push_str(known.and_then(|(_, to)| *to).unwrap_or(name));
        let separator = after.chars().next().map_or(0, char::len_utf8);
        let (between, next) = after.split_at(separator);
        renamed.push_str(between);
        rest = next;
    }
    renamed
}

/// The words that a perturbation edits, each once.
pub fn edited<'a>(edits: &'a [Edit], arch: Arch) -> impl Iterator<Item = Word> + use<'a> {
    Word::ALL.into_iter().filter(move |word| {
        let register = word.register(arch);
        edits.iter().any(|edit| {
            let swapped = matches!(edit, Edit::Swap { b, .. } if *b == register);
            edit.register() == register || swapped
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;

    #[test]
    fn words_have_names_and_read_back() {
        for arch in Arch::ALL {
            for said in [
                "sp~bit5",
                "bcp+=8 ticks=0 size=3",
                "period=heap[3]+1",
                "swap(pc,bcp)",
                "sp=&bcp-8",
                "pc=return-address[2]",
            ] {
                let edits = parse(arch, said).unwrap();
                assert_eq!(text(&edits, arch), said);
            }
            assert!(parse(arch, "colour=3").is_err());
        }
    }

    #[test]
    fn each_word_has_a_register_of_its_own() {
        for arch in Arch::ALL {
            let mut registers = Word::ALL.map(|word| word.register(arch));
            registers.sort();
            assert!(registers.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }

    #[test]
    fn what_is_drawn_edits_the_words_and_all_of_them() {
        for arch in Arch::ALL {
            let mut rng = Rng::new(1);
            let mut seen = std::collections::HashMap::new();
            for _ in 0..1000 {
                let drawn = element(&mut rng, &Word::OF_JFR, arch);
                for edit in drawn.edits() {
                    let register = edit.register();
                    let words = Word::OF_JFR.map(|word| word.register(arch));
                    assert!(words.contains(&register), "{edit:?}");
                }
                for word in edited(drawn.edits(), arch) {
                    *seen.entry(word).or_insert(0) += 1;
                }
            }
            for word in Word::OF_JFR {
                assert!(seen.get(&word).is_some_and(|count| *count > 50), "{word:?}");
            }
            assert!(!seen.contains_key(&Word::Fp));
        }
    }
}
