//! What a word is, as far as HotSpot's tables, the code cache and the process's mappings can tell.
//!
//! For people who read a finding: text, not stable. Runs in a frozen copy: allocates, reads through checked reads.

use walkfuzz_context::{Address, Pc, Registers};
use walkfuzz_guard::read_word;
use walkfuzz_symbols::demangle;
use walkfuzz_vmstructs::{
    HeapSource, JavaHeap, Maps, MethodName, Span, Tid, Zones, java_heap, method_name,
};

use crate::stack_frames::{StackFrame, stack_frames};
use crate::world::{World, is_return_address};

/// Numbers below this, and as little below zero, are no addresses: the null page and lengths, indices, flags.
const SMALL: u64 = 1 << 16;
/// How far outside a stack an address is still told by its distance from it.
const NEAR: u64 = 1 << 16;

/// Says what words are, at one moment.
pub(crate) struct Meanings<'a> {
    /// What is known about the JVM.
    pub(crate) world: &'a World,
    sp: u64,
    stack: Option<Span>,
    tid: Tid,
    frames: Vec<StackFrame>,
    heap: Option<JavaHeap>,
    maps: Maps,
}

impl<'a> Meanings<'a> {
    /// At a moment whose thread was delivered with these registers.
    pub(crate) fn new(
        world: &'a World,
        untouched: &Registers,
        tid: Tid,
        java_thread: Address,
    ) -> Self {
        let stack = world.stack_of(tid);
        let frames = stack_frames(world, untouched, java_thread);
        let maps = Maps::read_own().unwrap_or_default();
        Self {
            heap: java_heap(&world.hotspot, world.memory(), &maps),
            sp: untouched.sp().0,
            stack,
            tid,
            frames,
            maps,
            world,
        }
    }

    /// The walked thread.
    pub(crate) fn tid(&self) -> Tid {
        self.tid
    }

    /// The variable of a library that holds an address; also one of those that begin as zeros, which no file is mapped for.
    pub(crate) fn variable(&self, address: u64) -> Option<String> {
        let modules = &self.world.modules;
        let module = modules.find(Address(address)).or_else(|| {
            let behind = self.maps.find(Address(address))?;
            let before = Address(behind.span.start.0.checked_sub(1)?);
            modules.find(before).filter(|_| behind.path.is_empty())
        })?;
        let symbol = module
            .table()
            .and_then(|table| table.lookup(address.wrapping_sub(module.bias())));
        let name = module.name();
        Some(match symbol {
            Some(symbol) => {
                let offset = address.wrapping_sub(module.bias()) - symbol.offset;
                let variable = demangle(symbol.mangled);
                match offset {
                    0 => format!("{name}: {variable}"),
                    _ => format!("{name}: {variable}+{offset:#x}"),
                }
            }
            None => format!("{name}+{:#x}", address.wrapping_sub(module.base.0)),
        })
    }

    /// What a word is. `None`: some memory of which nothing more is known.
    pub(crate) fn word(&self, word: u64) -> Option<String> {
        if word == 0 {
            return Some("null".to_owned());
        }
        if let Some(number) = small(word) {
            return Some(number);
        }
        if !is_canonical(word) {
            return Some("no address (not canonical)".to_owned());
        }
        self.code(word)
            .or_else(|| self.on_a_stack(word))
            .or_else(|| self.in_the_heap(word))
            .or_else(|| self.in_a_module(word))
            .or_else(|| self.metadata(word))
            .or_else(|| self.mapping(word))
    }

    /// What a place in memory is that something was read from, or written to.
    pub(crate) fn accessed(&self, address: u64, code: i32) -> Option<String> {
        // What the kernel says where the processor names no address (siginfo.h: SI_KERNEL).
        const SI_KERNEL: i32 = 0x80;
        if address == 0 && code == SI_KERNEL {
            return Some(
                "not known: the processor names no address, as it does for one that is not canonical"
                    .to_owned(),
            );
        }
        if address < SMALL {
            return Some(if address == 0 {
                "null".to_owned()
            } else {
                "near null".to_owned()
            });
        }
        self.word(address)
    }

