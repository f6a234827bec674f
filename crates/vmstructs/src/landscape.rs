//! A survey of everything in the process that a register might be made to point to.

use walkfuzz_context::{Address, Arch, BlobKind, LandscapeTable, ValueClass};

use crate::blob::Blob;
use crate::code_cache::{CodeCache, CodeCacheError};
use crate::cursor::{Cursor, Slot};
use crate::epilogue::epilogues;
use crate::heap::{java_heap, klass_base, method_metadata, poll_page};
use crate::hotspot::HotSpot;
use crate::maps::Maps;
use crate::memory::Memory;
use crate::sampling::{anywhere, bounded, every_nth, within};
use crate::span::Span;
use crate::threads::{JavaThread, Tid, java_threads};
use crate::vtable_stubs::vtable_stubs;
use crate::zones::Zones;

/// No list of a [`Survey`] is longer.
pub const LIST_LIMIT: usize = 4096;

/// How many nmethods are looked into (their code and their PcDescs are read).
const NMETHODS_READ: usize = 256;
/// How much of an nmethod's code is searched for epilogues: its end is where most are.
const CODE_READ: u64 = 2048;
const PC_DESCS_READ: u64 = 24;
const METHODS_READ: usize = 96;
const OWN_STACK_SAMPLES: u64 = 1022;
const STACKS: usize = 256;
const TEXT_SAMPLES: u64 = 512;
const HEAP_SAMPLES: u64 = 256;
/// Where user addresses end with 47 bits (4-level paging), the kernel's mapping of `[vsyscall]` aside.
const USER_END: u64 = 0x7fff_ffff_f000;

/// Addresses by class, each list sorted, without doubles and of at most [`LIST_LIMIT`] entries. The same state of the process
/// gives the same survey.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Return addresses, other pcs with debug information, and arbitrary addresses in compiled methods' code.
    pub nmethod_bodies: Vec<u64>,
    /// Both entries and the OSR entry of compiled methods and native wrappers.
    pub nmethod_entries: Vec<u64>,
    /// From the verified entry to where the frame is complete.
    pub nmethod_prologues: Vec<u64>,
    /// Instructions that take the frame down (x86_64 and aarch64 recognised by their bytes).
    pub nmethod_epilogues: Vec<u64>,
    /// Exception handlers in compiled methods' stub sections (since 25 also the one in the entry of continuations).
    pub exception_handlers: Vec<u64>,
    /// Deoptimisation handlers there.
    pub deopt_handlers: Vec<u64>,
    /// In wrappers of native methods.
    pub native_wrappers: Vec<u64>,
    /// In interpreter codelets: their beginning and one address inside.
    pub codelets: Vec<u64>,
    /// In interpreter-to-compiled adapters.
    pub adapters: Vec<u64>,
    /// Entries of and addresses in vtable and itable stubs.
    pub vtable_stubs: Vec<u64>,
    /// In runtime stubs and singleton blobs.
    pub runtime_stubs: Vec<u64>,
    /// In StubRoutines.
    pub stub_routines: Vec<u64>,
    /// In method-handle adapters and other buffers.
    pub buffers: Vec<u64>,
    /// Committed code cache without a blob.
    pub free_code: Vec<u64>,
    /// In libjvm's text.
    pub libjvm_text: Vec<u64>,
    /// The surveying thread's own stack, without its zones; empty if it is no Java thread.
    pub own_stack: Span,
    /// On other Java threads' stacks.
    pub foreign_stacks: Vec<u64>,
    /// In yellow zones.
    pub yellow_zones: Vec<u64>,
    /// In red zones.
    pub red_zones: Vec<u64>,
    /// In reserved zones.
    pub reserved_zones: Vec<u64>,
    /// In the C library's guards below stacks.
    pub guard_pages: Vec<u64>,
    /// On the polling pages.
    pub poll_page: Vec<u64>,
    /// In the Java heap.
    pub heap: Vec<u64>,
    /// `Method*`, `ConstMethod*`, `ConstantPool*`, `InstanceKlass*` and the base of class space.
    pub metaspace: Vec<u64>,
    /// In gaps between mappings.
    pub unmapped: Vec<u64>,
    /// The code cache that the survey saw: make a [`crate::CodeMap`] of it.
    pub code_cache: CodeCache,
    /// The Java threads that the survey saw.
    pub threads: Vec<JavaThread>,
    /// Threads that made no sense.
    pub skipped_threads: u32,
}

