//! A JVM made of bytes, laid out like 25: for states that a real one is seldom in.

use std::collections::HashMap;

use walkfuzz_context::Address;

use crate::{AttachError, BufferMemory, HotSpot};

pub(crate) const HEAP: u64 = 0x10_0000;
pub(crate) const SEGMENTS: u64 = 64;
pub(crate) const SEGMENT: u64 = 128;
pub(crate) const SEGMENT_MAP: u64 = 0x20_0000;
pub(crate) const THREAD_LIST: u64 = 0x30_0000;
pub(crate) const THREAD_ARRAY: u64 = 0x30_0100;
pub(crate) const METHOD: u64 = 0x55_0000;
const STATICS: u64 = 0x40_0000;
const CODE_HEAP: u64 = 0x41_0000;
const STRINGS: u64 = 0x80_0000;

/// Type, field, its C++ type, offset.
const FIELDS: &[(&str, &str, &str, u64)] = &[
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 8),
    ("CodeHeap", "_memory", "VirtualSpace", 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 112),
    ("CodeHeap", "_log2_segment_size", "int", 248),
    ("VirtualSpace", "_low_boundary", "char*", 0),
    ("VirtualSpace", "_high_boundary", "char*", 8),
    ("VirtualSpace", "_low", "char*", 16),
    ("VirtualSpace", "_high", "char*", 24),
    ("HeapBlock::Header", "_length", "uint32_t", 0),
    ("HeapBlock::Header", "_used", "bool", 4),
    ("CodeBlob", "_name", "const char*", 8),
    ("CodeBlob", "_size", "int", 24),
    ("CodeBlob", "_code_offset", "int", 36),
    ("CodeBlob", "_data_offset", "int", 40),
    ("CodeBlob", "_frame_size", "int", 44),
    ("CodeBlob", "_frame_complete_offset", "int16_t", 54),
    ("CodeBlob", "_kind", "CodeBlobKind", 56),
    ("nmethod", "_method", "Method*", 80),
    ("nmethod", "_immutable_data", "address", 96),
    ("nmethod", "_osr_entry_point", "address", 144),
    ("nmethod", "_entry_offset", "u2", 152),
    ("nmethod", "_verified_entry_offset", "u2", 154),
    ("nmethod", "_entry_bci", "int", 156),
    ("nmethod", "_stub_offset", "int", 168),
    ("nmethod", "_exception_offset", "int", 172),
    ("nmethod", "_deopt_handler_offset", "int", 176),
    ("nmethod", "_scopes_pcs_offset", "int", 196),
    ("nmethod", "_scopes_data_offset", "int", 200),
    ("nmethod", "_orig_pc_offset", "int", 208),
    ("nmethod", "_compile_id", "int", 212),
    ("nmethod", "_comp_level", "CompLevel", 216),
    ("nmethod", "_state", "volatile signed char", 219),
    ("StubQueue", "_stub_buffer", "address", 8),
    ("StubQueue", "_buffer_limit", "int", 20),
    ("StubQueue", "_queue_begin", "int", 24),
    ("StubQueue", "_queue_end", "int", 28),
    ("StubQueue", "_number_of_stubs", "int", 32),
    ("InterpreterCodelet", "_description", "const char*", 0),
    ("InterpreterCodelet", "_size", "int", 8),
    ("InterpreterCodelet", "_bytecode", "Bytecodes::Code", 12),
    ("ThreadsList", "_length", "const uint", 4),
    ("ThreadsList", "_threads", "JavaThread *const *const", 16),
    ("Thread", "_osthread", "OSThread*", 8),
    ("JavaThread", "_stack_base", "address", 16),
    ("JavaThread", "_stack_size", "size_t", 24),
    ("JavaThread", "_thread_state", "JavaThreadState", 32),
    ("JavaThread", "_anchor", "JavaFrameAnchor", 40),
    ("JavaFrameAnchor", "_last_Java_sp", "intptr_t*", 0),
    ("JavaFrameAnchor", "_last_Java_pc", "address", 8),
    ("JavaFrameAnchor", "_last_Java_fp", "intptr_t*", 16),
    ("OSThread", "_thread_id", "pid_t", 12),
    ("OSThread", "_pthread_id", "pthread_t", 16),
    ("CollectedHeap", "_reserved", "MemRegion", 48),
    ("MemRegion", "_start", "HeapWord*", 0),
    ("MemRegion", "_word_size", "size_t", 8),
    ("Method", "_constMethod", "ConstMethod*", 8),
    ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 24),
    ("JVMFlag", "_addr", "", 0),
    ("JVMFlag", "_name", "const char*", 8),
    ("JVMFlag", "_type", "int", 20),
];

