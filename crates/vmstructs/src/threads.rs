//! The JVM's Java threads: who they are, where their stacks are, what they are doing.

use walkfuzz_context::{Address, Fp, Pc, Sp};

use crate::cursor::{Cursor, Slot};
use crate::hotspot::HotSpot;
use crate::memory::{Memory, Unreadable};
use crate::span::Span;
use crate::tables::{MissingEntry, Tables};

/// More threads than a process may have.
pub(crate) const MAX_THREADS: usize = 100_000;
/// Larger stacks are garbage.
const MAX_STACK: u64 = 1 << 36;
/// How often a list that was replaced while being read is read again.
pub(crate) const ATTEMPTS: usize = 4;

/// The kernel's id of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tid(pub i32);

/// `JavaThreadState`: what a thread is doing. Only a thread in Java is walked from its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// Never seen by others.
    Uninitialized,
    /// Being started.
    New,
    /// From new to another state.
    NewTrans,
    /// Running native code.
    InNative,
    /// From native to another state.
    InNativeTrans,
    /// Running the JVM's own code.
    InVm,
    /// From the JVM's code to another state.
    InVmTrans,
    /// Running Java code.
    InJava,
    /// From Java to another state.
    InJavaTrans,
    /// Blocked in the JVM.
    Blocked,
    /// From blocked to another state.
    BlockedTrans,
    /// A value without a name.
    Unknown(i32),
}

const STATES: [(&str, ThreadState); 11] = [
    ("_thread_uninitialized", ThreadState::Uninitialized),
    ("_thread_new", ThreadState::New),
    ("_thread_new_trans", ThreadState::NewTrans),
    ("_thread_in_native", ThreadState::InNative),
    ("_thread_in_native_trans", ThreadState::InNativeTrans),
    ("_thread_in_vm", ThreadState::InVm),
    ("_thread_in_vm_trans", ThreadState::InVmTrans),
    ("_thread_in_Java", ThreadState::InJava),
    ("_thread_in_Java_trans", ThreadState::InJavaTrans),
    ("_thread_blocked", ThreadState::Blocked),
    ("_thread_blocked_trans", ThreadState::BlockedTrans),
];

impl ThreadState {
    /// HotSpot's name of the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        STATES
            .iter()
            .find(|(_, state)| *state == self)
            .map_or("unknown", |(name, _)| *name)
    }
}

/// One `JavaThread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaThread {
    /// The `JavaThread*`.
    pub address: Address,
    /// The kernel's id.
    pub tid: Tid,
    /// The C library's `pthread_t`.
    pub pthread: u64,
    /// The stack: from its end (lowest address, zones included) to its base.
    pub stack: Span,
    /// What the thread is doing.
    pub state: ThreadState,
    /// The frame anchor's sp: the last Java frame of a thread that is not in Java; 0 in Java.
    pub last_java_sp: Sp,
    /// The frame anchor's pc, often 0 even where the sp is set.
    pub last_java_pc: Pc,
    /// The frame anchor's fp.
    pub last_java_fp: Fp,
    /// The thread's `JNIEnv*`, if its place in a `JavaThread` is known.
    pub jni_environment: Option<Address>,
}

/// Why the list of threads could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadsError {
    /// The list's head cannot be read.
    #[error("cannot read the JVM's list of threads")]
    Unreadable(#[from] Unreadable),
    /// The list's length makes no sense.
    #[error("the JVM claims to have {0} threads")]
    Count(u64),
}

/// Where the list begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// `ThreadsSMRSupport::_java_thread_list` (since 12): an array that is replaced as a whole.
    Array {
        head: Address,
        length: u64,
        threads: u64,
    },
    /// `Threads::_thread_list` and `JavaThread::_next` (up to 11).
    Chain { head: Address, next: Slot },
}