/// Surveys the process.
///
/// `maps` are the mappings of the process whose memory this is; they age more slowly than the rest and may be reused.
///
/// # Errors
/// [`CodeCacheError`] if the code cache cannot be found; whatever else is missing leaves its list empty.
pub fn survey(
    hotspot: &HotSpot,
    memory: &dyn Memory,
    maps: &Maps,
    own_thread: Option<Tid>,
) -> Result<Survey, CodeCacheError> {
    let (threads, skipped_threads) = java_threads(hotspot, memory).unwrap_or_default();
    let mut survey = Survey {
        code_cache: CodeCache::read(hotspot, memory)?,
        threads,
        skipped_threads,
        ..Survey::default()
    };
    survey.add_blobs();
    survey.look_into_nmethods(hotspot, memory);
    survey.add_codelets();
    survey.vtable_stubs.extend(
        vtable_stubs(hotspot, memory)
            .iter()
            .map(|stub| stub.entry.0),
    );
    survey.add_stacks(hotspot, maps, own_thread);
    survey.add_memory(hotspot, memory, maps);
    survey.bound();
    Ok(survey)
}

impl Survey {
    fn add_blobs(&mut self) {
        for blob in &self.code_cache.blobs {
            let list = match blob.kind {
                BlobKind::Nmethod => &mut self.nmethod_bodies,
                BlobKind::NativeWrapper => &mut self.native_wrappers,
                BlobKind::Adapter => &mut self.adapters,
                BlobKind::VtableStub => &mut self.vtable_stubs,
                BlobKind::RuntimeStub => &mut self.runtime_stubs,
                BlobKind::StubRoutine => &mut self.stub_routines,
                BlobKind::Buffer => &mut self.buffers,
                // The codelets say more.
                BlobKind::Interpreter
                | BlobKind::FreeCode
                | BlobKind::Libjvm
                | BlobKind::Outside => continue,
            };
            match blob.kind {
                BlobKind::StubRoutine => list.extend(within(blob.code, 255, 1)),
                BlobKind::VtableStub => list.extend(within(blob.code, 15, 1)),
                _ => list.extend([
                    blob.code.start.0,
                    anywhere(blob.code, 1),
                    anywhere(blob.code, 2),
                ]),
            }
            let Some(nmethod) = &blob.nmethod else {
                continue;
            };
            self.nmethod_entries
                .extend([nmethod.entry.0, nmethod.verified_entry.0]);
            self.nmethod_entries
                .extend(nmethod.osr_entry.map(|entry| entry.0));
            self.exception_handlers
                .extend(nmethod.exception_handler.map(|handler| handler.0));
            self.deopt_handlers
                .extend(nmethod.deopt_handler.map(|handler| handler.0));
            self.deopt_handlers
                .extend(nmethod.deopt_mh_handler.map(|handler| handler.0));
            let prologue = prologue(blob, nmethod.verified_entry);
            let addresses = [
                prologue.start.0,
                anywhere(prologue, 1),
                anywhere(prologue, 2),
                prologue.end.0,
            ];
            // Where there is no frame, it is complete behind the end.
            self.nmethod_prologues.extend(
                addresses
                    .into_iter()
                    .filter(|address| blob.code.contains(Address(*address))),
            );
        }
        for span in &self.code_cache.free {
            self.free_code.extend(within(*span, 7, 1));
        }
    }

