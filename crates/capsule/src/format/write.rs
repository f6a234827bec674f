//! Writing a capsule.

use std::path::{Path, PathBuf};

use object::elf;
use walkfuzz_context::{Arch, Registers};

use crate::capsule::{Capsule, Content, Outcome};
use crate::error::FormatError;
use crate::format::limits::PAGE;
use crate::format::notes::{put_entry_pages, put_layout, put_opinion, put_references};
use crate::format::segments::{references, segments, shown};
use crate::format::{ENTRY_PAGES, FACTS, LAYOUT, OPINION, OWNER, REFERENCES, debugger};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Bytes of `struct elf_prstatus` on x86_64, and where in it things are (`<sys/procfs.h>`).
const PRSTATUS: usize = 336;
const PR_CURSIG: usize = 12;
const PR_PID: usize = 32;
const PR_REG: usize = 112;
/// Bytes of `siginfo_t`; signal, errno, code and address in it.
const SIGINFO: usize = 128;
/// Bytes of the floating-point registers; control words in it (x86_64: `fxsave`).
const FPREGS: usize = 512;
const FPREGS_MXCSR: usize = 24;
const X87_CONTROL: u16 = 0x37f;
/// What a user-space thread's segment registers and flags are on x86_64 Linux.
const CS: u64 = 0x33;
const SS: u64 = 0x2b;
const FLAGS: u64 = 0x202;
/// zstd's level: the best that decompresses with little memory. Capsules are small.
const LEVEL: i32 = 19;
/// For more pages than a walk reads: snapshots, which stay where they are.
const MANY_PAGES: usize = 1024;
const LEVEL_OF_MANY: i32 = 3;

/// The file that is to be replaced: never a device, a pipe or a link itself.
fn regular(path: &Path) -> std::io::Result<PathBuf> {
    let path = match path.symlink_metadata() {
        Ok(about) if about.is_symlink() => path.canonicalize()?,
        Ok(_) => path.to_owned(),
        Err(_) => return Ok(path.to_owned()),
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        "it is there, and is no regular file",
    ))
}

impl Capsule {
    /// The core, not packed: what a debugger opens.
    #[must_use]
    pub fn to_core(&self) -> Vec<u8> {
        let notes = self.notes();
        let segments = segments(self);
        // One for the notes, one for the debugger's page.
        let headers = segments.len() + 2;
        let notes_at = HEADER + headers * PROGRAM_HEADER;
        let mut out = Vec::new();
        out.extend(self.elf_header(headers as u16));
        let whole_pages = |length: usize| length.next_multiple_of(PAGE as usize);
        let mut at = whole_pages(notes_at + notes.len()) as u64;
        out.extend(program_header(
            elf::PT_NOTE.0,
            4,
            notes_at as u64,
            0,
            [notes.len() as u64; 2],
            4,
        ));
        for segment in &segments {
            let size = segment.pages.len() as u64 * PAGE;
            let stored = if segment.stored { size } else { 0 };
            let flags = segment
                .pages
                .first()
                .map_or(0, |page| page.protection.elf());
            out.extend(program_header(
                elf::PT_LOAD.0,
                flags,
                at,
                segment.address,
                [stored, size],
                PAGE,
            ));
            at += stored;
        }
        out.extend(program_header(
            elf::PT_LOAD.0,
            elf::PF_R.0,
            at,
            debugger::address(&self.facts),
            [PAGE; 2],
            PAGE,
        ));
        out.extend(notes);
        out.resize(whole_pages(out.len()), 0);
        for page in segments.iter().flat_map(|segment| &segment.pages) {
            out.extend(shown(page).unwrap_or_default());
        }
        out.extend(debugger::page(&self.facts).iter());
        out
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// zstd's, which has run out of memory.
    pub fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let many = self.pages.len() > MANY_PAGES;
        let mut packer = zstd::bulk::Compressor::new(if many { LEVEL_OF_MANY } else { LEVEL })?;
        // A flipped bit is found before anything of the file is believed.
        packer.include_checksum(true)?;
        packer.compress(&self.to_core())
    }

