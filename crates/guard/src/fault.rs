//! What the guard writes down about a call that it gave up.
//!
//! Written by the fault handler straight to where the caller of [`crate::call`] wants it, which may be memory that
//! survives the process. Plain data.

use walkfuzz_context::{Address, Arch, Fp, Pc, Registers, Sp};

/// Why a guarded call was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FaultKind {
    /// Nothing has been recorded yet.
    None = 0,
    /// A synchronous signal.
    Signal = 1,
    /// The alarm found the call unfinished after a whole period.
    Hang = 2,
    /// The call never began: it should have left a signal stack, and no further one was at hand to take its faults.
    NoHandlerStack = 3,
}

/// A fault, as the kernel delivered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fault {
    /// Why the call was given up.
    pub kind: FaultKind,
    /// The fault happened inside the JVM's own handler, which was looking at a SafeFetch fault of the call.
    pub in_jvm_handler: bool,
    /// Signal number; the alarm's for a hang.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`; zero for non-canonical addresses on x86_64 and for hangs.
    pub address: Address,
    /// Registers at the fault. For a hang: wherever the alarm found the thread.
    pub registers: Registers,
    /// Trap number (x86_64).
    pub trap_number: Option<u64>,
    /// Page-fault error code (x86_64) or syndrome register (aarch64).
    pub error_code: Option<u64>,
    /// The thread's blocked signals at the fault, bit `n - 1` for signal `n`. The kernel restores them as they are: a
    /// callee that changed its mask and then faulted has changed it for good, and here it shows.
    pub blocked_signals: u64,
}

impl Fault {
    /// No fault yet.
    pub const NONE: Fault = Fault {
        kind: FaultKind::None,
        in_jvm_handler: false,
        signal: 0,
        code: 0,
        address: Address(0),
        registers: Registers::zeroed(Arch::NATIVE),
        trap_number: None,
        error_code: None,
        blocked_signals: 0,
    };

    /// The faulting (or interrupted) instruction.
    #[must_use]
    pub fn pc(&self) -> Pc {
        self.registers.pc()
    }

    /// The stack pointer at the fault.
    #[must_use]
    pub fn sp(&self) -> Sp {
        self.registers.sp()
    }

    /// The frame pointer register at the fault.
    #[must_use]
    pub fn fp(&self) -> Fp {
        self.registers.fp()
    }
}

impl Default for Fault {
    fn default() -> Self {
        Self::NONE
    }
}
