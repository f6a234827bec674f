//! [`Arbitrary`]: the distributions, driven by a fuzzer's bytes.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::{Dice, distribution};
use crate::batch::Batch;
use crate::edit::{Edit, Perturbation};
use crate::registers::Arch;

/// For this machine's registers.
impl<'a> Arbitrary<'a> for Edit {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(distribution::edit(u, Arch::NATIVE))
    }
}

/// For this machine's registers.
impl<'a> Arbitrary<'a> for Perturbation {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(distribution::perturbation(u, Arch::NATIVE))
    }
}

/// For any architecture, mostly this machine's.
impl<'a> Arbitrary<'a> for Batch {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let arch = if u.chance(1, 4) {
            Arch::ALL[u.index(Arch::ALL.len())]
        } else {
            Arch::NATIVE
        };
        Ok(distribution::batch(u, arch))
    }
}
