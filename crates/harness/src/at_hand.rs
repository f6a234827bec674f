//! What must be set before somebody walks again with the walkers of a finding.

use walkfuzz_triage::Signature;

use crate::chosen::{NO_ORACLE, ORACLE, WALKER, WalkerChoice};

/// The variables that make a session walk with what a signature speaks of. A library stays what the environment says: its walker's name does not lead to it.
///
/// # Errors
/// The sentence that says which library must be set and is not.
pub fn walkers_of(signature: &str) -> Result<Vec<(&'static str, String)>, String> {
    let Ok(signature) = signature.parse::<Signature>() else {
        return Ok(Vec::new());
    };
    let mut variables = Vec::new();
    match WalkerChoice::from_name(&signature.walker) {
        Some(walker) => variables.push((WALKER, walker.name().to_owned())),
        None => is_at_hand(&signature.walker)?,
    }
    match signature.oracle() {
        None => variables.push((ORACLE, NO_ORACLE.to_owned())),
        Some(name) => match WalkerChoice::from_name(name) {
            Some(oracle) => variables.push((ORACLE, oracle.name().to_owned())),
            None => is_library_of(
                name,
                ORACLE,
                "the oracle that judged it is",
                std::env::var(ORACLE).ok(),
            )?,
        },
    }
    Ok(variables)
}

/// What must be set before somebody walks again with the walker of that name, if anything must: a library is not found by its walker's name.
///
/// # Errors
/// The sentence that says so.
pub fn is_at_hand(walker: &str) -> Result<(), String> {
    if WalkerChoice::from_name(walker).is_some() {
        return Ok(());
    }
    let set = std::env::var(WALKER).ok();
    is_library_of(walker, WALKER, "it was found with the walker", set)
}

/// Whether a variable is `set` to a library whose walker has that name.
fn is_library_of(
    name: &str,
    variable: &str,
    role: &str,
    set: Option<String>,
) -> Result<(), String> {
    let set = WalkerChoice::from_name(&set.unwrap_or_default());
    let named = set.map_or(Ok(None), WalkerChoice::named_library);
    let Some((own, _)) = named.map_err(|error| error.to_string())? else {
        return Err(format!(
            "{role} {name}, which is none of walkfuzz's own: set {variable} to the path of its library"
        ));
    };
    if own == name {
        return Ok(());
    }
    Err(format!(
        "{role} {name}, and {variable} is the library of {own}: set it to the path of {name}'s"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_not_found_by_its_walkers_name() {
        assert_eq!(is_at_hand("agct"), Ok(()));
        let said = is_at_hand("mine").unwrap_err();
        assert!(
            said.contains("the walker mine") && said.contains("WALKFUZZ_WALKER"),
            "{said}"
        );
    }

    #[test]
    fn a_signature_says_who_walks_and_who_judges() {
        let set = |signature: &str| {
            walkers_of(signature)
                .unwrap()
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let wrong = "wrong-frames|other bci at frame 0|agct|a return address taken for an instruction, reference disagrees";
        assert_eq!(set(wrong), "WALKFUZZ_WALKER=agct WALKFUZZ_ORACLE=reference");
        assert_eq!(
            set("wrong-frames|missing frame at frame 0|reference|agct disagrees"),
            "WALKFUZZ_WALKER=reference WALKFUZZ_ORACLE=agct"
        );
        assert_eq!(
            set("SIGSEGV|frame::sender|agct"),
            "WALKFUZZ_WALKER=agct WALKFUZZ_ORACLE=none"
        );
        assert_eq!(set("no signature"), "");
        let refused = |signature: &str| walkers_of(signature).unwrap_err();
        let said = refused("SIGSEGV|frame::sender|mine");
        assert!(said.contains("the walker mine") && said.contains("set WALKFUZZ_WALKER to"));
        let said = refused("wrong-frames|missing frame at frame 0|agct|mine disagrees");
        assert!(said.contains("judged it is mine") && said.contains("set WALKFUZZ_ORACLE to"));
    }
}