    /// What is kept at an address of the thread's stack: its frame and slot.
    pub(crate) fn slot(&self, address: u64) -> Option<String> {
        let index = self
            .frames
            .iter()
            .position(|frame| (frame.start..frame.end).contains(&address))?;
        let slot = self.frames.get(index)?.slot(address);
        let slot = slot.map_or_else(String::new, |slot| format!(" {slot}"));
        Some(format!("frame {index}{slot}"))
    }

    pub(crate) fn code(&self, word: u64) -> Option<String> {
        let code = &self.world.code;
        let at = Address(word);
        let Some(blob) = code.blob(at) else {
            let cache = code.cache();
            if let Some(owner) = cache.blobs.iter().find(|blob| {
                blob.nmethod
                    .is_some_and(|nmethod| nmethod.pc_descs.contains(at))
            }) {
                return Some(self.pc_desc(owner.code.start.0));
            }
            let committed = cache.heaps.iter().any(|heap| heap.committed.contains(at));
            let reserved = cache.heaps.iter().any(|heap| heap.reserved.contains(at));
            return match (committed, reserved) {
                (true, _) => Some("code cache, no blob there".to_owned()),
                (_, true) => Some("code cache, not committed".to_owned()),
                _ => None,
            };
        };
        if let Some(codelet) = code.codelet(at) {
            let offset = word - codelet.span.start.0;
            let what = if is_return_address(code, word) {
                "return address into "
            } else {
                ""
            };
            return Some(format!(
                "{what}the interpreter's {} + {offset:#x}",
                codelet.description
            ));
        }
        let (name, offset) = self.world.describe_code(Pc(word))?;
        let is_nmethod = blob.nmethod.is_some();
        if blob
            .nmethod
            .is_some_and(|nmethod| nmethod.pc_descs.contains(at))
        {
            return Some(self.pc_desc(blob.code.start.0));
        }
        Some(match offset {
            None => {
                let what = if is_nmethod { "nmethod" } else { "CodeBlob" };
                format!("{what} header of {name} + {:#x}", word - blob.span.start.0)
            }
            Some(offset) if !blob.code.contains(at) => {
                format!("data of {name} + {offset:#x}")
            }
            Some(offset) if is_return_address(code, word) => {
                format!("return address into {name} + {offset:#x}")
            }
            Some(offset) => {
                let part = self.part(at).unwrap_or("code");
                format!("{part} of {name} + {offset:#x}")
            }
        })
    }