/// Type, static field; the n-th one's variable is at STATICS + 8 n.
const STATIC_FIELDS: &[(&str, &str)] = &[
    ("CodeCache", "_heaps"),
    ("AbstractInterpreter", "_code"),
    ("ThreadsSMRSupport", "_java_thread_list"),
    ("Universe", "_collectedHeap"),
    ("JVMFlag", "flags"),
    ("JVMFlag", "numFlags"),
    ("Abstract_VM_Version", "_s_vm_release"),
];

const TYPES: &[(&str, u64)] = &[
    ("HeapBlock", 8),
    ("CodeBlob", 64),
    ("CodeBlobKind", 1),
    ("CompLevel", 1),
    ("StubQueue", 48),
    ("InterpreterCodelet", 16),
    ("JavaThread", 128),
    ("JVMFlag", 24),
    ("PcDesc", 16),
    ("VirtualSpace", 56),
    ("nmethod", 176),
];

const CONSTANTS: &[(&str, u32)] = &[
    ("CodeBlobKind::Nmethod", 1),
    ("CodeBlobKind::Buffer", 2),
    ("CodeBlobKind::RuntimeStub", 6),
    ("_thread_in_native", 4),
    ("_thread_in_Java", 8),
];

pub(crate) struct FakeJvm {
    pub(crate) memory: BufferMemory,
    pub(crate) symbols: HashMap<&'static str, u64>,
    strings: u64,
    variables: u64,
}

impl FakeJvm {
    /// One code heap in which nothing was ever allocated, no threads, two flags.
    pub(crate) fn new() -> Self {
        let mut jvm = Self {
            memory: BufferMemory::new(),
            symbols: HashMap::new(),
            strings: STRINGS,
            variables: 0x90_0000,
        };
        jvm.write_tables();
        let release = jvm.string("25.0.2+10");
        let statics = [
            0x42_0000,
            0x43_0000,
            THREAD_LIST,
            0x44_0000,
            0x45_0000,
            2,
            release,
        ];
        for (index, value) in statics.into_iter().enumerate() {
            jvm.put(STATICS + 8 * index as u64, value);
        }
        // The GrowableArray of one CodeHeap.
        jvm.put(0x42_0000, 1);
        jvm.put(0x42_0008, 0x42_0010);
        jvm.put(0x42_0010, CODE_HEAP);
        let end = HEAP + SEGMENTS * SEGMENT;
        for (field, low, high) in [(0, HEAP, end), (112, SEGMENT_MAP, SEGMENT_MAP + SEGMENTS)] {
            jvm.put(CODE_HEAP + field, low);
            jvm.put(CODE_HEAP + field + 8, high);
            jvm.put(CODE_HEAP + field + 16, low);
            jvm.put(CODE_HEAP + field + 24, high);
        }
        jvm.put(CODE_HEAP + 248, SEGMENT.ilog2().into());
        jvm.memory
            .put(Address(HEAP), &vec![0; (SEGMENTS * SEGMENT) as usize]);
        jvm.memory
            .put(Address(SEGMENT_MAP), &[0xff; SEGMENTS as usize]);
        // An empty StubQueue and an empty ThreadsList.
        jvm.memory.put(Address(0x43_0000), &[0; 48]);
        jvm.memory.put(Address(THREAD_LIST), &[0; 24]);
        jvm.put(THREAD_LIST + 16, THREAD_ARRAY);
        jvm.memory.put(Address(0x44_0000), &[0; 64]);
        let flags = [("UseZGC", 0, 0x46_0000), ("StackYellowPages", 3, 0x46_0008)];
        for (index, (name, kind, place)) in flags.into_iter().enumerate() {
            let (entry, name) = (0x45_0000 + 24 * index as u64, jvm.string(name));
            jvm.put(entry, place);
            jvm.put(entry + 8, name);
            jvm.put(entry + 16, kind << 32);
        }
        jvm.put(0x46_0000, 0);
        jvm.put(0x46_0008, 2);
        jvm
    }

