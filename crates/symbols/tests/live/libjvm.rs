//! Symbol tables of real libraries.

use std::process::Command;
use std::time::{Duration, Instant};

use walkfuzz_context::Arch;
use walkfuzz_symbols::{Error, SymbolTable, demangle};

use crate::jdks;

#[test]
fn a_libjvm_loads_quickly_and_finds_its_functions() {
    for libjvm in jdks::libjvms() {
        let start = Instant::now();
        let table = SymbolTable::load(&libjvm).unwrap();
        let loading = start.elapsed();

        let start = Instant::now();
        let agct = table.named("AsyncGetCallTrace").unwrap();
        let by_name = start.elapsed();
        println!(
            "{}: {} symbols in {loading:?}, by name {by_name:?}, identity {:?}",
            libjvm.display(),
            table.len(),
            table.identity()
        );
        // Debug builds are several times slower; the limit is for what users run.
        if !cfg!(debug_assertions) {
            assert!(loading < Duration::from_millis(150), "{loading:?}");
        }

        assert!(table.len() > 40_000);
        assert_eq!(table.link_base(), 0);
        assert_eq!(table.address_of("AsyncGetCallTrace"), Some(agct.offset));
        assert_eq!(table.lookup(agct.offset).unwrap(), agct);
        assert_eq!(table.lookup(agct.offset + agct.size - 1).unwrap(), agct);
        assert_ne!(table.lookup(agct.offset + agct.size), Some(agct));
        assert!(table.find_prefix("_ZN17vframeStreamForte").count() >= 2);
        assert_eq!(table.address_of("AsyncGetCallTrac"), None);
        assert!(table.lookup(u64::MAX).is_none());

        let code = table.read(agct.offset, agct.size).unwrap();
        assert_eq!(code.len() as u64, agct.size);
        let id = table.identity().unwrap();
        assert!(
            table
                .build_id()
                .is_none_or(|build_id| build_id == id && id.len() == 40)
        );
    }
}

#[test]
fn every_symbol_is_found_at_its_own_address() {
    for libjvm in jdks::libjvms() {
        let table = SymbolTable::load(&libjvm).unwrap();
        for symbol in table.iter() {
            if symbol.size > 0 {
                let found = table.lookup(symbol.offset).unwrap();
                assert!(
                    found.offset == symbol.offset || found.offset + found.size > symbol.offset,
                    "{symbol:?} found as {found:?}"
                );
            }
        }
    }
}

#[test]
fn the_same_as_nm() {
    let Ok(output) = Command::new("nm").arg("--version").output() else {
        println!("skip: nm is not installed");
        return;
    };
    assert!(output.status.success());
    for libjvm in jdks::libjvms() {
        let output = Command::new("nm").arg(&libjvm).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let table = SymbolTable::load(&libjvm).unwrap();
        let mut compared = 0;
        for line in text.lines().step_by(997) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [address, "t" | "T" | "b" | "d" | "r", name] = fields[..] else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap();
            assert!(
                table
                    .find_prefix(name)
                    .any(|s| s.mangled == name && s.offset == address),
                "{name} at {address:#x}"
            );
            compared += 1;
        }
        assert!(compared > 20, "only {compared} compared");
    }
}

#[test]
fn this_program_is_a_table_too() {
    let table = SymbolTable::load("/proc/self/exe").unwrap();
    assert_eq!(table.arch(), Arch::NATIVE);
    let me = table
        .iter()
        .find(|s| demangle(s.mangled).ends_with("libjvm::this_program_is_a_table_too"))
        .unwrap();
    assert!(me.size > 0);
    assert_eq!(table.lookup(me.offset + 1).unwrap().offset, me.offset);
}

#[test]
fn bad_files_are_refused_with_their_name() {
    let missing = SymbolTable::load("/nonexistent/libjvm.so").unwrap_err();
    assert!(matches!(missing, Error::Read { .. }));
    assert!(missing.to_string().contains("/nonexistent/libjvm.so"));

    let text = SymbolTable::load("/proc/self/maps").unwrap_err();
    assert!(matches!(text, Error::Elf { .. }));

    let program = std::fs::read("/proc/self/exe").unwrap();
    let mut other = program.clone();
    other[18] = 243; // EM_RISCV
    let refused = SymbolTable::from_bytes("other", other).unwrap_err();
    assert!(
        matches!(refused, Error::Machine { machine: 243, .. }),
        "{refused}"
    );

    let table = SymbolTable::from_bytes("me", program).unwrap();
    let outside = table.read(u64::MAX - 8, 64).unwrap_err();
    assert!(matches!(outside, Error::NotInFile { .. }));
    assert!(table.read(table.link_base(), u64::MAX).is_err());
}

#[test]
fn a_cut_or_damaged_file_never_panics() {
    let program = std::fs::read("/proc/self/exe").unwrap();
    let header = 64.min(program.len());
    for cut in [
        0,
        1,
        15,
        16,
        63,
        64,
        65,
        1000,
        program.len() / 2,
        program.len() - 1,
    ] {
        let _ = SymbolTable::from_bytes("cut", program[..cut].to_vec());
    }
    // Every bit of the ELF header and of the first program header, flipped one at a time, on a short copy.
    let short = &program[..program.len().min(1 << 20)];
    for byte in 0..header + 56 {
        for bit in 0..8 {
            let mut damaged = short.to_vec();
            damaged[byte] ^= 1 << bit;
            if let Ok(table) = SymbolTable::from_bytes("damaged", damaged) {
                let _ = table.lookup(0x1000);
                for (start, length) in table.text() {
                    let _ = table.read(start, length);
                }
            }
        }
    }
}
