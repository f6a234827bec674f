//! [framehop](https://docs.rs/framehop) as a walker in a library, for `walkfuzz_walker.h`.
//!
//! Native frames are unwound by the modules' `.eh_frame`, all others (Java, stubs) by frame pointers, so that compiled Java code often ends a walk. It
//! gives a pc where AsyncGetCallTrace gives a method id. `init` allocates everything: the modules' tables, and a cache for each walk that may be under
//! way. A walk takes a free cache, reads the stack through the kernel, which says no instead of faulting, and allocates nothing.

mod arch;
mod caches;
mod stack;

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use framehop::{FrameAddress, Unwinder as _};
use walkfuzz_symbols::{Modules, unwind_tables};
use walkfuzz_walkers::Frame;
use walkfuzz_walkers::plugin_abi::{ABI, METHOD_PC, RawCode, RawFacts, RawThread, RawWalker};

use arch::{Registers, Unwinder};

/// Codes.
const NO_FRAME: i32 = 0;
const NOT_READY: i32 = -1;
const TOO_MANY_WALKS: i32 = -2;

static UNWINDER: OnceLock<Unwinder> = OnceLock::new();

static CODES: [RawCode; 4] = {
    const fn code(code: i32, name: &'static CStr) -> RawCode {
        RawCode {
            code,
            name: name.as_ptr(),
        }
    }
    [
        code(NO_FRAME, c"no frame"),
        code(NOT_READY, c"not initialised"),
        code(TOO_MANY_WALKS, c"too many walks at once"),
        RawCode::END,
    ]
};

static WALKER: RawWalker = RawWalker {
    abi: ABI,
    size: size_of::<RawWalker>() as u32,
    name: c"framehop".as_ptr(),
    version: c"0.16".as_ptr(),
    generation: std::ptr::null(),
    codes: CODES.as_ptr(),
    init: Some(init),
    walk: Some(walk),
    walk_from_frame: Some(walk_from_frame),
    method: METHOD_PC,
    walk_remote: None,
};

/// The library's description.
#[unsafe(no_mangle)]
pub extern "C" fn walkfuzz_walker() -> *const RawWalker {
    &raw const WALKER
}

/// Reads the unwind tables of all modules.
unsafe extern "C" fn init(facts: *const RawFacts) -> i32 {
    // SAFETY: walkfuzz passes its facts.
    let log = unsafe { (*facts).log };
    let refuse = |text: &CStr| {
        // SAFETY: a C string, in `init`.
        unsafe { log(text.as_ptr().cast::<c_char>()) };
        1
    };
    let Ok(modules) = Modules::of_this_process() else {
        return refuse(c"cannot read /proc/self/maps");
    };
    if !stack::can_read() {
        return refuse(
            c"the kernel does not let this process read its own memory by process_vm_readv",
        );
    }
    let mut unwinder = Unwinder::new();
    let mut known = 0;
    for tables in modules.iter().filter_map(unwind_tables) {
        unwinder.add_module(tables);
        known += 1;
    }
    if known == 0 {
        return refuse(c"no module has unwind tables");
    }
    caches::fill();
    let _ = UNWINDER.set(unwinder);
    0
}

unsafe extern "C" fn walk(
    _: *const RawThread,
    ucontext: *mut c_void,
    depth: i32,
    frames: *mut Frame,
) -> i32 {
    // SAFETY: walkfuzz passes a context.
    let registers = unsafe { arch::registers(&*ucontext.cast::<libc::ucontext_t>()) };
    // SAFETY: walkfuzz passes room for `depth` frames.
    unsafe { unwind(registers, depth, frames) }
}

unsafe extern "C" fn walk_from_frame(
    _: *const RawThread,
    sp: usize,
    fp: usize,
    pc: usize,
    depth: i32,
    frames: *mut Frame,
) -> i32 {
    let registers = Registers {
        pc: pc as u64,
        sp: sp as u64,
        fp: fp as u64,
        lr: 0,
    };
    // SAFETY: as above.
    unsafe { unwind(registers, depth, frames) }
}

/// # Safety
/// `frames` has room for `depth`.
unsafe fn unwind(registers: Registers, depth: i32, frames: *mut Frame) -> i32 {
    let Some(unwinder) = UNWINDER.get() else {
        return NOT_READY;
    };
    let Some(mut cache) = caches::take() else {
        return TOO_MANY_WALKS;
    };
    let mut regs = registers.for_framehop();
    let mut address = FrameAddress::from_instruction_pointer(registers.pc);
    let mut lowest = registers.sp;
    let mut count = 0;
    while count < depth {
        // SAFETY: fewer than `depth` have been written.
        unsafe {
            frames.add(count as usize).write(Frame {
                bci: -3,
                method: address.address(),
            });
        }
        count += 1;
        let caller = unwinder.unwind_frame(address, &mut regs, &mut cache, &mut stack::read);
        let Some(next) = caller
            .ok()
            .flatten()
            .and_then(FrameAddress::from_return_address)
        else {
            break;
        };
        // Whoever called has the higher sp, except a leaf of aarch64: so the walk comes to an end.
        if regs.sp() < lowest || (regs.sp() == lowest && count > 1) {
            break;
        }
        lowest = regs.sp();
        address = next;
    }
    count
}