/// Where this JDK keeps a thread's fields.
#[derive(Clone, Debug)]
pub struct ThreadLayout {
    pub(crate) list: List,
    size: usize,
    pub(crate) os_thread: Slot,
    stack_base: Slot,
    stack_size: Slot,
    state: Slot,
    states: Vec<(i64, ThreadState)>,
    last_java_sp: Slot,
    last_java_pc: Slot,
    last_java_fp: Slot,
    jni_environment: Option<u64>,
    pub(crate) tid: u64,
    pthread: u64,
}

impl ThreadLayout {
    /// Looks the fields up.
    ///
    /// # Errors
    /// [`MissingEntry`] naming the first field that is in no known place.
    pub fn resolve(tables: &Tables) -> Result<Self, MissingEntry> {
        let list = match tables.field("ThreadsSMRSupport", "_java_thread_list") {
            Some(head) => List::Array {
                head: head.address,
                length: tables.require("ThreadsList", "_length")?.offset,
                threads: tables.require("ThreadsList", "_threads")?.offset,
            },
            None => List::Chain {
                head: tables.require("Threads", "_thread_list")?.address,
                next: Slot::require(tables, "JavaThread", "_next")?,
            },
        };
        // These fields moved between Thread and JavaThread.
        let field =
            |name: &str| Slot::require_any(tables, &[("JavaThread", name), ("Thread", name)]);
        let anchor = tables.require("JavaThread", "_anchor")?.offset;
        let in_anchor = |name: &str| {
            let offset = tables.require("JavaFrameAnchor", name)?.offset;
            Ok(Slot::new((anchor + offset) as usize, 8))
        };
        Ok(Self {
            list,
            size: tables.require_size("JavaThread")? as usize,
            os_thread: field("_osthread")?,
            stack_base: field("_stack_base")?,
            stack_size: field("_stack_size")?,
            // JavaThreadState is an enum: an int.
            state: Slot::new(
                tables.require("JavaThread", "_thread_state")?.offset as usize,
                4,
            ),
            states: STATES
                .iter()
                .filter_map(|(name, state)| Some((tables.constant(name)?, *state)))
                .collect(),
            last_java_sp: in_anchor("_last_Java_sp")?,
            last_java_pc: in_anchor("_last_Java_pc")?,
            last_java_fp: in_anchor("_last_Java_fp")?,
            jni_environment: tables
                .field("JavaThread", "_jni_environment")
                .map(|field| field.offset),
            tid: tables.require("OSThread", "_thread_id")?.offset,
            pthread: tables.require("OSThread", "_pthread_id")?.offset,
        })
    }

    /// The thread at `address`, of which `bytes` holds the object; `None` if it makes no sense.
    fn decode(
        &self,
        memory: &dyn Memory,
        address: Address,
        bytes: &[u8],
        environment: Option<u64>,
    ) -> Option<JavaThread> {
        let object = Cursor(bytes);
        let base = object.pointer(self.stack_base);
        let size = object.unsigned(self.stack_size);
        if size == 0 || size > MAX_STACK || base.0 % 8 != 0 {
            return None;
        }
        let os_thread = object.pointer(self.os_thread);
        // A thread that is being started or has ended has no OSThread.
        let tid = memory
            .read_i32(at(os_thread, self.tid))
            .ok()
            .filter(|tid| *tid > 0)?;
        let state = object.signed(self.state);
        Some(JavaThread {
            address,
            tid: Tid(tid),
            pthread: memory.read_u64(at(os_thread, self.pthread)).ok()?,
            stack: Span::new(Address(base.0.checked_sub(size)?), base),
            state: self
                .states
                .iter()
                .find(|(value, _)| *value == state)
                .map_or(ThreadState::Unknown(state as i32), |(_, state)| *state),
            last_java_sp: Sp(object.unsigned(self.last_java_sp)),
            last_java_pc: Pc(object.unsigned(self.last_java_pc)),
            last_java_fp: Fp(object.unsigned(self.last_java_fp)),
            jni_environment: environment.map(|offset| at(address, offset)),
        })
    }
}

