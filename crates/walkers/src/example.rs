//! The walker of docs/add-a-walker.md: follows frame pointers. A test of the docs compares the two, so that what stands there
//! compiles and works.

use std::ffi::c_void;
use std::ptr::addr_of_mut;

use walkfuzz_record::{Code, Generation};

use crate::trace::{CallTrace, Frame, TraceBuffer};
use crate::walker::{Call, Methods, Start, ThreadHandle, Walker};

struct FramePointers;

/// The code under test: C's calling convention, AsyncGetCallTrace's shape.
unsafe extern "C" fn follow(trace: *mut c_void, depth: i32, context: *mut c_void) {
    // SAFETY: `prepare` passes its own trace, and a context only where `Start::Context` brought one.
    let (trace, context) = unsafe {
        (
            &mut *trace.cast::<CallTrace>(),
            &*context.cast::<libc::ucontext_t>(),
        )
    };
    let (mut pc, mut fp) = top(context);
    while trace.num_frames < depth && pc != 0 {
        // SAFETY: the trace has room for `depth` frames.
        unsafe {
            trace.frames.add(trace.num_frames as usize).write(Frame {
                bci: -3,
                method: pc,
            })
        };
        trace.num_frames += 1;
        let record = fp as *const u64;
        // SAFETY: none. A wild fp faults here, and that is what the guard is for.
        (fp, pc) = unsafe { (record.read(), record.add(1).read()) };
    }
}

#[cfg(target_arch = "x86_64")]
fn top(context: &libc::ucontext_t) -> (u64, u64) {
    let word = |register: i32| context.uc_mcontext.gregs[register as usize].cast_unsigned();
    (word(libc::REG_RIP), word(libc::REG_RBP))
}

#[cfg(target_arch = "aarch64")]
fn top(context: &libc::ucontext_t) -> (u64, u64) {
    (context.uc_mcontext.pc, context.uc_mcontext.regs[29])
}

impl Walker for FramePointers {
    fn name(&self) -> &'static str {
        "fp"
    }

    fn generation(&self) -> Generation {
        Generation::Plugin
    }

    fn methods(&self) -> Methods {
        Methods::Pcs
    }

    fn prepare(
        &self,
        trace: &mut TraceBuffer,
        depth: i32,
        _: ThreadHandle,
        start: Start,
    ) -> Option<Call> {
        let Start::Context(context) = start else {
            return None;
        };
        let depth = trace.reset(depth);
        Some(Call {
            function: follow,
            first: addr_of_mut!(trace.trace).cast(),
            depth,
            last: context,
        })
    }
}

/// A context whose pc is 100 and whose fp points at `record`.
fn context(record: *const [u64; 2]) -> libc::ucontext_t {
    // SAFETY: a ucontext_t is plain data, for which zeroes are valid.
    let mut context: libc::ucontext_t = unsafe { std::mem::zeroed() };
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = 100;
        context.uc_mcontext.gregs[libc::REG_RBP as usize] = record as i64;
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.pc = 100;
        context.uc_mcontext.regs[29] = record as u64;
    }
    context
}

/// Walks three frames: pc 100, and the two records' return addresses.
fn walk(depth: i32, trace: &mut TraceBuffer) -> Code {
    let outer = [0_u64; 2];
    let middle = [outer.as_ptr() as u64, 300];
    let inner = [middle.as_ptr() as u64, 200];
    let mut context = context(&raw const inner);
    let thread = ThreadHandle {
        env: std::ptr::null_mut(),
        tid: 0,
    };
    let start = Start::Context((&raw mut context).cast());
    let call = FramePointers.prepare(trace, depth, thread, start).unwrap();
    // SAFETY: `prepare` made the call; the records and the context live until it returns.
    unsafe { (call.function)(call.first, call.depth, call.last) };
    FramePointers.finish(trace)
}

#[test]
fn follows_records_to_the_outermost() {
    let mut trace = TraceBuffer::new();
    assert_eq!(walk(64, &mut trace), Code(3));
    let pcs: Vec<u64> = trace.frames(3).iter().map(|frame| frame.method).collect();
    assert_eq!(pcs, [100, 200, 300]);
    assert!(trace.canary_intact());
}

#[test]
fn keeps_to_the_depth_it_was_given_and_starts_afresh() {
    let mut trace = TraceBuffer::new();
    assert_eq!(walk(64, &mut trace), Code(3));
    assert_eq!(walk(2, &mut trace), Code(2));
    assert!(trace.canary_intact());
}

#[test]
fn says_no_where_it_cannot_begin() {
    let mut trace = TraceBuffer::new();
    let thread = ThreadHandle {
        env: std::ptr::null_mut(),
        tid: 0,
    };
    let frame = Start::Frame {
        sp: 0,
        fp: 0,
        pc: 0,
    };
    assert!(
        FramePointers
            .prepare(&mut trace, 64, thread, frame)
            .is_none()
    );
}
