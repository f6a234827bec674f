//! `Registers:`, of both architectures, as HotSpot on Linux prints them.

use walkfuzz_context::{Arch, Register, Registers};

use super::text::hexadecimal_prefix;

/// The registers seen so far, before it is known whose they are: `R8` to `R15` are names of both architectures.
#[derive(Clone, Debug, Default)]
pub(super) struct RegisterBank {
    x86_64: Vec<(Register, u64)>,
    aarch64: Vec<(Register, u64)>,
}

/// More than both architectures have together: what follows are repetitions.
const MOST: usize = 128;

impl RegisterBank {
    /// Takes in a line such as `R8 =0x0, R9 =0x1, RIP=0x2`. `false`: it holds no register.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let mut any = false;
        // `R8 =0x1` has a blank in it; so take what stands right before each `=0x`.
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("=0x") {
            let name = before
                .trim_end()
                .rsplit(|c: char| !c.is_ascii_alphanumeric())
                .next()
                .unwrap_or("");
            if let Some(value) = hexadecimal_prefix(behind) {
                any |= self.add(name, value);
            }
            rest = behind;
        }
        any
    }

    fn add(&mut self, name: &str, value: u64) -> bool {
        let lower = name.to_ascii_lowercase();
        let x86_64 = Register::from_name(Arch::X86_64, &lower).filter(|_| lower.len() > 1);
        let aarch64 = match lower.strip_prefix(['r', 'x']) {
            Some("29") => Some(Arch::Aarch64.fp()),
            Some("30") => Arch::Aarch64.lr(),
            Some("31") => Some(Arch::Aarch64.sp()),
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                Register::from_name(Arch::Aarch64, &format!("x{number}"))
            }
            _ if matches!(lower.as_str(), "sp" | "pc" | "lr" | "fp") => {
                Register::from_name(Arch::Aarch64, &lower)
            }
            _ => None,
        };
        for (register, list) in [(x86_64, &mut self.x86_64), (aarch64, &mut self.aarch64)] {
            if let Some(register) = register
                && list.len() < MOST
            {
                list.push((register, value));
            }
        }
        x86_64.is_some() || aarch64.is_some()
    }

    /// The registers. `arch` is what the log says elsewhere, `pc` where the signal hit.
    pub(super) fn finish(&self, arch: Option<Arch>, pc: Option<u64>) -> Option<Registers> {
        let arch = arch.unwrap_or(if self.x86_64.len() >= self.aarch64.len() {
            Arch::X86_64
        } else {
            Arch::Aarch64
        });
        let list = match arch {
            Arch::X86_64 => &self.x86_64,
            Arch::Aarch64 => &self.aarch64,
        };
        if list.is_empty() {
            return None;
        }
        let mut registers = Registers::zeroed(arch);
        if let Some(pc) = pc {
            registers.set(arch.pc(), pc);
        }
        // The first of a name counts: a log that went wrong may list them twice.
        for (register, value) in list.iter().rev() {
            registers.set(*register, *value);
        }
        Some(registers)
    }
}
