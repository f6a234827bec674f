//! Finding and checking JDKs: good ones, bad ones, none.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use walkfuzz_context::Arch;
use walkfuzz_jvm::{Candidate, Jdk, JvmError, Places, Source, check, install, place_frames};

/// This program as a libjvm: an ELF file for this machine that exports nothing a JVM must.
fn own_elf() -> Vec<u8> {
    fs::read("/proc/self/exe").unwrap()
}

/// A folder that looks like a JDK.
fn fake_jdk(home: &Path, version: &str, libjvm: Option<&[u8]>) -> PathBuf {
    fs::create_dir_all(home.join("lib/server")).unwrap();
    fs::create_dir_all(home.join("bin")).unwrap();
    fs::write(home.join("bin/java"), "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(home.join("bin/java"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(
        home.join("release"),
        format!("JAVA_VERSION=\"{version}\"\n"),
    )
    .unwrap();
    if let Some(bytes) = libjvm {
        fs::write(home.join("lib/server/libjvm.so"), bytes).unwrap();
    }
    home.canonicalize().unwrap()
}

fn places(root: &Path) -> Places {
    Places {
        java_home: None,
        path: None,
        usual: vec![root.join("usual")],
        cache: root.join("cache"),
    }
}

fn exit_code_and_text(result: Result<Jdk, JvmError>) -> (u8, String) {
    let error = result.unwrap_err();
    (error.exit_code(), error.to_string())
}

/// The JDKs of this machine; prints a line if there are none.
fn real_jdks() -> Vec<Jdk> {
    let jdks: Vec<Jdk> = Places::from_env()
        .discover()
        .into_iter()
        .filter_map(|c| c.jdk.ok())
        .collect();
    if jdks.is_empty() {
        println!("skip: no JDK on this machine");
    }
    jdks
}

#[test]
fn no_jdk_at_all_is_an_error_that_says_where_and_how() {
    let root = tempfile::tempdir().unwrap();
    let (code, text) = exit_code_and_text(places(root.path()).choose(None));
    assert_eq!(code, 3);
    assert!(
        text.contains("JAVA_HOME, PATH") && text.contains("usual") && text.contains("cache/jdks"),
        "{text}"
    );
    assert!(
        text.ends_with("bring one with: walkfuzz jdk install 21"),
        "{text}"
    );
}

#[test]
fn a_java_home_that_is_none_is_never_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let mut places = places(root.path());
    // A usable JDK elsewhere does not help: whoever set JAVA_HOME meant it.
    places.path = real_jdks().first().map(|jdk| jdk.home.join("bin").into());
    for home in [
        root.path().to_owned(),
        root.path().join("missing"),
        "/etc/passwd".into(),
    ] {
        places.java_home = Some(home.clone());
        let (code, text) = exit_code_and_text(places.choose(None));
        assert_eq!(code, 3);
        assert!(
            text.starts_with(&format!(
                "JAVA_HOME is {}, which cannot be used: ",
                home.display()
            )),
            "{text}"
        );
    }
}

