//! Sequences of calls of an iterator's functions, beside what it has shown before.
//!
//! What must hold: after Rewind the same frames come again; an end stays the end; State repeats what NextFrame said; options are kept; an iterator within an
//! iterator disturbs nobody; lines are those of their bytecodes; an iterator whose handler has returned gives nothing.
//!
//! Contract: calls are made on a thread that is held in Java code, as in a signal handler.

use std::ffi::{c_int, c_void};

use arbitrary::Arbitrary;
use walkfuzz_asgst::abi::iterator::{
    Frame, Iterator, LineNumberEntry, Method, frame_type, options,
};
use walkfuzz_asgst::api::IteratorApi;

use super::held::{Held, Standing};
use crate::error::QueueError;

/// The most calls of an input.
const MOST: usize = 256;
/// Lines of a method that are looked at.
const LINES: usize = 32;

/// One call.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// NextFrame.
    Next,
    /// RewindIterator.
    Rewind,
    /// State.
    State,
    /// RunWithIterator, within the handler.
    Nested,
    /// The lines of the last frame's method.
    Lines,
    /// Keeps the iterator for after its handler.
    Keep,
    /// NextFrame and State of no iterator.
    None,
}

/// What an implementation got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// Another frame than before.
    #[error("rewind: frame {0} is another one than before")]
    Rewound(usize),
    /// It went on after its end, or ended otherwise.
    #[error("end: NextFrame says {got} where it said {before}")]
    End {
        /// Now.
        got: c_int,
        /// Before.
        before: c_int,
    },
    /// A frame after an error.
    #[error("end: NextFrame says {0} and gives a frame")]
    Filled(c_int),
    /// Not what NextFrame said.
    #[error("state: State says {got} after NextFrame said {said}")]
    State {
        /// State's.
        got: c_int,
        /// NextFrame's.
        said: c_int,
    },
    /// A frame that the options exclude.
    #[error("options: a frame of type {0} that was not asked for")]
    Options(u8),
    /// The nested one begins elsewhere, or the outer one is not what it was.
    #[error("nested: an iterator within another one begins elsewhere, or changes the other one")]
    Nested,
    /// A line of another bytecode.
    #[error("lines: bytecode {bci} is of line {line}, and the table says {said}")]
    Lines {
        /// The bytecode.
        bci: i32,
        /// GetMethodLineNumber's.
        line: i32,
        /// GetMethodLineNumberTable's.
        said: i32,
    },
    /// It gives frames after its handler has returned, or there is none.
    #[error("after the end: what is no iterator any more answers with {0}")]
    Outlived(c_int),
}

struct Walk<'a> {
    api: &'a IteratorApi,
    ops: &'a [Op],
    options: i32,
    context: *mut c_void,
    frames: Vec<Frame>,
    at: usize,
    /// What NextFrame said at the end.
    end: Option<c_int>,
    said: Option<c_int>,
    kept: *mut Iterator,
    mistake: Option<Mistake>,
}

impl Walk<'_> {
    /// # Safety
    /// In the iterator's handler.
    unsafe fn next(&mut self, iterator: *mut Iterator) -> Result<(), Mistake> {
        let mut frame = none();
        // SAFETY: the caller's promise.
        let got = unsafe { (self.api.next_frame)(iterator, &raw mut frame) };
        self.said = Some(got);
        if let Some(known) = self.frames.get(self.at) {
            if got != 1 || *known != frame {
                return Err(Mistake::Rewound(self.at));
            }
            self.at += 1;
            return Ok(());
        }
        if let Some(before) = self.end
            && got != before
        {
            return Err(Mistake::End { got, before });
        }
        if got != 1 {
            self.end = Some(got);
            let is_empty = frame.kind == 0 && frame.pc.is_null() && frame.method == Method(0);
            return if is_empty {
                Ok(())
            } else {
                Err(Mistake::Filled(got))
            };
        }
        let java = |frame: &Frame| frame.kind != frame_type::NON_JAVA;
        let wants_all = self.options & options::INCLUDE_NON_JAVA_FRAMES != 0;
        let only_first = self.options & options::END_ON_FIRST_JAVA_FRAME != 0;
        if !wants_all && !java(&frame) || only_first && self.frames.last().is_some_and(java) {
            return Err(Mistake::Options(frame.kind));
        }
        self.frames.push(frame);
        self.at += 1;
        Ok(())
    }

    /// # Safety
    /// In the iterator's handler.
    unsafe fn call(&mut self, op: Op, iterator: *mut Iterator) -> Result<(), Mistake> {
        // SAFETY: the caller's promise; methods are those of frames.
        unsafe {
            match op {
                Op::Next => self.next(iterator)?,
                Op::Rewind => {
                    (self.api.rewind_iterator)(iterator);
                    (self.at, self.said) = (0, None);
                }
                Op::State => {
                    let got = (self.api.state)(iterator);
                    if let Some(said) = self.said
                        && got != said
                    {
                        return Err(Mistake::State { got, said });
                    }
                }
                Op::Nested => {
                    let mut first = none();
                    let argument = (self.api, &raw mut first);
                    let argument = (&raw const argument).cast_mut().cast();
                    let before = (self.api.state)(iterator);
                    (self.api.run_with_iterator)(self.context, self.options, Some(one), argument);
                    if (self.api.state)(iterator) != before {
                        return Err(Mistake::Nested);
                    }
                    if self.frames.first().is_some_and(|known| *known != first) {
                        return Err(Mistake::Nested);
                    }
                }
                Op::Lines => {
                    if let Some(frame) = self.frames.last() {
                        lines(self.api, frame.method)?;
                    }
                }
                Op::Keep => self.kept = iterator,
                Op::None => none_of(self.api, std::ptr::null_mut())?,
            }
        }
        Ok(())
    }
}

