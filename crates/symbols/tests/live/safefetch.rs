//! SafeFetch of every JDK found: labels in the file, or fields of a running VM.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use walkfuzz_context::{Address, Arch, Pc};
use walkfuzz_symbols::safefetch::safefetch_in_code;
use walkfuzz_symbols::{Modules, SafeFetchSite, SymbolTable, instruction_at, safefetch_sites};

use crate::jdks;

/// A JVM of its own that stays until it is dropped: an RMI registry on a free port, which every runtime image has.
struct Jvm(Child);

impl Jvm {
    fn start(home: &Path) -> Jvm {
        let child = Command::new(home.join("bin/java"))
            .args([
                "-Xmx32m",
                "-XX:+UseSerialGC",
                "-m",
                "java.rmi/sun.rmi.registry.RegistryImpl",
                "0",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Jvm(child)
    }

    fn maps(&self) -> String {
        let mut text = String::new();
        let mut file = File::open(format!("/proc/{}/maps", self.0.id())).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let memory = File::open(format!("/proc/{}/mem", self.0.id())).ok()?;
        memory.read_exact_at(bytes, address).ok()
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_jdk_has_two_loads_that_may_fault() {
    for libjvm in jdks::libjvms() {
        let table = SymbolTable::load(&libjvm).unwrap();
        let jvm = Jvm::start(jdks::home(&libjvm));
        let deadline = Instant::now() + Duration::from_secs(60);
        let (sites, modules) = loop {
            let modules = Modules::parse(&jvm.maps());
            let sites = modules.by_name("libjvm.so").map(|module| {
                safefetch_sites(&table, module.base, |address| {
                    let mut word = [0; 8];
                    jvm.read(address, &mut word)
                        .map(|()| u64::from_le_bytes(word))
                })
            });
            match sites {
                Some(sites) if sites.len() == 2 => break (sites, modules),
                _ => assert!(Instant::now() < deadline, "{}: {sites:?}", libjvm.display()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let labelled = modules.find(Address(sites[0].fault_pc.0)).is_some();
        println!(
            "{}: in {}: {sites:x?}",
            libjvm.display(),
            if labelled { "libjvm" } else { "generated code" }
        );
        assert_eq!(sites[0].name, "SafeFetch32");
        assert_eq!(sites[1].name, "SafeFetchN");
        for site in &sites {
            // The instruction there is the load, and the bytes alone would have told.
            let mut code = [0; 16];
            jvm.read(site.fault_pc.0, &mut code).unwrap();
            let text = instruction_at(table.arch(), &code, site.fault_pc).unwrap();
            assert!(text.contains("(%rdi)") || text.contains("[x0]"), "{text}");
            assert!(
                safefetch_in_code(table.arch(), &code, site.fault_pc).contains(site),
                "{site:?} in {code:x?}"
            );
        }
    }
}

#[test]
fn a_libjvm_without_symbols_is_searched() {
    let mut searched = 0;
    for libjvm in jdks::libjvms() {
        let table = SymbolTable::load(&libjvm).unwrap();
        let Some(fault) = table.address_of("_SafeFetch32_fault") else {
            println!(
                "{}: generated stubs, nothing to search for in the file",
                libjvm.display()
            );
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let stripped = folder.path().join("libjvm.so");
        let strip = Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(&libjvm)
            .status();
        let Ok(status) = strip else {
            println!("skip: strip is not installed");
            return;
        };
        assert!(status.success());
        let bare = SymbolTable::load(&stripped).unwrap();
        assert!(bare.len() < table.len() / 10 && bare.address_of("AsyncGetCallTrace").is_some());
        let base = Address(0x7f00_0000_0000);
        let sites = safefetch_sites(&bare, base, |_| None);
        assert_eq!(
            sites,
            safefetch_sites(&table, base, |_| None),
            "{}",
            libjvm.display()
        );
        assert_eq!(sites[0].fault_pc, Pc(base.0 + fault));
        searched += 1;
    }
    println!("{searched} libraries searched");
}

#[test]
fn aarch64_loads_are_known_by_their_bytes() {
    let words = [
        0xd503_201f_u32,
        0xb940_0000,
        0xd65f_03c0,
        0xaa01_03e0,
        0xd65f_03c0,
    ];
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(
        safefetch_in_code(Arch::Aarch64, &code, Pc(0x1000)),
        [SafeFetchSite {
            name: "SafeFetch32",
            fault_pc: Pc(0x1004),
            continuation_pc: Pc(0x100c),
        }]
    );
    assert!(safefetch_in_code(Arch::Aarch64, &code[1..], Pc(0x1000)).is_empty());
}
