//! The byte form of batches and perturbations, version 1.
//!
//! Total: any bytes decode, and so do no bytes (one untouched walk). Canonical: whatever decodes encodes to the bytes that
//! decode to it again, and those are a fixed point. An input names the architecture whose registers it edits; another
//! architecture's input decodes as what it is, and [`Batch::adapt`] makes it usable here.
//!
//! ```text
//! batch        = header thread steps depth walk*     header 0x12: version 1 for aarch64; anything else: for x86_64
//! walk         = count edit{count}                   count modulo 7; walks past the 16th are ignored
//! edit         = kind register operands              kind modulo 6
//!   0 nudge      delta:i32
//!   1 set        class selector:u16 offset:i16       class modulo their number
//!   2 flip       bit                                 modulo 64
//!   3 swap       register
//!   4 alias      register delta:i32
//!   5 sign       bits                                the low seven
//! perturbation = header walk
//! ```
//!
//! Numbers are little-endian; bytes past the end read as zero. A register byte that is no register of the architecture stands
//! for pc, sp or fp (modulo 3), so that random bytes edit the registers that matter.
//!
//! A later version takes another header byte and reads this one's.
//!
//! Signal-safe: everything but [`Batch::to_bytes`] and [`perturbation_to_bytes`].

use crate::batch::{Batch, DepthLimit, MAX_WALKS};
use crate::edit::{Edit, MAX_EDITS, PAC_MASK, Perturbation};
use crate::registers::{Arch, Register};
use crate::value::{Value, ValueClass};

const HEADER_BYTES: usize = 4;
const MAX_EDIT_BYTES: usize = 7;
const MAX_WALK_BYTES: usize = 1 + MAX_EDITS * MAX_EDIT_BYTES;
/// No batch encodes to more bytes.
pub const MAX_BATCH_BYTES: usize = HEADER_BYTES + MAX_WALKS * MAX_WALK_BYTES;
/// No single perturbation encodes to more bytes.
pub const MAX_PERTURBATION_BYTES: usize = 1 + MAX_WALK_BYTES;

const fn header_of(arch: Arch) -> u8 {
    match arch {
        Arch::X86_64 => 0x11,
        Arch::Aarch64 => 0x12,
    }
}

const fn arch_of(header: u8) -> Arch {
    if header == header_of(Arch::Aarch64) {
        Arch::Aarch64
    } else {
        Arch::X86_64
    }
}

/// Reads register bytes of one architecture.
struct RegisterReader {
    count: u8,
    roles: [Register; 3],
}

impl RegisterReader {
    fn new(arch: Arch) -> Self {
        Self {
            count: arch.register_count() as u8,
            roles: [arch.pc(), arch.sp(), arch.fp()],
        }
    }

    #[inline(always)]
    fn read(&self, byte: u8) -> Register {
        if byte < self.count {
            Register(byte)
        } else {
            self.roles[usize::from(byte % 3)]
        }
    }
}

/// One edit and how many bytes it takes, from its bytes as a little-endian number.
// Always inlined, so that the edit is built where it is to stay.
#[inline(always)]
fn decode_edit(word: u64, registers: &RegisterReader) -> (Edit, usize) {
    let byte = |index: u32| (word >> (8 * index)) as u8;
    let register = registers.read(byte(1));
    match modulo(byte(0), 6) {
        0 => (
            Edit::Nudge {
                register,
                delta: (word >> 16) as i32,
            },
            6,
        ),
        1 => (
            Edit::Set {
                register,
                value: Value::new(
                    ValueClass::from_index(modulo(byte(2), ValueClass::COUNT as u8))
                        .unwrap_or(ValueClass::Literal),
                    (word >> 24) as u16,
                    (word >> 40) as i16,
                ),
            },
            7,
        ),
        2 => (
            Edit::Flip {
                register,
                bit: byte(2) % 64,
            },
            3,
        ),
        3 => (
            Edit::Swap {
                a: register,
                b: registers.read(byte(2)),
            },
            3,
        ),
        4 => (
            Edit::Alias {
                register,
                source: registers.read(byte(2)),
                delta: (word >> 24) as i32,
            },
            7,
        ),
        _ => (
            Edit::Sign {
                register,
                bits: byte(2) & PAC_MASK,
            },
            3,
        ),
    }
}

/// The inverse of [`decode_edit`].
#[inline]
fn encode_edit(edit: &Edit) -> (u64, usize) {
    let head = |kind: u64, register: Register| kind | u64::from(register.0) << 8;
    match *edit {
        Edit::Nudge { register, delta } => (head(0, register) | u64::from(delta as u32) << 16, 6),
        Edit::Set { register, value } => (
            head(1, register)
                | (value.class as u64) << 16
                | u64::from(value.selector) << 24
                | u64::from(value.offset as u16) << 40,
            7,
        ),
        Edit::Flip { register, bit } => (head(2, register) | u64::from(bit % 64) << 16, 3),
        Edit::Swap { a, b } => (head(3, a) | u64::from(b.0) << 16, 3),
        Edit::Alias {
            register,
            source,
            delta,
        } => (
            head(4, register) | u64::from(source.0) << 16 | u64::from(delta as u32) << 24,
            7,
        ),
        Edit::Sign { register, bits } => (head(5, register) | u64::from(bits & PAC_MASK) << 16, 3),
    }
}

/// The first eight bytes as a little-endian number, zeros past the end.
#[inline]
fn peek(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => peek_end(bytes),
    }
}

