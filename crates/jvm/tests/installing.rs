//! Brings a JDK from the registry and installs it, twice at once.

use std::process::Command;
use std::thread;

use walkfuzz_context::Arch;
use walkfuzz_jvm::{JvmError, Places, Source, install, install_for};

#[test]
fn two_installations_at_once_bring_one_jdk_that_runs() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let places = Places {
        cache: root.path().join("cache"),
        ..Places::default()
    };
    let results = thread::scope(|scope| {
        [(); 2]
            .map(|()| scope.spawn(|| install("21.0.8", &places)))
            .map(|thread| thread.join())
    });
    for result in results {
        let jdk = match result.expect("no panic") {
            Ok(jdk) => jdk,
            Err(e @ (JvmError::NoPip { .. } | JvmError::PipFailed { .. })) => {
                println!("skip: {e}");
                return;
            }
            Err(e) => panic!("{e}"),
        };
        assert_eq!(
            (jdk.source, jdk.version.to_string().as_str()),
            (Source::Cache, "21.0.8")
        );
        let home = root
            .path()
            .canonicalize()
            .expect("it exists")
            .join("cache/jdks/21.0.8");
        assert_eq!(jdk.home, home);
        let java = Command::new(home.join("bin/java"))
            .arg("-version")
            .output()
            .expect("java is executable");
        assert!(java.status.success(), "{java:?}");
    }
    let found = places
        .choose(Some("21"))
        .expect("what was installed is found");
    assert_eq!(found.source, Source::Cache);
    let left = std::fs::read_dir(places.jdks())
        .expect("it exists")
        .flatten();
    let names: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with(".install"))
        .collect();
    assert!(names.is_empty(), "{names:?}");

    // What is there is not brought again, and what is broken is replaced.
    install("21.0.8.2", &places).expect("it is there");
    std::fs::remove_file(found.libjvm).expect("it exists");
    match install("21", &places) {
        Ok(jdk) => assert!(jdk.libjvm.is_file()),
        Err(e) => panic!("{e}"),
    }
}

/// Debian's package, unpacked without root on any machine, becomes a JDK of its own; the installed one is found again.
#[test]
fn a_jdk_for_aarch64_is_brought_from_debian() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let places = Places {
        cache: root.path().to_owned(),
        ..Places::default()
    };
    let jdk = match install_for("17", Arch::Aarch64, &places) {
        Ok(jdk) => jdk,
        Err(e @ (JvmError::NoDebian { .. } | JvmError::AptFailed { .. })) => {
            println!("skip: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    assert_eq!(
        (jdk.arch, jdk.version.to_string().as_str(), jdk.symtab),
        (Arch::Aarch64, "17.0.19", true)
    );
    assert!(jdk.home.ends_with("jdks/aarch64/17.0.19"), "{jdk}");
    // What the package keeps in the machine's folders, and what another package has, came along.
    for file in ["conf/security/java.security", "lib/libz.so.1"] {
        let kind = jdk.home.join(file).symlink_metadata().expect(file);
        assert!(kind.is_file(), "{file}");
    }
    let again = install_for("17.0.19", Arch::Aarch64, &places).expect("it is there");
    assert_eq!(again, jdk);
    let error = install_for("11", Arch::Aarch64, &places).expect_err("there is none");
    assert!(
        error
            .to_string()
            .ends_with("the catalogue has 17.0.19, 21.0.4, 21.0.8, 25.0.2"),
        "{error}"
    );
}
