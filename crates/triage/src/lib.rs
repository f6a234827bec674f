//! Signatures, titles, known issues and crash logs.