    pub(crate) fn attach(&self) -> Result<HotSpot, AttachError> {
        HotSpot::attach(&self.memory, &|name| self.symbols.get(name).copied())
    }

    pub(crate) fn put(&mut self, at: u64, value: u64) {
        self.memory.put_u64(Address(at), value);
    }

    pub(crate) fn string(&mut self, text: &str) -> u64 {
        let at = self.strings;
        self.memory.put_cstring(Address(at), text);
        // Strings are read in pieces of up to 64 bytes.
        self.strings += (text.len() as u64 / 64 + 1) * 64;
        self.memory.put(Address(self.strings - 1), &[0]);
        for address in at + text.len() as u64..self.strings {
            self.memory.put(Address(address), &[0]);
        }
        at
    }

    fn variable(&mut self, symbol: &'static str, value: u64) {
        self.symbols.insert(symbol, self.variables);
        self.put(self.variables, value);
        self.variables += 8;
    }

    /// Every table has entries of 48 bytes.
    fn write_tables(&mut self) {
        for (symbol, offset) in [
            ("gHotSpotVMStructEntryTypeNameOffset", 0),
            ("gHotSpotVMStructEntryFieldNameOffset", 8),
            ("gHotSpotVMStructEntryTypeStringOffset", 16),
            ("gHotSpotVMStructEntryIsStaticOffset", 24),
            ("gHotSpotVMStructEntryOffsetOffset", 32),
            ("gHotSpotVMStructEntryAddressOffset", 40),
            ("gHotSpotVMTypeEntryTypeNameOffset", 0),
            ("gHotSpotVMTypeEntrySizeOffset", 8),
            ("gHotSpotVMTypeEntrySuperclassNameOffset", 16),
            ("gHotSpotVMIntConstantEntryNameOffset", 0),
            ("gHotSpotVMIntConstantEntryValueOffset", 8),
            ("gHotSpotVMLongConstantEntryNameOffset", 0),
            ("gHotSpotVMLongConstantEntryValueOffset", 8),
            ("gHotSpotVMStructEntryArrayStride", 48),
            ("gHotSpotVMTypeEntryArrayStride", 48),
            ("gHotSpotVMIntConstantEntryArrayStride", 48),
            ("gHotSpotVMLongConstantEntryArrayStride", 48),
            ("gHotSpotVMStructs", 0xa0_0000),
            ("gHotSpotVMTypes", 0xb0_0000),
            ("gHotSpotVMIntConstants", 0xc0_0000),
            ("gHotSpotVMLongConstants", 0xd0_0000),
        ] {
            self.variable(symbol, offset);
        }
        let mut fields: Vec<[u64; 6]> = Vec::new();
        for (class, name, kind, offset) in FIELDS {
            fields.push([
                self.string(class),
                self.string(name),
                self.string(kind),
                0,
                *offset,
                0,
            ]);
        }
        for (index, (class, name)) in STATIC_FIELDS.iter().enumerate() {
            let place = STATICS + 8 * index as u64;
            fields.push([self.string(class), self.string(name), 0, 1, 0, place]);
        }
        self.table(0xa0_0000, &fields);
        let types: Vec<_> = TYPES
            .iter()
            .map(|(name, size)| {
                let base = match *name {
                    "nmethod" => self.string("CodeBlob"),
                    _ => 0,
                };
                [self.string(name), *size, base, 0, 0, 0]
            })
            .collect();
        self.table(0xb0_0000, &types);
        let constants: Vec<_> = CONSTANTS
            .iter()
            .map(|(name, value)| [self.string(name), (*value).into(), 0, 0, 0, 0])
            .collect();
        self.table(0xc0_0000, &constants);
        let long = [self.string("markWord::lock_mask"), u64::MAX, 0, 0, 0, 0];
        self.table(0xd0_0000, &[long]);
    }

