//! The Walker trait and its adapters.
