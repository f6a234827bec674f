//! Memory as a crash log shows it: words at the top of the stack, instruction bytes, and what HotSpot takes values for.

use walkfuzz_context::{Arch, BlobKind, Pc, Registers, Sp};

use super::text::{hexadecimal, hexadecimal_prefix, push_bounded};

/// HotSpot prints 64 words.
const MOST_WORDS: usize = 4096;
/// HotSpot prints 512 bytes.
const MOST_BYTES: usize = 4096;
/// Longer notes are cut: strings that a register points to are printed whole.
const LONGEST_NOTE: usize = 400;

/// `Top of Stack:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackWords {
    /// The address of the first word.
    pub begin: Sp,
    /// The words, upwards.
    pub words: Vec<u64>,
}

impl StackWords {
    /// `0x00007f5326bfd5a0:   00000000000006cf 00007f5326bfd5c0`, from 21 on with characters behind.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let Some((address, words)) = line.split_once(':') else {
            return false;
        };
        let Some(address) = hexadecimal(address.trim()) else {
            return false;
        };
        if self.words.is_empty() {
            self.begin = Sp(address);
        } else if address != self.begin.0.wrapping_add(8 * self.words.len() as u64) {
            // A gap: what follows would stand at the wrong addresses.
            return false;
        }
        let words = words.split_whitespace().take(2).map_while(|word| {
            u64::from_str_radix(word, 16)
                .ok()
                .filter(|_| word.len() == 16)
        });
        let before = self.words.len();
        for word in words {
            push_bounded(&mut self.words, MOST_WORDS, word);
        }
        self.words.len() > before
    }

    /// Registers of a `ucontext_t` of Linux among the words, if a whole one is: that of the signal, or a copy that a walker
    /// was given. Known by its segment selectors, so on x86_64 only. The innermost one counts.
    #[must_use]
    pub fn user_context(&self) -> Option<(u64, Registers)> {
        // ucontext_t: flags, link, stack (3 words), then the registers in the kernel's order (arch/x86/include/uapi/asm/sigcontext.h).
        const NAMES: [&str; 17] = [
            "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx",
            "rdx", "rax", "rcx", "rsp", "rip",
        ];
        const SELECTORS: u64 = 0x002b_0000_0000_0033;
        const FIRST: usize = 5;
        let length = FIRST + NAMES.len() + 2;
        let at = self.words.windows(length).position(|window| {
            window[FIRST + NAMES.len() + 1] == SELECTORS && window[0] < 16 && window[1] == 0
        })?;
        let mut registers = Registers::zeroed(Arch::X86_64);
        for (name, word) in NAMES.iter().zip(&self.words[at + FIRST..]) {
            if let Some(register) = walkfuzz_context::Register::from_name(Arch::X86_64, name) {
                registers.set(register, *word);
            }
        }
        Some((self.begin.0.wrapping_add(8 * at as u64), registers))
    }
}

/// `Instructions:`, bytes around the pc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeBytes {
    /// The address of the first byte.
    pub begin: Pc,
    /// The bytes, upwards.
    pub bytes: Vec<u8>,
}

impl CodeBytes {
    /// `0x00007f5327ab1396:   5b 41 5c`, from 21 on with `=>` before the line of the pc.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let line = line.trim_start().trim_start_matches("=>").trim_start();
        let Some((address, bytes)) = line.split_once(':') else {
            return false;
        };
        let Some(address) = hexadecimal(address) else {
            return false;
        };
        if self.bytes.is_empty() {
            self.begin = Pc(address);
        } else if address != self.begin.0.wrapping_add(self.bytes.len() as u64) {
            return false;
        }
        let bytes = bytes.split_whitespace().map_while(|byte| {
            u8::from_str_radix(byte, 16)
                .ok()
                .filter(|_| byte.len() == 2)
        });
        let before = self.bytes.len();
        for byte in bytes {
            push_bounded(&mut self.bytes, MOST_BYTES, byte);
        }
        self.bytes.len() > before
    }

    /// The bytes from `pc` on.
    #[must_use]
    pub fn at(&self, pc: Pc) -> Option<&[u8]> {
        let from = usize::try_from(pc.0.checked_sub(self.begin.0)?).ok()?;
        self.bytes.get(from..).filter(|bytes| !bytes.is_empty())
    }
}

