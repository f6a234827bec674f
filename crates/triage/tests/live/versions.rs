//! The order of JDK versions.

use proptest::prelude::*;
use walkfuzz_triage::JdkVersion;

fn version(text: &str) -> JdkVersion {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn order() {
    let ascending = [
        "1.8.0_392-b08",
        "8u402",
        "9",
        "11.0.9",
        "11.0.13",
        "11.0.21",
        "17-ea",
        "17",
        "17.0.7+7",
        "17.0.9",
        "17.0.9+9",
        "17.0.9.1",
        "21",
        "21.0.1",
        "21.0.8+9-LTS",
        "22-ea+3",
        "22",
        "25.0.2+10-LTS",
        "26-internal",
    ];
    for pair in ascending.windows(2) {
        assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
    }
}

#[test]
fn parts() {
    assert_eq!(version("17.0.0"), version("17"));
    assert_eq!(version("1.8.0_392-b08").numbers(), [8, 0, 392]);
    assert_eq!(version("1.8.0_392-b08"), version("8u392-b08"));
    assert_eq!(version("17.0.15+6-Debian-1deb12u1").build(), Some(6));
    assert_eq!(
        (
            version("22-ea+3").line(),
            version("22-ea+3").is_early_access()
        ),
        (22, true)
    );
    assert_eq!(version("25.0.2+10-LTS").to_string(), "25.0.2+10");
    for wrong in [
        "",
        "x",
        "17..1",
        "17.0.99999999999",
        ".17",
        "2.2.3.4.5.6.7.8.9",
    ] {
        assert_eq!(
            wrong.parse::<JdkVersion>().unwrap_err().to_string(),
            format!("`{wrong}` is not a JDK version such as 17.0.9+9, 22-ea or 8u392")
        );
    }
}

proptest! {
    #[test]
    fn text_round_trips(numbers in proptest::collection::vec(0u32..1000, 1..5), ea: bool, build in proptest::option::of(0u32..100)) {
        let mut text = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        prop_assume!(!text.starts_with("1."));
        if ea { text.push_str("-ea"); }
        if let Some(build) = build { text.push_str(&format!("+{build}")); }
        let version = version(&text);
        prop_assert_eq!(version.to_string().parse::<JdkVersion>().unwrap(), version);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,30}") {
        let _ = text.parse::<JdkVersion>();
    }
}
