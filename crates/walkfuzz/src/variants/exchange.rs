//! What a cell's parent asks of its child, in one argument, and what the child says, in lines of JSON: its JVM may die any time, and what was
//! said last counts.

use serde::{Deserialize, Serialize};
use walkfuzz_harness::Tried;
use walkfuzz_record::{KOfN, VariantSite};

/// What a child is asked for, in one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) batch: String,
    pub(crate) kind: Option<String>,
    pub(crate) offset: Option<String>,
    pub(crate) signature: String,
    pub(crate) instruction: String,
    pub(crate) moments: u64,
    pub(crate) enough: u64,
    pub(crate) seconds: f64,
    pub(crate) patience: f64,
    pub(crate) seed: u64,
}

/// What a child says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) again: KOfN,
    pub(crate) others: u64,
    pub(crate) controls: KOfN,
    pub(crate) frozen: Option<KOfN>,
    pub(crate) sites: Vec<VariantSite>,
}

impl From<&Tried> for Said {
    fn from(tried: &Tried) -> Self {
        Self {
            again: tried.again,
            others: tried.others,
            controls: tried.controls,
            frozen: tried.frozen,
            sites: tried
                .sites
                .iter()
                .map(|site| VariantSite {
                    signature: site.signature.clone(),
                    instruction: site.instruction.clone(),
                    moments: site.moments,
                    wanted: site.wanted,
                })
                .collect(),
        }
    }
}

impl Said {
    /// Adds what another JVM of the same cell said.
    pub(crate) fn add(&mut self, other: &Said) {
        let sum = |a: KOfN, b: KOfN| KOfN::new(a.k + b.k, a.of + b.of);
        self.again = sum(self.again, other.again);
        self.controls = sum(self.controls, other.controls);
        self.others += other.others;
        self.frozen = self.frozen.or(other.frozen);
        for site in &other.sites {
            let same = |known: &&mut VariantSite| {
                known.signature == site.signature && known.instruction == site.instruction
            };
            match self.sites.iter_mut().find(same) {
                Some(known) => known.moments += site.moments,
                None => self.sites.push(site.clone()),
            }
        }
    }
}
