//! Why an export may not crash where the finding did: what a stock JVM does with such a fault, or what a new process does not have.

use walkfuzz_context::{Edit, ValueClass};
use walkfuzz_record::finding::Portability;
use walkfuzz_record::{Finding, KOfN};

use crate::plan::Plan;

/// Sentences; none where nothing speaks against it.
pub(crate) fn doubts(finding: &Finding, plan: &Plan) -> Vec<String> {
    let mut doubts = Vec::new();
    let in_zone = plan.perturbation.edits().iter().any(|edit| match edit {
        Edit::Set { value, .. } => {
            matches!(
                value.class,
                ValueClass::YellowZone | ValueClass::ReservedZone
            )
        }
        _ => false,
    });
    if in_zone {
        doubts.push(
            "HotSpot takes a fault in the walked thread's own yellow or reserved zone for a stack overflow of its Java code: it throws \
             StackOverflowError, and nothing crashes. The agent uses other threads' zones, which a walk may refuse to read."
                .to_owned(),
        );
    }
    if plan.headline == "Internal Error" && finding.signature.contains("find_blob") {
        doubts.push(
            "The JVM must hold code at the walked pc that was thrown away and not freed yet (a zombie). The workload here seldom has any."
                .to_owned(),
        );
    }
    match finding.reliability.portability {
        Some(Portability { k: 0, of, .. }) if of > 0 => doubts.push(format!(
            "With the finding's own numbers it happened at none of {of} other moments of the same run: it needs words of memory that a \
             new process may not have."
        )),
        _ => {}
    }
    if finding
        .reliability
        .frozen
        .is_some_and(|KOfN { k, .. }| k == 0)
    {
        doubts.push(
            "It did not even happen again at the same moment: another thread had a part in it."
                .to_owned(),
        );
    }
    if finding.tainted {
        doubts.push(
            "The process in which it was found had recovered from faults before. What those walks left behind may be needed.".to_owned(),
        );
    }
    doubts
}
