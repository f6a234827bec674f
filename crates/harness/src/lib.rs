//! A fuzzing session: JVM, engine, recorder, triage and feedback behind one call per input.
