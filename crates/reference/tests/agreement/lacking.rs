//! A JVM whose tables lack something: the entry is named, and nothing is walked.

use walkfuzz_context::Address;
use walkfuzz_harness::world::World;
use walkfuzz_reference::{CheckedMemory, Reference};
use walkfuzz_vmstructs::{HotSpot, Memory, Unreadable};

/// Entries of each kind that a walk needs: of threads, anchors, methods, debug information, the interpreter, ids.
const NEEDED: [&str; 12] = [
    "_last_Java_sp",
    "_stack_base",
    "_thread_state",
    "_call_stub_return_address",
    "_constMethod",
    "_access_flags",
    "_code_size",
    "_method_idnum",
    "_pool_holder",
    "_methods_jmethod_ids",
    "_scope_decode_offset",
    "_buffer_limit",
];

/// Own memory in which one string reads differently.
struct Hiding {
    hidden: &'static str,
}

impl Memory for Hiding {
    fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        CheckedMemory.read(at, into)
    }

    fn read_cstring<'b>(&self, at: Address, buffer: &'b mut [u8]) -> Result<&'b [u8], Unreadable> {
        let text = CheckedMemory.read_cstring(at, buffer)?;
        Ok(if text == self.hidden.as_bytes() {
            b"_hidden"
        } else {
            text
        })
    }
}

/// Returns how many entries were not named.
pub(crate) fn entries_are_named(world: &World) -> u32 {
    let libjvm = world.modules.by_name("libjvm.so").unwrap();
    let symbol = |name: &str| libjvm.address_of(name);
    let mut failures = 0;
    for hidden in NEEDED {
        let memory = Hiding { hidden };
        let refusal = match HotSpot::attach(&memory, &symbol) {
            Ok(hotspot) => Reference::new(&hotspot, &CheckedMemory, &symbol)
                .err()
                .map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let named = refusal.as_ref().is_some_and(|said| {
            said.contains(hidden) && said.contains(world.hotspot.tables().jdk())
        });
        if !named {
            println!("FAILED: without {hidden}: {refusal:?}");
            failures += 1;
        }
    }
    let named = NEEDED.len() - failures as usize;
    println!(
        "lacking: {} entries taken away, {named} named",
        NEEDED.len()
    );
    failures
}
