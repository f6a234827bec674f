//! A fuzzing session: JVM, engine, recorder, triage and feedback behind one call per input.

pub mod libfuzzer;
mod session;

pub use session::{HarnessError, InputVerdict, Mode, Session};
