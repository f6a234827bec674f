//! One lane of a record, read: what was open, what came before it, and what was counted.
//!
//! Contract: pure and total over any words.

use walkfuzz_context::{Arch, BlobKind, Fp, Pc, Registers, Sp};

use crate::lane::{Counter, Meta, WalkerId};
use crate::layout::{INPUT_BYTES, InFlight, Input, LaneBlock, RECENT_WALKS, checksum};
use crate::outcome::{FaultRecord, OutcomeKind};
use crate::reader::Damage;
use crate::tally::Tally;
use walkfuzz_context::Address;

/// The walk that was open, or was being recorded, when the lane was last written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWalk {
    /// The walk's number in its lane, from 1.
    pub number: u64,
    /// False: the writer died while it recorded the walk, which had not begun; the data may be those of two walks.
    pub begun: bool,
    /// The walker.
    pub walker: WalkerId,
    /// Place in the batch.
    pub index: u8,
    /// What the pc lies in, if the number is a known one.
    pub kind: Option<BlobKind>,
    /// Whether anything was edited.
    pub perturbed: bool,
    /// What the walker got.
    pub registers: Registers,
    /// The sample that `registers` were made from.
    pub untouched: Registers,
}

impl OpenWalk {
    /// Names of the edited registers.
    #[must_use]
    pub fn edited_names(&self) -> Vec<&'static str> {
        let names = self.registers.arch.register_names().iter();
        let pairs = self.registers.words.iter().zip(&self.untouched.words);
        names
            .zip(pairs)
            .filter(|(_, (now, before))| now != before)
            .map(|(&name, _)| name)
            .collect()
    }

    /// One sentence.
    #[must_use]
    pub fn describe(&self, walker: &str, input: Option<&InputRecord>) -> String {
        let what = if self.begun {
            "a walk was open"
        } else {
            "died while recording a walk"
        };
        let input = input.map_or("no input".to_owned(), |input| {
            format!("input of {} bytes ({:#018x})", input.length, input.hash)
        });
        let kind = self.kind.map_or("unknown code", BlobKind::name);
        let mut text = format!(
            "{what}: {input}, walk {}, {walker}, pc {} in {kind}, sp {}, fp {}",
            self.index,
            self.registers.pc(),
            self.registers.sp(),
            self.registers.fp(),
        );
        let edited = self.edited_names();
        if edited.is_empty() {
            text += if self.perturbed {
                ", perturbed elsewhere"
            } else {
                ", untouched"
            };
        } else {
            text += &format!(
                ", edited {} (untouched pc {}, sp {}, fp {})",
                edited.join(" "),
                self.untouched.pc(),
                self.untouched.sp(),
                self.untouched.fp()
            );
        }
        text
    }
}

/// One of the last walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastWalk {
    /// The walk's number in its lane, from 1.
    pub number: u64,
    /// The walker.
    pub walker: WalkerId,
    /// Place in the batch.
    pub index: u8,
    /// What the pc lay in, if the number is a known one.
    pub kind: Option<BlobKind>,
    /// Whether a register or anything else was edited.
    pub perturbed: bool,
    /// What the walker got.
    pub pc: Pc,
    /// What the walker got.
    pub sp: Sp,
    /// What the walker got.
    pub fp: Fp,
    /// What came of it; `None` for a walk that did not end.
    pub outcome: Option<OutcomeKind>,
    /// Frames, code (as `u32`), signal or breach, by outcome.
    pub value: u32,
}

/// The input that the last walks came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRecord {
    /// Inputs begun in the lane so far.
    pub number: u64,
    /// Bytes of the whole input.
    pub length: u64,
    /// [`checksum`] of the kept bytes.
    pub hash: u64,
    /// The kept bytes: the whole input up to 4 KiB.
    pub bytes: Vec<u8>,
    /// Whether the bytes are what was written.
    pub intact: bool,
}

/// Faults at one place, from which the guard recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlace {
    /// Where.
    pub pc: Pc,
    /// Signal of the first.
    pub signal: i32,
    /// Its `si_code`.
    pub code: i32,
    /// In walks of untouched contexts.
    pub untouched: u64,
    /// In walks of perturbed ones.
    pub perturbed: u64,
}

/// One lane.
#[derive(Clone, Debug)]
pub struct LaneRecord {
    /// Its number.
    pub index: u32,
    /// Who held it at the end.
    pub owner: Option<u32>,
    /// How often it was claimed.
    pub claims: u64,
    /// Walks that ended.
    pub walks: u64,
    /// The open walk.
    pub open: Option<OpenWalk>,
    /// The last walks, oldest first, at most 64.
    pub recent: Vec<PastWalk>,
    /// The last fault that the guard recovered from, with its walk's number.
    pub last_fault: Option<(u64, FaultRecord)>,
    /// Faults by place, for the first 16 places of the lane; the tallies have all of them.
    pub faults: Vec<FaultPlace>,
    /// The last input.
    pub input: Option<InputRecord>,
    /// Per walker, untouched (`false`) and perturbed (`true`), those that counted anything.
    pub tallies: Vec<(WalkerId, bool, Tally)>,
    counters: Vec<u64>,
}