/// What HotSpot takes a value for: `Register to memory mapping:` and `Stack slot to memory mapping:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where the value is: `RAX`, `sp + 5`.
    pub place: String,
    /// The value.
    pub value: Option<u64>,
    /// What HotSpot says.
    pub text: String,
    /// The code that the value points into, if it does.
    pub code: Option<CodeNote>,
}

/// Code that a value points into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeNote {
    /// Its kind.
    pub kind: BlobKind,
    /// Its name: a method with its compiler, a stub.
    pub name: Option<String>,
}

impl Note {
    /// `RAX=0x1 is an unknown value`, `R8 =0x2 is ...`, `stack at sp + 0 slots: 0x3 is ...`. `None`: no new note begins here.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (place, rest) = match line.strip_prefix("stack at ") {
            Some(rest) => {
                let (place, rest) = rest.split_once(" slots: ")?;
                (place, rest)
            }
            None => {
                let (place, rest) = line.split_once('=')?;
                let name = place.trim();
                let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric());
                (
                    Some(name).filter(|n| is_name && (1..=4).contains(&n.len()))?,
                    rest,
                )
            }
        };
        let value = rest.strip_prefix("0x").and_then(hexadecimal_prefix);
        let text = rest.split_once(' ').map_or(rest, |(_, text)| text);
        Some(Self {
            place: place.chars().take(16).collect(),
            value,
            text: text.chars().take(LONGEST_NOTE).collect(),
            code: code_kind(text).map(|kind| CodeNote {
                kind,
                name: code_name(text),
            }),
        })
    }

    /// A line below the note's first one, which may name the code.
    pub(super) fn continue_with(&mut self, line: &str) {
        let Some(code) = &mut self.code else { return };
        if code.name.is_some() {
            return;
        }
        // Compiled method (c2)      99   90       4       Crash::fib (23 bytes)
        if let Some(rest) = line.strip_prefix("Compiled method (") {
            let (compiler, rest) = rest.split_once(')').unwrap_or(("", rest));
            if line.contains(" n ") || compiler == "n/a" {
                code.kind = BlobKind::NativeWrapper;
            }
            let method = rest.split_whitespace().find(|word| word.contains("::"));
            code.name = method.map(|method| format!("{compiler} {method}"));
        }
    }
}

/// The kind of code that a note speaks of (`os::print_location`, `CodeBlob::dump_for_addr`, `VMError` of 11 to 25).
fn code_kind(text: &str) -> Option<BlobKind> {
    const WORDS: [(&str, BlobKind); 11] = [
        ("(nmethod*)", BlobKind::Nmethod),
        ("Interpreter codelet", BlobKind::Interpreter),
        ("interpreter codelet", BlobKind::Interpreter),
        ("AdapterHandlerEntry", BlobKind::Adapter),
        ("i2c/c2i", BlobKind::Adapter),
        ("vtable stub", BlobKind::VtableStub),
        ("VtableStub", BlobKind::VtableStub),
        ("RuntimeStub", BlobKind::RuntimeStub),
        ("StubRoutines::", BlobKind::StubRoutine),
        ("a stub", BlobKind::StubRoutine),
        ("CodeBlob", BlobKind::Buffer),
    ];
    let in_libjvm = || {
        let library = text.contains("libjvm.so") && text.contains(" in ");
        library.then_some(BlobKind::Libjvm)
    };
    WORDS
        .iter()
        .find(|(word, _)| text.contains(word))
        .map(|(_, kind)| *kind)
        .or_else(in_libjvm)
}

fn code_name(text: &str) -> Option<String> {
    let at = text
        .find("StubRoutines::")
        .or_else(|| text.find("RuntimeStub"))?;
    let name = text[at..].split_whitespace().next()?;
    Some(name.to_owned())
}
