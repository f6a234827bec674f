//! What the crate promises to the others, tried from outside.
#![expect(clippy::unwrap_used, reason = "a test may fail so")]

mod apply;
mod codec;
mod generate;
mod strategies;
mod text;
mod tier;
mod tier_properties;
mod witness;