    /// What is special about a place in an nmethod.
    fn part(&self, at: Address) -> Option<&'static str> {
        let nmethod = self.world.code.blob(at)?.nmethod?;
        let is = |place: Option<Address>| place == Some(at);
        if is(nmethod.deopt_handler) || is(nmethod.deopt_mh_handler) {
            Some("deoptimisation handler")
        } else if is(nmethod.exception_handler) {
            Some("exception handler")
        } else if at >= nmethod.stub_begin {
            Some("stub section")
        } else if at == nmethod.entry || at == nmethod.verified_entry {
            Some("entry")
        } else {
            None
        }
    }

    fn pc_desc(&self, code: u64) -> String {
        let name = self.world.describe_code(Pc(code));
        format!(
            "PcDesc of {}",
            name.map_or_else(|| "an nmethod".to_owned(), |(name, _)| name)
        )
    }

    pub(crate) fn on_a_stack(&self, word: u64) -> Option<String> {
        let at = Address(word);
        if let Some(stack) = self.stack {
            if stack.contains(at) {
                return Some(self.on_own_stack(word, stack));
            }
            match word.checked_sub(stack.end.0) {
                Some(0) => return Some("right behind the end of this thread's stack".to_owned()),
                Some(above) if above < NEAR => {
                    return Some(format!("{above:#x} behind the end of this thread's stack"));
                }
                _ => {}
            }
            if let Some(below) = stack.start.0.checked_sub(word).filter(|far| *far < NEAR) {
                return Some(format!("{below:#x} below this thread's stack"));
            }
        }
        let (tid, stack) = self
            .world
            .stacks()
            .iter()
            .find(|(tid, stack)| *tid != self.tid && stack.contains(at))?;
        let zone = self
            .zone(*stack, at)
            .map_or_else(String::new, |zone| format!("{zone} of the "));
        Some(format!("{zone}stack of Java thread {}", tid.0))
    }

    fn on_own_stack(&self, word: u64, stack: Span) -> String {
        if let Some(zone) = self.zone(stack, Address(word)) {
            return format!("{zone} of this thread's stack");
        }
        if word < self.sp {
            return format!(
                "this thread's stack, {:#x} below the delivered sp",
                self.sp - word
            );
        }
        let slot = self
            .slot(word)
            .map_or_else(String::new, |slot| format!(" ({slot})"));
        match word - self.sp {
            0 => format!("this thread's stack, the delivered sp{slot}"),
            above => format!("this thread's stack, delivered sp+{above:#x}{slot}"),
        }
    }

    fn zone(&self, stack: Span, at: Address) -> Option<&'static str> {
        let zones = Zones::of(stack, self.world.hotspot.zone_sizes());
        if zones.red.contains(at) {
            Some("red zone")
        } else if zones.yellow.contains(at) {
            Some("yellow zone")
        } else if zones.reserved.contains(at) {
            Some("reserved zone")
        } else {
            None
        }
    }

    fn in_the_heap(&self, word: u64) -> Option<String> {
        let heap = self.heap.as_ref()?;
        let inside = heap.spans.iter().any(|span| span.contains(Address(word)));
        // What is only reserved is not there.
        let what = match (inside, heap.source) {
            (false, _) => return None,
            (true, HeapSource::Reserved) if read_word(Address(word)).is_err() => {
                "Java heap, not committed"
            }
            (true, _) => "Java heap",
        };
        Some(what.to_owned())
    }

    fn in_a_module(&self, word: u64) -> Option<String> {
        self.world.modules.find(Address(word))?;
        self.variable(word)
    }

    fn metadata(&self, word: u64) -> Option<String> {
        if !word.is_multiple_of(8) {
            return None;
        }
        self.method(Address(word))
            .map(|name| format!("Method* {name}"))
    }

    fn mapping(&self, word: u64) -> Option<String> {
        let Some(mapping) = self.maps.find(Address(word)) else {
            return Some("unmapped".to_owned());
        };
        if mapping.is_forbidden() {
            return Some("mapped, but not accessible".to_owned());
        }
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        match name {
            "" => None,
            "[heap]" => Some("the C heap".to_owned()),
            // Walks are made on the stack of the loop, not on the walked thread's: see docs/architecture.md.
            "[stack]" => Some("the walker's own stack".to_owned()),
            name => Some(name.to_owned()),
        }
    }

    pub(crate) fn method(&self, method: Address) -> Option<MethodName> {
        method_name(&self.world.hotspot, self.world.memory(), method)
    }

    /// The name of the method that an id means: up to 25 an id is the address of a `Method*` (method.hpp, `resolve_jmethod_id`).
    pub(crate) fn method_of_id(&self, id: u64) -> String {
        self.world.method_of_id(id)
    }
}

/// As a number, if it is a small one.
fn small(word: u64) -> Option<String> {
    let signed = word.cast_signed();
    if word < SMALL {
        Some(format!("the number {word}"))
    } else if signed < 0 && signed.unsigned_abs() < SMALL {
        Some(format!("the number {signed}"))
    } else {
        None
    }
}

/// Whether some mapping of a process could hold the address: 47 bits on x86_64, at most 52 on aarch64.
fn is_canonical(word: u64) -> bool {
    let bits = if cfg!(target_arch = "x86_64") { 47 } else { 52 };
    word >> bits == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_addresses() {
        assert_eq!(small(16).as_deref(), Some("the number 16"));
        assert_eq!(small(u64::MAX).as_deref(), Some("the number -1"));
        assert_eq!(small(0x7f00_0000_0000), None);
        assert!(is_canonical(0x7fff_ffff_f000));
        assert!(!is_canonical(0x8000_dead_beef_0000));
    }
}
