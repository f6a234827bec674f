//! From findings and records to what people read: schema, store, summary, screen.

mod fixture;
mod schema;
mod screen;
mod store;