    fn table(&mut self, at: u64, entries: &[[u64; 6]]) {
        let words = entries.iter().flatten().chain(&[0; 6]);
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        self.memory.put(Address(at), &bytes);
    }

    /// A block of `length` segments; returns where its blob would be.
    pub(crate) fn block(&mut self, segment: u64, length: u32, used: bool) -> u64 {
        let block = HEAP + segment * SEGMENT;
        self.memory.put_u32(Address(block), length);
        self.memory.put(Address(block + 4), &[used.into()]);
        if used {
            for index in 0..u64::from(length).min(SEGMENTS - segment) {
                self.memory.put(
                    Address(SEGMENT_MAP + segment + index),
                    &[index.min(0xfe) as u8],
                );
            }
        }
        block + 8
    }

    /// A blob that fills its block of `length` segments: a header of 64 bytes (224 for nmethods), then code.
    pub(crate) fn blob(&mut self, segment: u64, length: u32, kind: u8, name: &str) -> u64 {
        let blob = self.block(segment, length, true);
        let size = length * SEGMENT as u32 - 8;
        let name = self.string(name);
        self.put(blob + 8, name);
        self.memory.put_u32(Address(blob + 24), size);
        self.memory
            .put_u32(Address(blob + 36), if kind == 1 { 224 } else { 64 });
        self.memory.put_u32(Address(blob + 40), size);
        self.memory.put(Address(blob + 56), &[kind]);
        blob
    }

    /// An nmethod of at least three segments.
    pub(crate) fn nmethod(&mut self, segment: u64, length: u32) -> u64 {
        let blob = self.blob(segment, length, 1, "nmethod");
        self.memory.put_u32(Address(blob + 44), 6);
        self.memory.put(Address(blob + 54), &[20, 0]);
        self.put(blob + 80, METHOD);
        self.memory.put(Address(blob + 152), &[2, 0, 10, 0]);
        self.memory
            .put(Address(blob + 156), &(-1_i32).to_le_bytes());
        self.memory.put_u32(Address(blob + 168), 300);
        self.memory.put_u32(Address(blob + 172), 304);
        self.memory.put_u32(Address(blob + 176), 310);
        self.memory.put(Address(blob + 216), &[3]);
        blob
    }

    /// Sets the list's length and its entries.
    pub(crate) fn threads(&mut self, threads: &[u64]) {
        self.memory
            .put_u32(Address(THREAD_LIST + 4), threads.len() as u32);
        for (index, thread) in threads.iter().enumerate() {
            self.put(THREAD_ARRAY + 8 * index as u64, *thread);
        }
    }

    /// A `JavaThread` with a stack of 1 MB below `at`'s tenfold.
    pub(crate) fn thread(&mut self, at: u64, os_thread: u64, state: u32) {
        self.memory.put(Address(at), &[0; 128]);
        self.put(at + 8, os_thread);
        self.put(at + 16, at * 10);
        self.put(at + 24, 1 << 20);
        self.memory.put_u32(Address(at + 32), state);
        self.put(at + 40, at * 10 - 64);
    }
}
