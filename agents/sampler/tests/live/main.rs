//! The agent in real JVMs.

mod attaching;
mod clocks;
mod faults;
mod refusals;
mod sampling;
mod support;