#[test]
fn candidates_come_in_order_once_each_and_newest_first() {
    let root = tempfile::tempdir().unwrap();
    let elf = own_elf();
    let home = fake_jdk(&root.path().join("home"), "21.0.8", Some(&elf));
    let on_path = fake_jdk(&root.path().join("on-path"), "17.0.1", Some(&elf));
    let old = fake_jdk(&root.path().join("usual/a-jdk"), "11.0.9", Some(&elf));
    let new = fake_jdk(&root.path().join("usual/b-jdk"), "11.0.13", Some(&elf));
    let cached = fake_jdk(&root.path().join("cache/jdks/25.0.2"), "25.0.2", Some(&elf));
    symlink(&old, root.path().join("usual/same-jdk")).unwrap();
    fs::create_dir_all(root.path().join("usual/no-jdk")).unwrap();
    fs::create_dir(root.path().join("bin")).unwrap();
    symlink(on_path.join("bin/java"), root.path().join("bin/java")).unwrap();

    let places = Places {
        java_home: Some(home.clone()),
        path: Some(
            std::env::join_paths([root.path().join("nothing"), root.path().join("bin")]).unwrap(),
        ),
        ..places(root.path())
    };
    let found: Vec<(PathBuf, Source)> = places
        .discover()
        .into_iter()
        .map(|Candidate { home, source, .. }| (home, source))
        .collect();
    let expected = [
        (home, Source::JavaHome),
        (on_path, Source::Path),
        (new, Source::UsualPlace),
        (old, Source::UsualPlace),
        (cached, Source::Cache),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_script_on_path_is_asked_for_its_home() {
    let Some(jdk) = real_jdks().into_iter().next() else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let shim = root.path().join("java");
    fs::write(
        &shim,
        format!("#!/bin/sh\nexec {}/bin/java \"$@\"\n", jdk.home.display()),
    )
    .unwrap();
    fs::set_permissions(&shim, PermissionsExt::from_mode(0o755)).unwrap();
    let found = Places {
        path: Some(root.path().into()),
        ..places(root.path())
    }
    .choose(None)
    .unwrap();
    assert_eq!((found.home, found.source), (jdk.home, Source::Path));
}

#[test]
fn versions_choose_among_what_is_there() {
    for jdk in real_jdks() {
        let root = tempfile::tempdir().unwrap();
        let places = Places {
            path: Some(jdk.home.join("bin").into()),
            ..places(root.path())
        };
        let feature = jdk.version.feature().to_string();
        assert_eq!(places.choose(Some(&feature)).unwrap().home, jdk.home);
        assert_eq!(
            places.choose(Some(&jdk.version.to_string())).unwrap().home,
            jdk.home
        );
        assert_eq!(
            places
                .choose(Some(jdk.home.to_str().unwrap()))
                .unwrap()
                .source,
            Source::Named
        );

        let (code, text) = exit_code_and_text(places.choose(Some("12")));
        assert!(
            code == 3 && text.contains(&format!("no JDK 12 among those found ({})", jdk.version)),
            "{text}"
        );
        let other = ["21.0.4", "21.0.8"]
            .into_iter()
            .find(|version| *version != jdk.version.to_string())
            .unwrap();
        let (_, text) = exit_code_and_text(places.choose(Some(other)));
        let remedy = format!("bring it with: walkfuzz jdk install {other}");
        assert!(text.ends_with(&remedy), "{text}");
        let (code, text) = exit_code_and_text(places.choose(Some("latest")));
        assert!(code == 2 && text.contains("\"latest\""), "{text}");
    }
}

#[test]
fn a_real_libjvm_passes() {
    let mut ids = HashSet::new();
    for jdk in real_jdks() {
        let facts = check::inspect(&jdk.libjvm).unwrap();
        assert_eq!(facts.arch, Arch::NATIVE);
        assert!(facts.identity.len() >= 32, "{jdk}");
        assert!(ids.insert(facts.identity), "{jdk} is taken for another");
        println!(
            "{jdk}: {}, build id {:?}, .symtab {}",
            jdk.identity, jdk.build_id, jdk.symtab
        );
    }
}

#[test]
fn a_libjvm_of_another_architecture_is_named_with_both() {
    let root = tempfile::tempdir().unwrap();
    let mut elf = own_elf();
    let (other, name): (u16, &str) = match Arch::NATIVE {
        Arch::X86_64 => (183, "aarch64"),
        Arch::Aarch64 => (62, "x86_64"),
    };
    // e_machine
    elf[18..20].copy_from_slice(&other.to_le_bytes());
    let home = fake_jdk(&root.path().join("jdk"), "17.0.9", Some(&elf));
    let (code, text) = exit_code_and_text(Jdk::at(&home, Source::Named));
    assert_eq!(code, 3);
    let native = Arch::NATIVE.name();
    assert!(
        text.ends_with(&format!(
            "is built for {name}, but a JDK for {native} is needed; bring one with: walkfuzz jdk install 21 --arch {native}"
        )),
        "{text}"
    );

    elf[18..20].copy_from_slice(&243u16.to_le_bytes());
    fs::write(home.join("lib/server/libjvm.so"), &elf).unwrap();
    assert!(
        exit_code_and_text(Jdk::at(&home, Source::Named))
            .1
            .contains("built for Riscv64")
    );
}

#[test]
fn a_libjvm_without_the_walker_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let home = fake_jdk(&root.path().join("jdk"), "17.0.9", Some(&own_elf()));
    let (code, text) = exit_code_and_text(Jdk::at(&home, Source::Named));
    assert_eq!(code, 3);
    assert!(
        text.contains("does not export JNI_CreateJavaVM, AsyncGetCallTrace,"),
        "{text}"
    );

    // A real libjvm in which only that one name is another.
    let Some(jdk) = real_jdks().into_iter().next() else {
        return;
    };
    let mut bytes = fs::read(&jdk.libjvm).unwrap();
    let (name, renamed) = (b"\0AsyncGetCallTrace\0", b"\0AsyncGetCallTracy\0");
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|&i| bytes[i..].starts_with(name))
        .collect();
    for place in places {
        bytes[place..place + name.len()].copy_from_slice(renamed);
    }
    fs::write(home.join("lib/server/libjvm.so"), bytes).unwrap();
    assert!(
        exit_code_and_text(Jdk::at(&home, Source::Named))
            .1
            .contains("does not export AsyncGetCallTrace:")
    );
}

