//! Brings a JDK from the registry and installs it, twice at once.

use std::process::Command;
use std::thread;

use walkfuzz_jvm::{JvmError, Places, Source, install};

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