/// Every Java thread, sorted by kernel id, and how many were skipped because they made no sense (being started, ended).
///
/// The list may be replaced meanwhile; it is then read again, a few times at most.
///
/// # Errors
/// [`ThreadsError`] if there is no list.
pub fn java_threads(
    hotspot: &HotSpot,
    memory: &dyn Memory,
) -> Result<(Vec<JavaThread>, u32), ThreadsError> {
    let layout = hotspot.threads();
    let mut bytes = vec![0; layout.size];
    let mut threads = Vec::new();
    let mut skipped = 0;
    let mut environment = layout.jni_environment;
    let mut visit = |address: Address, bytes: &mut [u8]| -> bool {
        if memory.read(address, bytes).is_err() {
            skipped += 1;
            return false;
        }
        environment = environment.or_else(|| find_environment(hotspot, bytes));
        match layout.decode(memory, address, bytes, environment) {
            Some(thread) => threads.push(thread),
            None => skipped += 1,
        }
        true
    };
    match layout.list {
        List::Array {
            head,
            length,
            threads,
        } => {
            for address in array(memory, head, length, threads)? {
                visit(address, &mut bytes);
            }
        }
        List::Chain { head, next } => {
            let mut address = memory.read_pointer(head)?;
            for _ in 0..MAX_THREADS {
                if address.0 == 0 || !visit(address, &mut bytes) {
                    break;
                }
                address = Cursor(&bytes).pointer(next);
            }
        }
    }
    threads.sort_by_key(|thread| (thread.tid, thread.address));
    threads.dedup_by_key(|thread| thread.address);
    Ok((threads, skipped))
}

/// The addresses in a `ThreadsList`; read again if another list took its place meanwhile.
fn array(
    memory: &dyn Memory,
    head: Address,
    length: u64,
    threads: u64,
) -> Result<Vec<Address>, ThreadsError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let list = memory.read_pointer(head)?;
        let addresses = array_at(memory, list, length, threads);
        if memory.read_pointer(head)? == list || attempt == ATTEMPTS {
            return addresses;
        }
    }
}

fn array_at(
    memory: &dyn Memory,
    list: Address,
    length: u64,
    threads: u64,
) -> Result<Vec<Address>, ThreadsError> {
    let count = memory.read_u32(at(list, length))?;
    if count as usize > MAX_THREADS {
        return Err(ThreadsError::Count(u64::from(count)));
    }
    let mut bytes = vec![0; count as usize * 8];
    memory.read(memory.read_pointer(at(list, threads))?, &mut bytes)?;
    let word = Slot::new(0, 8);
    Ok(bytes
        .chunks_exact(8)
        .map(|bytes| Cursor(bytes).pointer(word))
        .collect())
}

/// The offset of the `JNIEnv` inside a `JavaThread`.
///
/// No JDK's tables have it. A `JNIEnv` begins with the pointer to its function table, and that table is a static with a
/// symbol: the offset is where the thread holds this pointer. `None` for a stripped libjvm, or where an agent has replaced
/// the table; an agent that has a `JNIEnv*` of a known thread can subtract.
#[must_use]
pub fn jni_environment_offset(
    hotspot: &HotSpot,
    memory: &dyn Memory,
    thread: Address,
) -> Option<u64> {
    let layout = hotspot.threads();
    let mut bytes = vec![0; layout.size];
    memory.read(thread, &mut bytes).ok()?;
    layout
        .jni_environment
        .or_else(|| find_environment(hotspot, &bytes))
}

fn find_environment(hotspot: &HotSpot, thread: &[u8]) -> Option<u64> {
    let word = Slot::new(0, 8);
    thread
        .chunks_exact(8)
        .position(|bytes| hotspot.is_jni_function_table(Cursor(bytes).pointer(word)))
        .map(|index| index as u64 * 8)
}

fn at(base: Address, offset: u64) -> Address {
    Address(base.0.wrapping_add(offset))
}
