//! Finding one Java thread in the JVM's list, again and again, from where nothing may be allocated.
//!
//! Contract: signal-safe if the memory's reads are. The list may be replaced and freed while it is read: what cannot be read, and what was looked
//! for in vain in a list that is no longer the JVM's, is looked for again, a few times.

use walkfuzz_context::Address;

use crate::memory::{Memory, Unreadable};
use crate::threads::{ATTEMPTS, List, MAX_THREADS, ThreadLayout, Tid};

/// Where the list is and where a thread keeps its kernel id.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSearch {
    list: List,
    os_thread: u64,
    tid: u64,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The `JavaThread*`; `None` if no thread of the list is the one.
    pub thread: Option<Address>,
    /// How often the list had to be read again.
    pub retries: u32,
}

impl ThreadSearch {
    /// In a JVM with this layout.
    #[must_use]
    pub fn new(layout: &ThreadLayout) -> Self {
        Self {
            list: layout.list,
            os_thread: layout.os_thread.offset(),
            tid: layout.tid,
        }
    }

    /// The thread with that kernel id.
    #[inline]
    pub fn with_tid<M: Memory + ?Sized>(&self, memory: &M, tid: Tid) -> Sighting {
        self.find(memory, |thread| {
            let os_thread = memory.read_pointer(at(thread, self.os_thread))?;
            // A thread that is being started or has ended has none.
            Ok(os_thread.0 != 0 && memory.read_i32(at(os_thread, self.tid))? == tid.0)
        })
    }

    /// The thread at that address, if it is one of the list's.
    #[inline]
    pub fn at<M: Memory + ?Sized>(&self, memory: &M, address: Address) -> Sighting {
        self.find(memory, |thread| Ok(thread == address))
    }

    /// The first thread of the list that is the one.
    #[inline]
    pub fn find<M: Memory + ?Sized>(
        &self,
        memory: &M,
        is_it: impl Fn(Address) -> Result<bool, Unreadable>,
    ) -> Sighting {
        let mut retries = 0;
        loop {
            let (found, settled) = match self.once(memory, &is_it) {
                Ok((found, settled)) => (found, settled),
                Err(Unreadable { .. }) => (None, false),
            };
            if found.is_some() || settled || retries as usize + 1 >= ATTEMPTS {
                return Sighting {
                    thread: found,
                    retries,
                };
            }
            retries += 1;
        }
    }

    /// What one reading finds, and whether the list was the JVM's until its end.
    fn once<M: Memory + ?Sized>(
        &self,
        memory: &M,
        is_it: &impl Fn(Address) -> Result<bool, Unreadable>,
    ) -> Result<(Option<Address>, bool), Unreadable> {
        match self.list {
            List::Array {
                head,
                length,
                threads,
            } => {
                let list = memory.read_pointer(head)?;
                let count = memory.read_u32(at(list, length))? as usize;
                let entries = memory.read_pointer(at(list, threads))?;
                for index in 0..count.min(MAX_THREADS) {
                    let thread = memory.read_pointer(at(entries, index as u64 * 8))?;
                    if is_it(thread)? {
                        return Ok((Some(thread), true));
                    }
                }
                Ok((None, memory.read_pointer(head)? == list))
            }
            List::Chain { head, next } => {
                let first = memory.read_pointer(head)?;
                let mut thread = first;
                for _ in 0..MAX_THREADS {
                    if thread.0 == 0 {
                        break;
                    }
                    if is_it(thread)? {
                        return Ok((Some(thread), true));
                    }
                    thread = memory.read_pointer(at(thread, next.offset()))?;
                }
                Ok((None, memory.read_pointer(head)? == first))
            }
        }
    }
}

#[inline]
fn at(base: Address, offset: u64) -> Address {
    Address(base.0.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferMemory;
    use crate::cursor::Slot;

    const HEAD: u64 = 0x1000;

    fn words(memory: &mut BufferMemory, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.put(Address(at), &bytes);
    }

    /// Threads at 0x5000, 0x6000, ... with these kernel ids; 0: without an OSThread.
    fn threads(memory: &mut BufferMemory, tids: &[u64]) -> Vec<u64> {
        for (index, tid) in (0_u64..).zip(tids) {
            let (thread, os_thread) = (0x5000 + index * 0x1000, 0x20000 + index * 0x1000);
            let next = match index as usize + 1 == tids.len() {
                true => 0,
                false => thread + 0x1000,
            };
            let has = u64::from(*tid != 0) * os_thread;
            words(memory, thread, &[has, next]);
            words(memory, os_thread, &[*tid]);
        }
        (0..tids.len() as u64)
            .map(|index| 0x5000 + index * 0x1000)
            .collect()
    }

    fn search(list: List) -> ThreadSearch {
        ThreadSearch {
            list,
            os_thread: 0,
            tid: 0,
        }
    }

    const ARRAY: List = List::Array {
        head: Address(HEAD),
        length: 0,
        threads: 8,
    };
    const CHAIN: List = List::Chain {
        head: Address(HEAD),
        next: Slot::new(8, 8),
    };

    #[test]
    fn threads_are_found_in_both_kinds_of_list() {
        for list in [ARRAY, CHAIN] {
            let mut memory = BufferMemory::new();
            let all = threads(&mut memory, &[7, 0, 9]);
            words(&mut memory, 0x3000, &all);
            words(&mut memory, 0x2000, &[all.len() as u64, 0x3000]);
            let first = match list {
                List::Array { .. } => 0x2000,
                List::Chain { .. } => all[0],
            };
            words(&mut memory, HEAD, &[first]);
            let search = search(list);
            let found = |tid| search.with_tid(&memory, Tid(tid)).thread;
            assert_eq!(found(9), Some(Address(all[2])));
            assert_eq!(found(7), Some(Address(all[0])));
            assert_eq!(found(8), None, "no thread has it");
            assert_eq!(found(0), None, "who has no OSThread has no id");
            assert_eq!(
                search.at(&memory, Address(all[1])).thread,
                Some(Address(all[1]))
            );
            let none = search.at(&memory, Address(0x5008));
            assert_eq!((none.thread, none.retries), (None, 0));
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_tried_again_and_given_up() {
        let mut memory = BufferMemory::new();
        words(&mut memory, HEAD, &[0x2000]);
        words(&mut memory, 0x2000, &[3, 0x3000]);
        let sighting = search(ARRAY).with_tid(&memory, Tid(7));
        assert_eq!(
            (sighting.thread, sighting.retries as usize),
            (None, ATTEMPTS - 1)
        );
    }

    #[test]
    fn a_circle_ends() {
        let mut memory = BufferMemory::new();
        words(&mut memory, HEAD, &[0x5000]);
        words(&mut memory, 0x5000, &[0, 0x5000]);
        assert_eq!(search(CHAIN).with_tid(&memory, Tid(7)).thread, None);
    }
}
