//! Names, values and layouts of each generation, as Rust has them.
//!
//! The numbers are the APIs' own. The same number means different things in different generations, so each has a module of its own.

pub mod iterator;
pub mod jep435;
pub mod minimal;
pub mod queue;