fn none() -> Frame {
    // SAFETY: all-zero is no frame.
    unsafe { std::mem::zeroed() }
}

/// Takes one frame.
unsafe extern "C" fn one(iterator: *mut Iterator, argument: *mut c_void) {
    // SAFETY: `call` passes its own.
    unsafe {
        let (api, frame) = *argument.cast::<(&IteratorApi, *mut Frame)>();
        (api.next_frame)(iterator, frame);
    }
}

/// # Safety
/// The method is a frame's.
unsafe fn lines(api: &IteratorApi, method: Method) -> Result<(), Mistake> {
    let mut table = [LineNumberEntry::default(); LINES];
    // SAFETY: the caller's promise, and so much room.
    let count =
        unsafe { (api.get_method_line_number_table)(method, table.as_mut_ptr(), LINES as c_int) };
    let known = table.get(..(count.max(0) as usize).min(LINES));
    for entry in known.unwrap_or(&[]) {
        // SAFETY: as above.
        let line = unsafe { (api.get_method_line_number)(method, entry.start_bci) };
        // A bytecode may begin two lines.
        let same = |other: &&LineNumberEntry| other.start_bci == entry.start_bci;
        let mut said = table.iter().filter(same);
        if !said.any(|entry| entry.line_number == line) {
            return Err(Mistake::Lines {
                bci: entry.start_bci,
                line,
                said: entry.line_number,
            });
        }
    }
    Ok(())
}

/// # Safety
/// The iterator is null, or was one: its memory is still there.
unsafe fn none_of(api: &IteratorApi, iterator: *mut Iterator) -> Result<(), Mistake> {
    let mut frame = none();
    // SAFETY: the caller's promise.
    unsafe {
        (api.rewind_iterator)(iterator);
        let got = (api.next_frame)(iterator, &raw mut frame);
        let state = (api.state)(iterator);
        if got > 0 || frame.kind != 0 || state > 0 {
            return Err(Mistake::Outlived(got.max(state)));
        }
    }
    Ok(())
}

unsafe extern "C" fn each(iterator: *mut Iterator, argument: *mut c_void) {
    // SAFETY: `calls` passes its own.
    unsafe {
        let walk = &mut *argument.cast::<Walk<'_>>();
        for op in walk.ops {
            if let Err(mistake) = walk.call(*op, iterator) {
                walk.mistake = Some(mistake);
                return;
            }
        }
    }
}

fn calls(api: &IteratorApi, options: i32, ops: &[Op], standing: &Standing<'_>) -> Option<Mistake> {
    let mut walk = Walk {
        api,
        ops,
        options,
        context: standing.context,
        frames: Vec::new(),
        at: 0,
        end: None,
        said: None,
        kept: std::ptr::null_mut(),
        mistake: None,
    };
    let argument = (&raw mut walk).cast();
    // SAFETY: the held thread's context; what was an iterator lay on this stack.
    unsafe {
        (api.run_with_iterator)(standing.context, options, Some(each), argument);
        if walk.mistake.is_none() && !walk.kept.is_null() {
            return none_of(api, walk.kept).err();
        }
    }
    walk.mistake
}

/// Makes an input's calls. What the implementation got wrong, if anything.
///
/// # Errors
/// No thread could be held.
pub fn run(
    held: &mut Held,
    api: &IteratorApi,
    chosen: u8,
    ops: &[Op],
    fresh: bool,
) -> Result<Option<Mistake>, QueueError> {
    let ops = ops.get(..ops.len().min(MOST)).unwrap_or(ops);
    let chosen = i32::from(chosen) & options::ALL;
    let mut mistake = None;
    held.hold(fresh, &mut |standing| {
        mistake = calls(api, chosen, ops, standing);
    })?;
    Ok(mistake)
}
