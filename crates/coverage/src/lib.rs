//! Feedback domains for coverage-guided fuzzers.