    /// Writes the file, in one piece: who reads it meanwhile sees all of it or nothing.
    ///
    /// # Errors
    /// [`FormatError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), FormatError> {
        let failed = |source| FormatError::Io {
            path: path.display().to_string(),
            source,
        };
        let path = &regular(path).map_err(failed)?;
        let bytes = self.to_bytes().map_err(failed)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        std::fs::write(&part, bytes)
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|source| {
                // The cause matters more than the rest of a half-written file.
                let _ = std::fs::remove_file(&part);
                failed(source)
            })
    }

    fn elf_header(&self, headers: u16) -> Vec<u8> {
        let machine = match self.facts.architecture() {
            Arch::X86_64 => elf::EM_X86_64.0,
            Arch::Aarch64 => elf::EM_AARCH64.0,
        };
        let mut out = b"\x7fELF".to_vec();
        out.extend([elf::ELFCLASS64.0, elf::ELFDATA2LSB.0, elf::EV_CURRENT.0]);
        out.resize(16, 0);
        out.extend(elf::ET_CORE.0.to_le_bytes());
        out.extend(machine.to_le_bytes());
        out.extend(u32::from(elf::EV_CURRENT.0).to_le_bytes());
        // Entry, program headers, section headers; flags.
        for word in [0, HEADER as u64, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(0_u32.to_le_bytes());
        for half in [HEADER as u16, PROGRAM_HEADER as u16, headers, 0, 0, 0] {
            out.extend(half.to_le_bytes());
        }
        out
    }

    fn notes(&self) -> Vec<u8> {
        let facts = &self.facts;
        let mut out = Vec::new();
        let core = "CORE";
        put_note(&mut out, core, elf::NT_PRSTATUS.0, &self.thread_status());
        put_note(&mut out, core, elf::NT_FPREGSET.0, &self.float_registers());
        put_note(&mut out, core, elf::NT_SIGINFO.0, &self.signal_info());
        put_note(
            &mut out,
            core,
            elf::NT_AUXV.0,
            &debugger::auxiliary_vector(facts),
        );
        put_note(&mut out, core, elf::NT_FILE.0, &debugger::file_list(facts));
        // Strings, numbers and lists of them: always possible.
        let text = serde_json::to_vec_pretty(facts).unwrap_or_default();
        put_note(&mut out, OWNER, FACTS, &text);
        put_note(&mut out, OWNER, LAYOUT, &put_layout(&self.layout));
        let changed = self.pages.iter().filter(|(_, page)| page.outcome.is_some());
        let changed = changed.map(|(&address, page)| match &page.entry {
            Content::Bytes(bytes) => (address, Some(&**bytes)),
            Content::Zero | Content::File { .. } => (address, None),
        });
        put_note(&mut out, OWNER, ENTRY_PAGES, &put_entry_pages(changed));
        let references = put_references(&references(self));
        put_note(&mut out, OWNER, REFERENCES, &references);
        if let Some(opinion) = &self.opinion {
            put_note(&mut out, OWNER, OPINION, &put_opinion(opinion));
        }
        out
    }

    /// The registers that a debugger shows: those at the fault, else those at the entry.
    fn shown_registers(&self) -> Registers {
        match self.facts.expected {
            Outcome::Fault(fault) => fault.registers,
            Outcome::Frames(_) => self.facts.entry_registers(),
        }
    }

    fn thread_status(&self) -> Vec<u8> {
        let mut out = vec![0; PRSTATUS];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(target) = out.get_mut(at..at + bytes.len()) {
                target.copy_from_slice(bytes);
            }
        };
        if let Outcome::Fault(fault) = self.facts.expected {
            put(0, &fault.signal.to_le_bytes());
            put(PR_CURSIG, &(fault.signal as u16).to_le_bytes());
        }
        put(PR_PID, &1_u32.to_le_bytes());
        for (index, word) in self.user_registers().into_iter().enumerate() {
            put(PR_REG + index * 8, &word.to_le_bytes());
        }
        out
    }

    /// `struct user_regs_struct`.
    fn user_registers(&self) -> [u64; 27] {
        let registers = self.shown_registers();
        let named = |name: &str| {
            let index = registers.arch.register_names().iter();
            let found = index
                .zip(registers.words)
                .find(|(known, _)| **known == name);
            found.map_or(0, |(_, word)| word)
        };
        let order = [
            "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx",
            "rdx", "rsi", "rdi",
        ];
        let mut words = [0; 27];
        for (word, name) in words.iter_mut().zip(order) {
            *word = named(name);
        }
        let rest = [
            u64::MAX,
            named("rip"),
            CS,
            FLAGS,
            named("rsp"),
            SS,
            self.facts.entry.thread.0,
        ];
        for (word, value) in words.iter_mut().skip(order.len()).zip(rest) {
            *word = value;
        }
        words
    }

    fn float_registers(&self) -> Vec<u8> {
        let mut out = vec![0; FPREGS];
        let control = self.facts.entry.float_control.to_le_bytes();
        for (at, byte) in (0..)
            .zip(X87_CONTROL.to_le_bytes())
            .chain((FPREGS_MXCSR..).zip(control))
        {
            if let Some(target) = out.get_mut(at) {
                *target = byte;
            }
        }
        out
    }

    fn signal_info(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Outcome::Fault(fault) = self.facts.expected {
            for word in [fault.signal, 0, fault.code, 0] {
                out.extend(word.to_le_bytes());
            }
            out.extend(fault.address.0.to_le_bytes());
        }
        out.resize(SIGINFO, 0);
        out
    }
}

fn program_header(
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    [in_file, in_memory]: [u64; 2],
    align: u64,
) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(flags.to_le_bytes());
    for word in [offset, address, 0, in_file, in_memory, align] {
        out.extend(word.to_le_bytes());
    }
    out
}

/// A note: sizes of name and content, type, both padded to words of four bytes.
fn put_note(out: &mut Vec<u8>, owner: &str, kind: u32, content: &[u8]) {
    for size in [owner.len() as u32 + 1, content.len() as u32, kind] {
        out.extend(size.to_le_bytes());
    }
    out.extend(owner.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(content);
    out.resize(out.len().next_multiple_of(4), 0);
}