#[cold]
fn peek_end(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// `byte` modulo `count`; what the encoder wrote is below `count` already and spared the division.
#[inline(always)]
fn modulo(byte: u8, count: u8) -> u8 {
    if byte < count { byte } else { byte % count }
}

/// Decodes one walk over what `walk` was; the bytes after it.
#[inline]
fn decode_walk<'a>(
    bytes: &'a [u8],
    registers: &RegisterReader,
    walk: &mut Perturbation,
) -> &'a [u8] {
    let Some((&count, mut rest)) = bytes.split_first() else {
        walk.clear();
        return bytes;
    };
    walk.fill(modulo(count, MAX_EDITS as u8 + 1), || {
        if rest.is_empty() {
            return None;
        }
        let (edit, used) = decode_edit(peek(rest), registers);
        rest = rest.get(used..).unwrap_or(&[]);
        Some(edit)
    });
    rest
}

/// How many bytes one walk takes.
fn walk_bytes(walk: &Perturbation) -> usize {
    let edits = walk.edits().iter().map(|edit| encode_edit(edit).1);
    1 + edits.sum::<usize>()
}

/// Encodes one walk; how many bytes that took, none if they do not fit.
#[inline]
fn encode_walk(walk: &Perturbation, out: &mut [u8]) -> Option<usize> {
    let mut at = 1;
    for edit in walk.edits() {
        let (word, used) = encode_edit(edit);
        let bytes = word.to_le_bytes();
        match out.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>) {
            Some(chunk) => *chunk = bytes,
            None => out
                .get_mut(at..at + used)?
                .copy_from_slice(bytes.get(..used)?),
        }
        at += used;
    }
    *out.first_mut()? = walk.edits().len() as u8;
    Some(at)
}

impl Batch {
    /// Decodes any bytes.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let mut batch = Self::untouched(Arch::X86_64);
        batch.decode_from(bytes);
        batch
    }

    /// Decodes any bytes into a batch that is there already, which is faster than making a new one.
    pub fn decode_from(&mut self, bytes: &[u8]) {
        self.decode_moment(bytes);
        self.reset_walks();
        let registers = RegisterReader::new(self.arch);
        let mut rest = bytes.get(HEADER_BYTES..).unwrap_or(&[]);
        if let Some(first) = self.walks_mut().first_mut() {
            rest = decode_walk(rest, &registers, first);
        }
        while !rest.is_empty()
            && let Some(walk) = self.push_slot()
        {
            rest = decode_walk(rest, &registers, walk);
        }
    }

    /// Reads what [`decode_from`](Self::decode_from) would, but for the walks: the moment that they are made at.
    pub fn decode_moment(&mut self, bytes: &[u8]) {
        let [header, thread, steps, depth] = (peek(bytes) as u32).to_le_bytes();
        self.arch = arch_of(header);
        self.thread = thread;
        self.steps = steps;
        self.depth = DepthLimit::from_index(depth);
    }

    /// How many bytes [`encode`](Self::encode) needs.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self.walks() {
            [only] if only.is_untouched() => HEADER_BYTES,
            walks => HEADER_BYTES + walks.iter().map(walk_bytes).sum::<usize>(),
        }
    }

    /// Encodes as many leading walks as fit, and returns how many bytes they took: all of them if `out` has
    /// [`encoded_len`](Self::encoded_len) bytes ([`MAX_BATCH_BYTES`] always do), zero if not even the header fits. Bytes of
    /// `out` past those are undefined.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let Some(header) = out.first_chunk_mut::<HEADER_BYTES>() else {
            return 0;
        };
        *header = [
            header_of(self.arch),
            self.thread,
            self.steps,
            self.depth.index(),
        ];
        let mut at = HEADER_BYTES;
        for walk in self.walks() {
            match out.get_mut(at..).and_then(|rest| encode_walk(walk, rest)) {
                Some(used) => at += used,
                None => break,
            }
        }
        // No walk at all reads as one untouched walk, so that one need not be written.
        if at == HEADER_BYTES + 1 {
            at = HEADER_BYTES;
        }
        at
    }

    /// The byte form. Allocates.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; MAX_BATCH_BYTES];
        let used = self.encode(&mut bytes);
        bytes.truncate(used);
        bytes
    }
}

/// Decodes any bytes as one perturbation and the architecture that it is for.
#[must_use]
pub fn decode_perturbation(bytes: &[u8]) -> (Arch, Perturbation) {
    let mut perturbation = Perturbation::UNTOUCHED;
    let arch = arch_of(peek(bytes) as u8);
    decode_walk(
        bytes.get(1..).unwrap_or(&[]),
        &RegisterReader::new(arch),
        &mut perturbation,
    );
    (arch, perturbation)
}

/// Encodes one perturbation; how many bytes it took, zero if `out` is too short ([`MAX_PERTURBATION_BYTES`] always do).
pub fn encode_perturbation(arch: Arch, perturbation: &Perturbation, out: &mut [u8]) -> usize {
    let Some((header, rest)) = out.split_first_mut() else {
        return 0;
    };
    *header = header_of(arch);
    encode_walk(perturbation, rest).map_or(0, |used| 1 + used)
}

/// The byte form of one perturbation. Allocates.
#[must_use]
pub fn perturbation_to_bytes(arch: Arch, perturbation: &Perturbation) -> Vec<u8> {
    let mut bytes = vec![0; MAX_PERTURBATION_BYTES];
    let used = encode_perturbation(arch, perturbation, &mut bytes);
    bytes.truncate(used);
    bytes
}
