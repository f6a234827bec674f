//! Short names of real functions.

use proptest::prelude::*;
use walkfuzz_symbols::{SymbolTable, demangle, short_name};

use crate::jdks;

#[test]
fn golden_names() {
    let mut wrong = Vec::new();
    for line in include_str!("data/names.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let (mangled, expected) = line.split_once('\t').unwrap();
        let short = short_name(&demangle(mangled));
        if short != expected {
            wrong.push(format!("{mangled}: expected {expected}, got {short}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_as_crash_logs_and_debuggers_print_them() {
    for (text, expected) in [
        (
            "frame::sender_for_compiled_frame(RegisterMap*) const",
            "frame::sender_for_compiled_frame",
        ),
        (
            "forte_fill_call_trace_given_top(JavaThread*, ASGCT_CallTrace*, int, frame) [clone .constprop.1]",
            "forte_fill_call_trace_given_top",
        ),
        (
            "nmethod::get_original_pc(frame const*) [clone .part.0]+0x1c",
            "nmethod::get_original_pc",
        ),
        ("Unsafe_PutLong+0x4e", "Unsafe_PutLong"),
        ("std::ostream::operator<<(int)", "std::ostream::operator<<"),
        (
            "Foo<(Bar)1, (2>1)>::operator()(int) const",
            "Foo::operator()",
        ),
        (
            "std::string::_M_replace[abi:cxx11](int)",
            "std::string::_M_replace",
        ),
        (
            "<alloc::vec::Vec<u8> as core::fmt::Debug>::fmt",
            "alloc::vec::Vec::fmt",
        ),
        ("alloc::vec::Vec::<u8>::push", "alloc::vec::Vec::push"),
        ("walk::run::{{closure}}", "walk::run::{{closure}}"),
        (
            "(anonymous namespace)::Cache::get(int)::{lambda(int, char)#2}::operator()(int, char) const",
            "Cache::get::{lambda#2}::operator()",
        ),
        (
            "unsigned long* Table<Foo*, Bar<int> >::find<true>(Foo*)",
            "Table::find",
        ),
        ("", ""),
    ] {
        assert_eq!(short_name(text), expected, "{text}");
    }
}

#[test]
fn rust_names_lose_their_hash() {
    assert_eq!(
        demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
        "core::fmt::Formatter::pad"
    );
    assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
}

#[test]
fn every_name_of_every_libjvm_becomes_short() {
    for libjvm in jdks::libjvms() {
        let table = SymbolTable::load(&libjvm).unwrap();
        let (mut mangled, mut stubborn) = (0, Vec::new());
        for symbol in table.iter() {
            let full = demangle(symbol.mangled);
            let short = short_name(&full);
            if symbol.mangled.starts_with("_Z") {
                mangled += 1;
                if full.starts_with("_Z") {
                    stubborn.push(symbol.mangled);
                }
            }
            assert!(!short.is_empty(), "{}", symbol.mangled);
            assert_eq!(short_name(&short), short, "not stable: {}", symbol.mangled);
            let plain = !short.contains("operator") && !short.contains(" for ");
            assert!(
                !plain || !short.contains(['(', '<', ' ', '*']),
                "{} became {short}",
                symbol.mangled
            );
        }
        println!(
            "{}: {mangled} mangled names, {} not demangled {:?}",
            libjvm.display(),
            stubborn.len(),
            stubborn.first()
        );
        assert!(stubborn.len() * 1000 <= mangled, "{stubborn:?}");
    }
}

proptest! {
    #[test]
    fn any_text_has_a_short_name(text in ".{0,80}") {
        let _ = short_name(&demangle(&text));
    }

    #[test]
    fn brackets_in_any_order_have_a_short_name(text in "(operator|[a-z<>(){}:*& ]|->|::|\\[| const|\\.part\\.0){0,30}") {
        let _ = short_name(&text);
    }
}