impl LaneRecord {
    /// A counter's value.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    pub(crate) fn read(
        index: u32,
        block: &LaneBlock<u64>,
        arch: Option<Arch>,
        closed: bool,
        damage: &mut Vec<Damage>,
    ) -> Self {
        let walks = block.in_flight.sequence / 2;
        let tallies: Vec<_> = (0..)
            .zip(&block.tallies)
            .map(|(slot, tally)| (WalkerId(slot / 2), slot % 2 == 1, Tally::read(tally)))
            .filter(|(_, _, tally)| !tally.is_empty())
            .collect();
        let counted = tallies.iter().fold(0_u64, |sum, (_, _, tally)| {
            sum.saturating_add(tally.walks())
        });
        // A walk that was given up (it left its snapshot, say) has no outcome; the next one closes it.
        let abandoned = block.counters.get(Counter::Abandoned as usize).copied();
        let accounted = counted.saturating_add(abandoned.unwrap_or(0));
        // A walk is counted before it is closed, and a live writer goes on while its record is read: only then can there be more.
        if accounted < walks || (closed && counted > walks) {
            damage.push(Damage::Outcomes {
                lane: index,
                counted,
                ended: walks,
            });
        }
        let fault = &block.last_fault;
        let last_fault = FaultRecord {
            signal: (fault.signal_code >> 32) as i32,
            code: fault.signal_code as i32,
            pc: Pc(fault.pc),
            address: Address(fault.address),
        };
        Self {
            index,
            owner: block.owner.holder.checked_sub(1).map(|owner| owner as u32),
            claims: block.owner.claims,
            walks,
            open: open_walk(index, &block.in_flight, arch, damage),
            recent: recent(block),
            last_fault: (fault.walk != 0).then_some((fault.walk, last_fault)),
            faults: faults(block),
            input: input(index, &block.input, damage),
            tallies,
            counters: block.counters.to_vec(),
        }
    }
}

fn faults(block: &LaneBlock<u64>) -> Vec<FaultPlace> {
    let used = block.faults.iter().filter(|place| place.pc != 0);
    used.map(|place| FaultPlace {
        pc: Pc(place.pc),
        signal: (place.signal_code >> 32) as i32,
        code: place.signal_code as i32,
        untouched: place.untouched,
        perturbed: place.perturbed,
    })
    .collect()
}

fn blob_kind(meta: Meta) -> Option<BlobKind> {
    BlobKind::ALL.get(usize::from(meta.blob_kind())).copied()
}

fn open_walk(
    lane: u32,
    slot: &InFlight<u64>,
    arch: Option<Arch>,
    damage: &mut Vec<Damage>,
) -> Option<OpenWalk> {
    let marked = slot.sequence.div_ceil(2);
    let is_open = slot.sequence & 1 == 1;
    if slot.begun < marked || slot.begun > marked + 1 {
        damage.push(Damage::Marks {
            lane,
            begun: slot.begun,
            sequence: slot.sequence,
        });
        return None;
    }
    let torn = slot.begun > marked;
    if !is_open && !torn {
        return None;
    }
    if torn {
        damage.push(Damage::TornWalk {
            lane,
            number: slot.begun,
        });
    }
    let meta = Meta(slot.meta);
    let arch = arch.unwrap_or(Arch::NATIVE);
    Some(OpenWalk {
        number: slot.begun,
        begun: !torn,
        walker: meta.walker(),
        index: meta.index(),
        kind: blob_kind(meta),
        perturbed: meta.is_perturbed(),
        registers: Registers {
            arch,
            words: slot.registers,
        },
        untouched: Registers {
            arch,
            words: slot.untouched,
        },
    })
}

fn recent(block: &LaneBlock<u64>) -> Vec<PastWalk> {
    let last = block.in_flight.begun;
    let first = last.saturating_sub(RECENT_WALKS as u64).saturating_add(1);
    let walks = (first.max(1)..=last).map(|number| {
        let slot = &block.recent[(number % RECENT_WALKS as u64) as usize];
        let meta = Meta(slot.meta);
        PastWalk {
            number,
            walker: meta.walker(),
            index: meta.index(),
            kind: blob_kind(meta),
            perturbed: meta.is_perturbed(),
            pc: Pc(slot.pc),
            sp: Sp(slot.sp),
            fp: Fp(slot.fp),
            outcome: OutcomeKind::from_number(meta.outcome_kind()),
            value: meta.value(),
        }
    });
    walks.collect()
}

fn input(lane: u32, slot: &Input<u64>, damage: &mut Vec<Damage>) -> Option<InputRecord> {
    if slot.begun == 0 {
        return None;
    }
    let kept = slot.length.min(INPUT_BYTES as u64) as usize;
    let mut bytes: Vec<u8> = slot
        .bytes
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    bytes.truncate(kept);
    let intact = slot.begun == slot.written && checksum(&bytes) == slot.hash;
    if !intact {
        damage.push(Damage::TornInput { lane });
    }
    Some(InputRecord {
        number: slot.begun,
        length: slot.length,
        hash: slot.hash,
        bytes,
        intact,
    })
}