    fn look_into_nmethods(&mut self, hotspot: &HotSpot, memory: &dyn Memory) {
        let compiled: Vec<&Blob> = self
            .code_cache
            .blobs
            .iter()
            .filter(|blob| blob.kind == BlobKind::Nmethod)
            .collect();
        let mut code = vec![0; CODE_READ as usize];
        let desc_size = hotspot.tables().type_size("PcDesc").unwrap_or(16).max(4);
        let mut descs = vec![0; (PC_DESCS_READ * desc_size) as usize];
        for blob in every_nth(&compiled, NMETHODS_READ) {
            let Some(nmethod) = &blob.nmethod else {
                continue;
            };
            let instructions = Span::new(blob.code.start, nmethod.stub_begin);
            let length = instructions.length().min(CODE_READ);
            let from = Address(instructions.end.0 - length);
            if let Some(code) = code.get_mut(..length as usize)
                && memory.read(from, code).is_ok()
            {
                epilogues(Arch::NATIVE, code, from, &mut self.nmethod_epilogues);
            }
            let length =
                nmethod.pc_descs.length().min(PC_DESCS_READ * desc_size) / desc_size * desc_size;
            if let Some(descs) = descs.get_mut(..length as usize)
                && memory.read(nmethod.pc_descs.start, descs).is_ok()
            {
                // PcDesc::_pc_offset comes first; the array's ends are sentinels outside the code.
                let offsets = descs
                    .chunks_exact(desc_size as usize)
                    .map(|desc| Cursor(desc).signed(Slot::new(0, 4)));
                let pcs = offsets.filter_map(|offset| blob.code.start.0.checked_add_signed(offset));
                self.nmethod_bodies
                    .extend(pcs.filter(|pc| instructions.contains(Address(*pc))));
            }
        }
        let methods: Vec<Address> = compiled
            .iter()
            .filter_map(|blob| blob.nmethod.as_ref())
            .map(|nmethod| nmethod.method)
            .collect();
        for metadata in method_metadata(hotspot, memory, every_nth(&methods, METHODS_READ).copied())
        {
            let addresses = [
                metadata.method,
                metadata.const_method,
                metadata.constants,
                metadata.holder,
            ];
            self.metaspace.extend(addresses.map(|address| address.0));
        }
    }

    fn add_codelets(&mut self) {
        for codelet in self.code_cache.codelets.iter() {
            self.codelets
                .extend([codelet.code.start.0, anywhere(codelet.code, 1)]);
        }
    }

    fn add_stacks(&mut self, hotspot: &HotSpot, maps: &Maps, own_thread: Option<Tid>) {
        let sizes = hotspot.zone_sizes();
        for thread in every_nth(&self.threads, STACKS) {
            let zones = Zones::of(thread.stack, sizes);
            self.red_zones.extend(within(zones.red, 1, 8));
            self.yellow_zones.extend(within(zones.yellow, 1, 8));
            self.reserved_zones.extend(within(zones.reserved, 1, 8));
            if let Some(guard) = Zones::native_guard(thread.stack, maps) {
                self.guard_pages.extend(within(guard, 1, 8));
            }
            if Some(thread.tid) != own_thread {
                let deep = Address(thread.last_java_sp.0);
                let used = match thread.stack.contains(deep) {
                    true => Span::new(deep, thread.stack.end),
                    // What has certainly been touched.
                    false => Span::new(
                        Address(thread.stack.end.0.saturating_sub(4096)),
                        thread.stack.end,
                    ),
                };
                self.foreign_stacks.extend(within(used, 6, 8));
            }
        }
        if let Some(own) = self
            .threads
            .iter()
            .find(|thread| Some(thread.tid) == own_thread)
        {
            let zones = Zones::of(own.stack, sizes).all();
            self.own_stack = Span::new(zones.end, own.stack.end);
        }
    }

    fn add_memory(&mut self, hotspot: &HotSpot, memory: &dyn Memory, maps: &Maps) {
        if let Some(text) = maps.text_of("libjvm.so") {
            self.libjvm_text.extend(within(text, TEXT_SAMPLES, 1));
        }
        if let Some(heap) = java_heap(hotspot, memory, maps) {
            let each = HEAP_SAMPLES / (heap.spans.len() as u64).max(1);
            for span in every_nth(&heap.spans, HEAP_SAMPLES as usize) {
                self.heap.extend(within(*span, each, 8));
            }
        }
        if let Some(page) = poll_page(hotspot, memory) {
            let mapped = maps
                .find(page)
                .map_or(Span::sized(page, 8), |mapping| mapping.span);
            self.poll_page.push(page.0);
            self.poll_page.extend(within(mapped, 2, 8).take(4));
        }
        self.metaspace
            .extend(klass_base(hotspot, memory).map(|base| base.0));
        for gap in maps.gaps().filter(|gap| gap.end.0 <= USER_END) {
            self.unmapped.extend(within(gap, 1, 8));
        }
    }