#[test]
fn a_libjvm_that_is_no_library_is_refused() {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"#!/bin/sh\n"),
        ("cut", &own_elf()[..100]),
        ("zeros", &[0; 4096]),
    ] {
        let home = fake_jdk(&root.path().join(name), "17.0.9", Some(bytes));
        let (code, text) = exit_code_and_text(Jdk::at(&home, Source::Named));
        assert!(
            code == 3 && text.contains("libjvm.so is no usable ELF library"),
            "{name}: {text}"
        );
    }
    let home = fake_jdk(&root.path().join("none"), "17.0.9", None);
    assert!(
        exit_code_and_text(Jdk::at(&home, Source::Named))
            .1
            .ends_with("lib/server/libjvm.so is missing")
    );
    let home = fake_jdk(&root.path().join("old"), "1.8.0_402", None);
    assert!(
        exit_code_and_text(Jdk::at(&home, Source::Named))
            .1
            .ends_with("holds Java 1.8.0_402, but 11 or newer is needed")
    );
    fs::write(home.join("release"), "nothing").unwrap();
    assert!(
        exit_code_and_text(Jdk::at(&home, Source::Named))
            .1
            .contains("no readable JAVA_VERSION")
    );
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let root = tempfile::tempdir().unwrap();
    let mut places = places(root.path());
    // A file where the folder should be: even root cannot write there.
    fs::write(&places.cache, "").unwrap();
    let (code, text) =
        exit_code_and_text(install("17.0.9", &places).or_else(|_| install("21.0.8", &places)));
    assert!(
        code == 3 && text.starts_with(&format!("cannot write {}", places.jdks().display())),
        "{text}"
    );
    assert!(
        place_frames(&places.cache)
            .unwrap_err()
            .to_string()
            .starts_with("cannot write")
    );

    places.cache = "/proc/no-such-folder".into();
    let (_, text) = exit_code_and_text(install("21.0.8", &places));
    assert!(
        text.starts_with("cannot write /proc/no-such-folder/jdks"),
        "{text}"
    );
}

#[test]
fn what_the_catalogue_lacks_is_refused_with_what_it_has() {
    let root = tempfile::tempdir().unwrap();
    let (code, text) = exit_code_and_text(install("12.0.1", &places(root.path())));
    assert!(
        code == 3 && text.contains("12.0.1") && text.contains("21.0.8"),
        "{text}"
    );
    assert!(!root.path().join("cache").exists());
}

#[test]
fn the_workloads_jar_is_written_once() {
    let root = tempfile::tempdir().unwrap();
    let jar = place_frames(&root.path().join("new/folder")).unwrap();
    assert_eq!(fs::read(&jar).unwrap(), walkfuzz_jvm::FRAMES_JAR);
    let before = jar.metadata().unwrap().modified().unwrap();
    assert_eq!(place_frames(jar.parent().unwrap()).unwrap(), jar);
    assert_eq!(jar.metadata().unwrap().modified().unwrap(), before);
    // A torn copy is replaced.
    fs::write(&jar, "torn").unwrap();
    place_frames(jar.parent().unwrap()).unwrap();
    assert_eq!(fs::read(&jar).unwrap(), walkfuzz_jvm::FRAMES_JAR);
    assert_eq!(fs::read_dir(jar.parent().unwrap()).unwrap().count(), 1);
}
