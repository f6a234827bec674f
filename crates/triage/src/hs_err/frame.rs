//! One line of a stack in a crash log.

use walkfuzz_symbols::short_name;

use super::text::{hexadecimal, hexadecimal_prefix, split_number, split_word};

/// Whose code a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// `J`: compiled Java code.
    Compiled,
    /// `A`: Java code compiled ahead of time (up to 16).
    Aot,
    /// `j`: interpreted Java code.
    Interpreted,
    /// `V`: libjvm.
    Vm,
    /// `v`: code that the VM generated: stubs, the interpreter.
    VmStub,
    /// `C`: any other native code.
    Native,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whose code.
    pub kind: FrameKind,
    /// The library of a native frame, such as `libjvm.so`.
    pub module: Option<String>,
    /// Distance from the library's base.
    pub module_offset: Option<u64>,
    /// The function: with parameters for C++, `package.Class.method` for Java, the stub's name for stubs.
    pub function: Option<String>,
    /// Distance from the function's begin (Java: the bytecode index).
    pub offset: Option<u64>,
    /// The pc, where the line has it.
    pub pc: Option<u64>,
}

impl Frame {
    /// Reads one line. `None`: it is no frame.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut characters = line.chars();
        let kind = match characters.next()? {
            'J' => FrameKind::Compiled,
            'A' => FrameKind::Aot,
            'j' => FrameKind::Interpreted,
            'V' => FrameKind::Vm,
            'v' => FrameKind::VmStub,
            'C' => FrameKind::Native,
            _ => return None,
        };
        if characters.next()? != ' ' {
            return None;
        }
        let rest = characters.as_str().trim();
        if rest.is_empty() {
            return None;
        }
        let mut frame = Frame {
            kind,
            module: None,
            module_offset: None,
            function: None,
            offset: None,
            pc: None,
        };
        match kind {
            FrameKind::Vm | FrameKind::Native => frame.native(rest),
            FrameKind::Compiled | FrameKind::Aot => frame.compiled(rest),
            FrameKind::Interpreted => {
                let (method, behind) = split_word(rest);
                let (method, offset) = split_number(method, "+", 10);
                frame.function = Some(java_name(method));
                frame.offset = offset;
                frame.pc = hexadecimal(split_word(behind).0);
            }
            FrameKind::VmStub => {
                // ~StubRoutines::call_stub 0x00007fd740338fa6; ~RuntimeStub::_new_array_Java; ~BufferBlob::Interpreter
                let (name, pc) = match rest.rsplit_once(" 0x") {
                    Some((name, pc)) => (name, u64::from_str_radix(pc, 16).ok()),
                    None => (rest, None),
                };
                frame.function = Some(name.trim_start_matches('~').trim().to_owned());
                frame.pc = pc;
            }
        }
        Some(frame)
    }

    /// What a signature calls this place: the function's short name, else the library and the offset, else `unknown`.
    #[must_use]
    pub fn site(&self) -> String {
        match (&self.function, &self.module, self.module_offset) {
            (Some(function), ..) if matches!(self.kind, FrameKind::Vm | FrameKind::Native) => {
                short_name(function)
            }
            (Some(function), ..) => function.clone(),
            (None, Some(module), Some(offset)) => format!("{module}+{offset:#x}"),
            (None, Some(module), None) => module.clone(),
            (None, None, _) => "unknown".to_owned(),
        }
    }

    /// `[libjvm.so+0xfb5a80]  Unsafe_PutLong+0xa0`, `[libc.so.6+0x85f14]`, `0x00007ffb9f9fe5bf`, each perhaps with a
    /// source line in parentheses behind.
    fn native(&mut self, rest: &str) {
        let Some((module, behind)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) else {
            let (word, behind) = split_word(rest);
            self.pc = hexadecimal(word);
            if self.pc.is_none() {
                self.named(rest);
            } else if !behind.is_empty() {
                self.named(behind);
            }
            return;
        };
        let (module, offset) = split_number(module, "+0x", 16);
        self.module = Some(module.to_owned()).filter(|m| !m.is_empty());
        self.module_offset = offset;
        if !behind.trim().is_empty() {
            self.named(behind.trim());
        }
    }

    /// `frame::sender(RegisterMap*) const+0x1c  (frame.cpp:346)`.
    fn named(&mut self, text: &str) {
        let text = text.split("  (").next().unwrap_or(text).trim();
        let (function, offset) = split_number(text, "+0x", 16);
        self.function = Some(function.to_owned()).filter(|f| !f.is_empty());
        self.offset = offset;
    }

    /// `135 c2 Crash.poke(J)V (9 bytes) @ 0x... [0x...+0x...]`, `12% c1 ...`, `5  java.lang.Object.hashCode()I java.base@17`.
    fn compiled(&mut self, rest: &str) {
        self.pc = rest
            .split_once("@ 0x")
            .and_then(|(_, pc)| hexadecimal_prefix(pc));
        self.offset = rest
            .rsplit_once("+0x")
            .and_then(|(_, n)| hexadecimal_prefix(n));
        let method = rest
            .split_whitespace()
            .find(|word| word.contains('(') && word.contains('.') && !word.starts_with('('))
            .or_else(|| rest.split_whitespace().find(|word| word.contains('.')));
        self.function = method.map(java_name);
    }
}

/// A Java method without its descriptor: overloads share a name, as in native code.
fn java_name(method: &str) -> String {
    method.split('(').next().unwrap_or(method).to_owned()
}