    fn bound(&mut self) {
        for list in [
            &mut self.nmethod_bodies,
            &mut self.nmethod_entries,
            &mut self.nmethod_prologues,
            &mut self.nmethod_epilogues,
            &mut self.exception_handlers,
            &mut self.deopt_handlers,
            &mut self.native_wrappers,
            &mut self.codelets,
            &mut self.adapters,
            &mut self.vtable_stubs,
            &mut self.runtime_stubs,
            &mut self.stub_routines,
            &mut self.buffers,
            &mut self.free_code,
            &mut self.libjvm_text,
            &mut self.foreign_stacks,
            &mut self.yellow_zones,
            &mut self.red_zones,
            &mut self.reserved_zones,
            &mut self.guard_pages,
            &mut self.poll_page,
            &mut self.heap,
            &mut self.metaspace,
            &mut self.unmapped,
        ] {
            *list = bounded(std::mem::take(list), LIST_LIMIT);
        }
    }
}

/// From the verified entry to where the frame is complete, which counts from the code's start.
fn prologue(blob: &Blob, verified_entry: Address) -> Span {
    let complete = u64::try_from(blob.frame_complete).unwrap_or(0);
    Span::new(
        verified_entry,
        Address(
            blob.code
                .start
                .0
                .saturating_add(complete)
                .min(blob.code.end.0),
        ),
    )
}

/// Puts a survey's lists into a landscape. Classes that follow from the walked thread's own stack and history are left as they
/// are.
pub fn fill(survey: &Survey, table: &mut LandscapeTable) {
    let entries: Vec<u64> = survey
        .nmethod_entries
        .iter()
        .chain(&survey.nmethod_prologues)
        .copied()
        .collect();
    // Method-handle adapters, mostly; they have no class of their own.
    let adapters: Vec<u64> = survey
        .adapters
        .iter()
        .chain(&survey.buffers)
        .copied()
        .collect();
    table.set(ValueClass::NmethodEntry, bounded(entries, LIST_LIMIT));
    table.set(ValueClass::Adapter, bounded(adapters, LIST_LIMIT));
    table.set(
        ValueClass::OwnStack,
        within(survey.own_stack, OWN_STACK_SAMPLES, 8).collect(),
    );
    for (class, list) in [
        (ValueClass::NmethodBody, &survey.nmethod_bodies),
        (ValueClass::NmethodEpilogue, &survey.nmethod_epilogues),
        (ValueClass::ExceptionHandler, &survey.exception_handlers),
        (ValueClass::DeoptHandler, &survey.deopt_handlers),
        (ValueClass::NativeWrapper, &survey.native_wrappers),
        (ValueClass::InterpreterCodelet, &survey.codelets),
        (ValueClass::VtableStub, &survey.vtable_stubs),
        (ValueClass::RuntimeStub, &survey.runtime_stubs),
        (ValueClass::StubRoutine, &survey.stub_routines),
        (ValueClass::FreeCode, &survey.free_code),
        (ValueClass::LibjvmText, &survey.libjvm_text),
        (ValueClass::ForeignStack, &survey.foreign_stacks),
        (ValueClass::YellowZone, &survey.yellow_zones),
        (ValueClass::RedZone, &survey.red_zones),
        (ValueClass::ReservedZone, &survey.reserved_zones),
        (ValueClass::GuardPages, &survey.guard_pages),
        (ValueClass::PollPage, &survey.poll_page),
        (ValueClass::Heap, &survey.heap),
        (ValueClass::Metaspace, &survey.metaspace),
        (ValueClass::Unmapped, &survey.unmapped),
    ] {
        table.set(class, list.clone());
    }
}
