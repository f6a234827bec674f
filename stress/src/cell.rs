//! A cell: one point of the matrix, and its name.
//!
//! Contract: plain values. What a value means to a JVM is said elsewhere (`flags`, `clock`, `workload`); here all are words.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

macro_rules! dimensions {
    ($($(#[$doc:meta])* $variant:ident, $field:ident, $name:literal;)*) => {
        /// An axis of the matrix.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Dimension {
            $($(#[$doc])* $variant,)*
        }

        impl Dimension {
            /// Every axis, in the order of names and tables.
            pub const ALL: &'static [Dimension] = &[$(Dimension::$variant),*];

            /// The word that filters, profiles and JSON use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Dimension::$variant => $name,)* }
            }

            /// The axis of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|dimension| dimension.name() == name)
            }
        }

        /// One point of the matrix.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct Cell {
            $($(#[$doc])* pub $field: String,)*
        }

        impl Cell {
            /// The value on an axis.
            #[must_use]
            pub fn get(&self, dimension: Dimension) -> &str {
                match dimension { $(Dimension::$variant => &self.$field,)* }
            }

            /// A cell of the values that `value` names.
            #[must_use]
            pub fn of(mut value: impl FnMut(Dimension) -> String) -> Self {
                Self { $($field: value(Dimension::$variant),)* }
            }
        }
    };
}

dimensions! {
    /// Version of the JDK, `17.0.15`.
    Jdk, jdk, "jdk";
    /// Collector, `g1`.
    Collector, collector, "collector";
    /// A named set of JVM options, `default`.
    Flags, flags, "flags";
    /// The code under test, `agct`.
    Walker, walker, "walker";
    /// How it is called, `guarded`.
    Mode, mode, "mode";
    /// The program that is sampled, `forkjoin`, `renaissance:finagle-http`.
    Workload, workload, "workload";
    /// What disturbs it: names joined by `+`, or `none`.
    Antagonists, antagonists, "antagonists";
    /// What makes samples: clocks joined by `+`, and which threads: `timer`, `tick:random8`.
    Clock, clock, "clock";
    /// Time between samples of a thread that runs, `100us`.
    Interval, interval, "interval";
}

impl Cell {
    /// The name of the cell's folder: what a reader wants to see of it, and eight digits of a hash of everything.
    #[must_use]
    pub fn id(&self) -> String {
        let words = [
            &self.jdk,
            &self.collector,
            &self.walker,
            &self.mode,
            &self.workload,
        ];
        let clean = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        let name: Vec<String> = words
            .iter()
            .map(|word| word.chars().map(clean).take(24).collect())
            .collect();
        let mut hash = Sha256::new();
        for &dimension in Dimension::ALL {
            hash.update(self.get(dimension));
            hash.update([0]);
        }
        let hash = hash.finalize();
        let digits: String = hash.iter().take(4).map(|b| format!("{b:02x}")).collect();
        format!("{}-{digits}", name.join("-"))
    }

    /// The antagonists by themselves.
    pub fn antagonists(&self) -> impl Iterator<Item = &str> {
        self.antagonists
            .split('+')
            .filter(|name| !name.is_empty() && *name != "none")
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &dimension) in Dimension::ALL.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", self.get(dimension))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cell(values: &str) -> Cell {
        let mut words = values.split(' ');
        Cell::of(|_| words.next().unwrap().to_owned())
    }

    #[test]
    fn names_tell_cells_apart_and_suit_a_file_system() {
        let one = cell("17.0.15 g1 default agct guarded renaissance:finagle-http none timer 100us");
        let other =
            cell("17.0.15 g1 default agct guarded renaissance:finagle-http none timer 10ms");
        assert!(
            one.id()
                .starts_with("17.0.15-g1-agct-guarded-renaissance-finagle-htt"),
            "{}",
            one.id()
        );
        assert_ne!(one.id(), other.id());
        let odd = Cell::of(|_| "../../a b\n".to_owned()).id();
        assert!(!odd.contains(['/', ' ', '\n']), "{odd}");
    }

    #[test]
    fn antagonists_are_a_list() {
        let with = cell("17 g1 default agct guarded forkjoin deopt+classes timer 100us");
        assert_eq!(with.antagonists().collect::<Vec<_>>(), ["deopt", "classes"]);
        let without = cell("17 g1 default agct guarded forkjoin none timer 100us");
        assert_eq!(without.antagonists().count(), 0);
    }

    #[test]
    fn every_axis_has_its_own_name() {
        for &dimension in Dimension::ALL {
            assert_eq!(Dimension::from_name(dimension.name()), Some(dimension));
        }
        assert_eq!(Dimension::from_name("gc"), None);
    }
}
