//! From findings and records to what people read: schema, store, summary, screen.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test may fail as the test itself"
)]

mod fixture;
mod schema;
mod screen;
mod store;
