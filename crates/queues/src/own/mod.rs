//! ASGST's queue and iterators in the fuzzer's own process, called on threads that are held in Java code.
//!
//! What is found here in walkfuzz's own functions is a self-test and no finding in a JVM; the same operations drive a libjvm that exports the functions.
//!
//! - [`Held`]: the JVM, and threads of it that stand still.
//! - [`queue_ops`]: sequences of calls beside a simple model. [`elements`]: words of elements edited. [`iterator_ops`]: the same for iterators.
//! - [`mutants`]: implementations with one mistake each, which the targets find.

pub mod elements;
mod held;
pub mod iterator_ops;
pub mod mutants;
pub mod queue_ops;

use arbitrary::{Arbitrary, Unstructured};

pub use held::Held;

/// As many operations as the bytes give. (A `Vec` of arbitrary's ends at each second element.)
#[must_use]
pub fn operations<'a, T: Arbitrary<'a>>(mut bytes: Unstructured<'a>) -> Vec<T> {
    let mut operations = Vec::new();
    while !bytes.is_empty() {
        match T::arbitrary(&mut bytes) {
            Ok(operation) => operations.push(operation),
            Err(_) => break,
        }
    }
    operations
}
