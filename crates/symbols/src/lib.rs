//! Symbols, demangling and disassembly.
