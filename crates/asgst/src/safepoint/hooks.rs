//! Being called at the functions that a thread comes to first at a safepoint.
//!
//! One breakpoint is planted in each, at an instruction that can be executed elsewhere. The trap's handler does nothing but send the thread to a piece of
//! code of ours, which calls what it is to call as a function would, executes that instruction and goes back. So the call is not made in a signal handler.
//!
//! A single instruction's first byte (on aarch64, the instruction) is written, as in the kernel's `text_poke`: other threads see the old one or the breakpoint.

use std::sync::OnceLock;

use walkfuzz_context::{Address, Pc};
use walkfuzz_guard::{read_pc, set_breakpoint_hook, write_pc};
use walkfuzz_reference::CheckedMemory;
use walkfuzz_vmstructs::Memory as _;

use super::{AtSafepoint, arch};

/// Why nobody is called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// libjvm was stripped, or is of another make.
    #[error("libjvm has no symbol {0}, which safepoint queues need")]
    NoSymbol(&'static str),
    /// Its code is not understood.
    #[error("{0} in libjvm does not begin as is understood")]
    Code(&'static str),
    /// Memory.
    #[error("libjvm's code cannot be written to: {0}")]
    Memory(String),
}

/// A planted breakpoint.
struct Hook {
    /// Where it is.
    address: u64,
    /// Where a thread goes that meets it.
    detour: u64,
}

static HOOKS: OnceLock<Box<[Hook]>> = OnceLock::new();

/// The functions, each with the names that it may have. All take the `JavaThread` first.
///
/// - Compiled code: `handle_polling_page_exception`. What it does first (`StackWatermarkSet::after_unwind`) already takes the armed value back.
/// - The interpreter: `at_safepoint`, for the same reason.
/// - Transitions from native code and out of the VM: the slow path of `SafepointMechanism`.
const FUNCTIONS: [&[&str]; 3] = [
    &["_ZN20SafepointSynchronize29handle_polling_page_exceptionEP10JavaThread"],
    &["_ZN18InterpreterRuntime12at_safepointEP10JavaThread"],
    &[
        "_ZN18SafepointMechanism7processEP10JavaThreadbb",
        "_ZN18SafepointMechanism7processEP10JavaThreadb",
        "_ZN18SafepointMechanism23block_if_requested_slowEP10JavaThread",
    ],
];

/// How much of a function is looked at.
const LOOKED_AT: usize = 32;

/// Plants the breakpoints. A second call changes nothing.
///
/// # Errors
/// [`HookError`]; then none was planted.
///
/// # Safety
/// The guard is installed; `called` can be called from now on.
pub(super) unsafe fn plant(
    symbol: &dyn Fn(&str) -> Option<u64>,
    called: AtSafepoint,
) -> Result<(), HookError> {
    if HOOKS.get().is_some() {
        return Ok(());
    }
    let mut detours = Vec::new();
    let mut hooks = Vec::new();
    for names in FUNCTIONS {
        let found = names.iter().find_map(|name| Some((*name, symbol(name)?)));
        let (name, function) = found.ok_or(HookError::NoSymbol(names[0]))?;
        let mut code = [0; LOOKED_AT];
        CheckedMemory
            .read(Address(function), &mut code)
            .map_err(|_| HookError::Code(name))?;
        let place = arch::place(&code).ok_or(HookError::Code(name))?;
        let address = function + place.start as u64;
        let displaced = code.get(place.clone()).ok_or(HookError::Code(name))?;
        let resume = function + place.end as u64;
        let detour = detours.len() as u64;
        detours.extend_from_slice(&arch::detour(called as usize as u64, displaced, resume));
        // Literals in them are aligned.
        detours.resize(detours.len().next_multiple_of(16), 0);
        hooks.push(Hook { address, detour });
    }
    let base = executable(&detours).map_err(|error| HookError::Memory(error.to_string()))?;
    for hook in &mut hooks {
        hook.detour += base;
        make_writable(hook.address).map_err(|error| HookError::Memory(error.to_string()))?;
    }
    let hooks = HOOKS.get_or_init(|| hooks.into_boxed_slice());
    // SAFETY: the hook is signal-safe, and takes nothing but traps at planted breakpoints.
    unsafe { set_breakpoint_hook(Some(on_breakpoint)) };
    for hook in hooks {
        // SAFETY: the page is writable, and an instruction begins there.
        unsafe { arch::write_breakpoint(hook.address) };
    }
    Ok(())
}

/// Whether they are in place. Signal-safe.
pub(super) fn are_planted() -> bool {
    HOOKS.get().is_some()
}

/// In the trap's handler, on any thread.
unsafe fn on_breakpoint(
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
    _: bool,
) -> bool {
    // SAFETY: the guard passes the kernel's pointers on, here and below.
    if info.is_null() || unsafe { (*info).si_code } != arch::TRAP_CODE {
        return false;
    }
    // SAFETY: see above.
    let at = arch::breakpoint_of(unsafe { read_pc(context) }.0);
    let hooks = HOOKS.get().map_or(&[][..], |hooks| hooks);
    let Some(hook) = hooks.iter().find(|hook| hook.address == at) else {
        return false;
    };
    // SAFETY: the detour does what the instruction at the breakpoint would have done, and goes on behind it.
    unsafe { write_pc(context, Pc(hook.detour)) };
    true
}

/// Where `code` can be executed.
fn executable(code: &[u8]) -> std::io::Result<u64> {
    let size = code.len().next_multiple_of(page_size());
    // SAFETY: new private memory.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is that large, and nobody else knows it.
    let protected = unsafe {
        std::ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len());
        libc::mprotect(memory, size, libc::PROT_READ | libc::PROT_EXEC)
    };
    if protected != 0 {
        return Err(std::io::Error::last_os_error());
    }
    arch::synchronise(memory as u64, code.len());
    Ok(memory as u64)
}

/// Makes the page at `address` writable; it stays executable.
fn make_writable(address: u64) -> std::io::Result<()> {
    let page = page_size();
    let start = address as usize & !(page - 1);
    // SAFETY: libjvm's code, a private mapping of its file: nothing but this process sees what is written there.
    let done = unsafe {
        libc::mprotect(
            std::ptr::with_exposed_provenance_mut(start),
            page,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
        )
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

fn page_size() -> usize {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
