//! Addresses in JSON: strings of `0x` and hexadecimal digits, which people compare with crash logs.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

fn parse<E: Error>(text: &str) -> Result<u64, E> {
    text.strip_prefix("0x")
        .filter(|digits| !digits.starts_with('+'))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| E::custom(format_args!("{text:?} is no hexadecimal number")))
}

/// A plain word.
pub(crate) fn serialize<S: Serializer>(word: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{word:#x}"))
}

/// See above.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    parse(&String::deserialize(input)?)
}

macro_rules! of {
    ($module:ident, $name:ident) => {
        pub(crate) mod $module {
            use serde::{Deserializer, Serializer};
            use walkfuzz_context::$name;

            pub(crate) fn serialize<S: Serializer>(it: &$name, out: S) -> Result<S::Ok, S::Error> {
                super::serialize(&it.0, out)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                input: D,
            ) -> Result<$name, D::Error> {
                super::deserialize(input).map($name)
            }
        }
    };
}

of!(address, Address);
of!(pc, Pc);
of!(sp, Sp);

/// Registers by name.
pub(crate) mod registers {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use walkfuzz_context::{Arch, Registers};

    pub(crate) fn serialize<S: Serializer>(it: &Registers, out: S) -> Result<S::Ok, S::Error> {
        let names = it.arch.register_names().iter();
        let words: BTreeMap<_, _> = names
            .zip(it.words)
            .map(|(name, word)| (*name, format!("{word:#x}")))
            .collect();
        words.serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Registers, D::Error> {
        let mut words = BTreeMap::<String, String>::deserialize(input)?;
        let mut registers = Registers::zeroed(Arch::NATIVE);
        for (name, word) in Arch::NATIVE
            .register_names()
            .iter()
            .zip(&mut registers.words)
        {
            let text = words
                .remove(*name)
                .ok_or_else(|| D::Error::custom(format_args!("register {name} is missing")))?;
            *word = super::parse(&text)?;
        }
        match words.into_keys().next() {
            Some(name) => Err(D::Error::custom(format_args!("{name} is no register"))),
            None => Ok(registers),
        }
    }
}
