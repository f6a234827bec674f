//! SafeFetch: HotSpot's loads that may fault.
//!
//! HotSpot probes doubtful addresses with a load whose fault its own handler resumes at a continuation. Such a fault inside a
//! guarded call is a *near miss*: the walker knew that the address was doubtful. It is the only kind of fault that the JVM's
//! handler is asked about. For any other it might unprotect a stack zone or jump into a stub.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use walkfuzz_context::Pc;

use crate::arch;
use crate::error::GuardError;
use crate::slot::GuardSlot;
use crate::ucontext;

/// How many sites there can be. HotSpot has two: SafeFetch32 and SafeFetchN.
pub const SAFEFETCH_SITES: usize = 8;

/// A load that may fault, and where it then continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeFetchSite {
    /// The loading instruction.
    pub fault_pc: Pc,
    /// Where the JVM resumes.
    pub continuation_pc: Pc,
}

/// `JVM_handle_linux_signal(signal, info, ucontext, abort_if_unrecognized)`; non-zero means handled.
pub type JvmHandler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void, c_int) -> c_int;

/// 0: none.
static POISON_PAGE: AtomicU64 = AtomicU64::new(0);

static FAULT_PCS: [AtomicU64; SAFEFETCH_SITES] = [const { AtomicU64::new(0) }; SAFEFETCH_SITES];
static CONTINUATION_PCS: [AtomicU64; SAFEFETCH_SITES] =
    [const { AtomicU64::new(0) }; SAFEFETCH_SITES];
static JVM_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Names the SafeFetch instructions of the JVM in this process; replaces what was set before. Not meant to be changed while
/// guarded calls are under way.
///
/// # Errors
/// There are more than [`SAFEFETCH_SITES`].
pub fn set_safefetch(sites: &[SafeFetchSite]) -> Result<(), GuardError> {
    if sites.len() > SAFEFETCH_SITES {
        return Err(GuardError::TooManySites {
            given: sites.len(),
            room: SAFEFETCH_SITES,
        });
    }
    for (index, (fault_pc, continuation_pc)) in FAULT_PCS.iter().zip(&CONTINUATION_PCS).enumerate()
    {
        let site = sites.get(index);
        fault_pc.store(0, Release);
        continuation_pc.store(site.map_or(0, |site| site.continuation_pc.0), Release);
        fault_pc.store(site.map_or(0, |site| site.fault_pc.0), Release);
    }
    Ok(())
}

/// Sets the JVM's handler, which is asked about faults at SafeFetch instructions. Without one the guard resumes them by
/// itself.
///
/// # Safety
/// The function is `JVM_handle_linux_signal` or behaves like it: it may be called in a signal handler of a registered thread
/// and reports and changes the ucontext as HotSpot does. It may fault: then it is left as a guarded call is.
pub unsafe fn set_jvm_handler(handler: Option<JvmHandler>) {
    JVM_HANDLER.store(handler.map_or(0, |handler| handler as usize), Release);
}

/// Names the page that the JVM keeps unreadable to report a failed check (`g_assert_poison`, debug.hpp), by its first address. Its handler
/// takes any access there for such a report, makes the page readable, and the report of the next failed check would not come: so it is
/// not asked about a SafeFetch of that page, whose address may well lie on a walked stack. Such a fetch is resumed as any other.
pub fn set_poison_page(page: Option<u64>) {
    POISON_PAGE.store(page.unwrap_or(0), Release);
}

/// # Safety
/// The kernel's siginfo of a SIGSEGV or SIGBUS.
unsafe fn is_in_poison_page(info: *const siginfo_t) -> bool {
    const PAGE_BYTES: u64 = 4096;
    let page = POISON_PAGE.load(Acquire);
    // SAFETY: the caller vouches for it.
    page != 0 && unsafe { (*info).si_addr() as u64 }.wrapping_sub(page) < PAGE_BYTES
}

/// Whether `call`, the one now under way on `slot`, is waiting for the JVM's handler.
pub(crate) fn is_asking(slot: &GuardSlot) -> bool {
    let asking = slot.asking_call.load(Relaxed);
    asking != 0 && asking == slot.current_call.load(Relaxed)
}

/// If `uc` stands at a SafeFetch instruction, has it resumed and counts a near miss. False: a fault like any other, `uc` is as
/// it was.
///
/// # Safety
/// Called by the handler of a SIGSEGV or SIGBUS inside a guarded call of `slot`, with its arguments.
pub(crate) unsafe fn resume(
    slot: &GuardSlot,
    signal: c_int,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
) -> bool {
    // SAFETY: the kernel's ucontext, here and below.
    let pc = unsafe { arch::pc(uc) };
    let Some(continuation) = continuation_of(pc) else {
        return false;
    };
    let handler = JVM_HANDLER.load(Acquire);
    // SAFETY: the handler's argument.
    if handler == 0 || !slot.asks_jvm.load(Relaxed) || unsafe { is_in_poison_page(info) } {
        // SAFETY: this is what the JVM would do.
        unsafe { arch::set_pc(uc, continuation) };
    } else {
        // SAFETY: see above.
        let before = unsafe { arch::read_registers(uc) };
        let enclosing = (
            slot.asking_call.load(Relaxed),
            slot.asking_mask.load(Relaxed),
        );
        // SAFETY: see above.
        slot.asking_mask
            .store(unsafe { ucontext::blocked_signals(uc) }, Relaxed);
        slot.asking_call
            .store(slot.current_call.load(Relaxed), Relaxed);
        // SAFETY: `set_jvm_handler` stored a JvmHandler, and its caller promised that it may be called here.
        unsafe {
            let handler: JvmHandler = core::mem::transmute(handler);
            handler(signal, info, uc.cast(), 0);
        }
        slot.asking_call.store(enclosing.0, Relaxed);
        slot.asking_mask.store(enclosing.1, Relaxed);
        // SAFETY: see above.
        if unsafe { arch::pc(uc) } != continuation {
            // Whatever it made of the fault, the fault is ours.
            // SAFETY: see above.
            unsafe { arch::write_registers(uc, &before) };
            return false;
        }
    }
    slot.near_misses.fetch_add(1, Relaxed);
    true
}

fn continuation_of(pc: Pc) -> Option<Pc> {
    let index = FAULT_PCS
        .iter()
        .position(|fault_pc| fault_pc.load(Acquire) == pc.0)?;
    let continuation = CONTINUATION_PCS.get(index)?.load(Acquire);
    // Unused entries have fault pc 0, and a jump to address 0 faults there.
    (continuation != 0).then_some(Pc(continuation))
}
