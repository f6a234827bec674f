//! The functions under the names that C knows them by. What they do is `walkfuzz_asgst`'s: whoever links that crate exports nothing.

mod iterator;
mod jep435;
mod minimal;
mod queue;
