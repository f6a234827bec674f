//! What the crate promises to the others, tried from outside.

mod apply;
mod codec;
mod generate;
mod strategies;
mod text;
mod tier;
mod witness;
