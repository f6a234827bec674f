//! Perturbed copies of the contexts that an agent's handlers are called with.
//!
//! The landscape is shared by all threads, and one thread at a time perturbs: another that comes meanwhile makes no perturbed walks at that sample.
//!
//! Contract: [`Perturber::each`] and [`Perturber::at`] are signal-safe.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};

use walkfuzz_context::generate::{Rng, perturbation};
use walkfuzz_context::landscape::WALKED_STACK_WORDS;
use walkfuzz_context::{Arch, LandscapeTable, Registers, ValueClass};

use crate::hotspot::HotSpot;
use crate::landscape::{fill, survey};
use crate::live_memory::LiveMemory;
use crate::maps::Maps;

struct Tables {
    landscape: LandscapeTable,
    rng: Rng,
}

/// See the module.
pub struct Perturber {
    busy: AtomicBool,
    tables: UnsafeCell<Tables>,
}

// SAFETY: `busy` lets one in.
unsafe impl Sync for Perturber {}
// SAFETY: plain values.
unsafe impl Send for Perturber {}

impl std::fmt::Debug for Perturber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perturber").finish_non_exhaustive()
    }
}

impl Perturber {
    /// What is drawn depends on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            busy: AtomicBool::new(false),
            tables: UnsafeCell::new(Tables {
                landscape: LandscapeTable::new(),
                rng: Rng::new(seed),
            }),
        }
    }

    /// Calls `walk` with so many perturbed copies of `untouched`, the registers of the calling thread, which executes Java code that lies in `code`.
    pub fn each(
        &self,
        untouched: &Registers,
        code: &Range<u64>,
        times: u32,
        mut walk: impl FnMut(&Registers),
    ) {
        self.at(untouched, code, |rng, landscape| {
            for _ in 0..times {
                let mut registers = *untouched;
                let edits = perturbation(rng, Arch::NATIVE);
                edits.apply(&mut registers, landscape);
                walk(&registers);
            }
        });
    }

    /// Calls `work` with what draws, and with what values resolve to at these registers, which are as in [`Self::each`].
    pub fn at(
        &self,
        untouched: &Registers,
        code: &Range<u64>,
        work: impl FnOnce(&mut Rng, &LandscapeTable),
    ) {
        if self.busy.swap(true, Acquire) {
            return;
        }
        // SAFETY: `busy` is ours.
        let tables = unsafe { &mut *self.tables.get() };
        let sp = untouched.sp().0 & !7;
        // SAFETY: above the sp of a Java thread lie its first frames and its control block, together more than these 2 KB, and nobody else
        // writes there while its handler runs.
        let words = unsafe { std::slice::from_raw_parts(sp as *const u64, WALKED_STACK_WORDS) };
        tables
            .landscape
            .set_walked_stack(sp, words, |word| code.contains(&word));
        work(&mut tables.rng, &tables.landscape);
        let landscape = &mut tables.landscape;
        landscape.note(ValueClass::NaturalPc, untouched.pc().0);
        landscape.note(ValueClass::NaturalSp, untouched.sp().0);
        landscape.note(ValueClass::NaturalFp, untouched.fp().0);
        self.busy.store(false, Release);
    }

    /// Looks anew at what the value classes resolve to. Not for handlers.
    pub fn survey(&self, hotspot: &HotSpot, maps: &Maps) {
        let Ok(found) = survey(hotspot, &LiveMemory::new(), maps, None) else {
            return;
        };
        // Filled aside, so that no handler waits for it.
        let mut landscape = LandscapeTable::new();
        fill(&found, &mut landscape);
        for _ in 0..1000 {
            if !self.busy.swap(true, Acquire) {
                // SAFETY: `busy` is ours.
                let tables = unsafe { &mut *self.tables.get() };
                for class in [
                    ValueClass::NaturalPc,
                    ValueClass::NaturalSp,
                    ValueClass::NaturalFp,
                ] {
                    for value in tables.landscape.values(class).to_vec() {
                        landscape.note(class, value);
                    }
                }
                std::mem::swap(&mut tables.landscape, &mut landscape);
                self.busy.store(false, Release);
                return;
            }
            std::thread::yield_now();
        }
    }
}
