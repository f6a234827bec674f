//! Crash protection around one walk.
