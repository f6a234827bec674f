//! What a walk needs of a thread: its stack, its frame anchor, its continuation.

use walkfuzz_context::{Address, Fp, Pc, Sp};
use walkfuzz_vmstructs::{Memory, MissingEntry, Span, Tables, Unreadable};

/// `JavaFrameAnchor`: the last Java frame of a thread that has left Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Anchor {
    /// 0 if there is none.
    pub sp: Sp,
    /// 0 if it stands below sp.
    pub pc: Pc,
    /// Frame pointer.
    pub fp: Fp,
}

/// The thread that is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The `JavaThread*`.
    pub address: Address,
    /// From the end of its stack to its base.
    pub stack: Span,
    /// Its frame anchor.
    pub anchor: Anchor,
    /// Whether it runs Java code: only then do its registers say anything.
    pub in_java: bool,
}

/// Where threads' fields are.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLayout {
    stack_base: u64,
    stack_size: u64,
    state: u64,
    in_java: [i32; 2],
    anchor: u64,
    anchor_layout: AnchorLayout,
    /// Since 25.
    continuation: Option<u64>,
}

/// Where an anchor's fields are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnchorLayout {
    sp: u64,
    pc: u64,
    fp: u64,
}

impl AnchorLayout {
    fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let offset = |field: &str| Ok(tables.require("JavaFrameAnchor", field)?.offset);
        Ok(Self {
            sp: offset("_last_Java_sp")?,
            pc: offset("_last_Java_pc")?,
            fp: offset("_last_Java_fp")?,
        })
    }

    #[inline]
    fn read<M: Memory + ?Sized>(&self, memory: &M, at: Address) -> Result<Anchor, Unreadable> {
        let word = |offset: u64| memory.read_u64(Address(at.0.wrapping_add(offset)));
        Ok(Anchor {
            sp: Sp(word(self.sp)?),
            pc: Pc(word(self.pc)?),
            fp: Fp(word(self.fp)?),
        })
    }
}

impl ThreadLayout {
    pub(crate) fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let state = |name: &str| tables.require_thread_state(name);
        Ok(Self {
            stack_base: tables.require_of_thread("_stack_base")?,
            stack_size: tables.require_of_thread("_stack_size")?,
            state: tables.require("JavaThread", "_thread_state")?.offset,
            in_java: [state("_thread_in_Java")?, state("_thread_in_Java_trans")?],
            anchor: tables.require("JavaThread", "_anchor")?.offset,
            anchor_layout: AnchorLayout::resolve(tables)?,
            continuation: tables
                .field("JavaThread", "_cont_entry")
                .map(|field| field.offset),
        })
    }

    pub(crate) fn read<M: Memory + ?Sized>(
        &self,
        memory: &M,
        address: Address,
    ) -> Result<Thread, Unreadable> {
        let at = |offset: u64| Address(address.0.wrapping_add(offset));
        let base = memory.read_pointer(at(self.stack_base))?;
        let size = memory.read_u64(at(self.stack_size))?;
        Ok(Thread {
            address,
            stack: Span::new(Address(base.0.saturating_sub(size)), base),
            anchor: self.anchor(memory, at(self.anchor))?,
            in_java: self.in_java.contains(&memory.read_i32(at(self.state))?),
        })
    }

    /// The anchor at `at`.
    #[inline]
    pub(crate) fn anchor<M: Memory + ?Sized>(
        &self,
        memory: &M,
        at: Address,
    ) -> Result<Anchor, Unreadable> {
        self.anchor_layout.read(memory, at)
    }

    /// The thread's innermost `ContinuationEntry`, if this JDK says where it is.
    #[inline]
    pub(crate) fn continuation<M: Memory + ?Sized>(
        &self,
        memory: &M,
        thread: Address,
    ) -> Option<Address> {
        let at = thread.0.checked_add(self.continuation?)?;
        memory.read_pointer(Address(at)).ok()
    }
}
