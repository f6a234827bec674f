//! What of a finding an agent has to do, or why none can.

use walkfuzz_context::{Arch, Batch, Edit, Perturbation, ValueClass};
use walkfuzz_record::{Finding, OutcomeKind};

use crate::error::ExportError;

/// Function names above this length are not looked for in crash logs: a log cuts its lines.
const LONGEST_NAME: usize = 200;

/// A finding that can be exported.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) arch: Arch,
    pub(crate) perturbation: Perturbation,
    /// How many frames the walk asks for.
    pub(crate) depth: u16,
    /// The function in which the JVM dies, as it stands before the bracket in a crash log.
    pub(crate) function: String,
    /// `libjvm.so+0x1234`, for a libjvm without symbols.
    pub(crate) place: String,
    /// What a crash log's first lines must say: a signal, or `Internal Error` where the JVM itself found something wrong.
    pub(crate) headline: String,
}

impl Plan {
    /// Of a finding; `batch` is its artifact, which alone knows the depth.
    ///
    /// # Errors
    /// [`ExportError`], other than those of writing, if no agent can do what the finding's walk did.
    pub fn of(finding: &Finding, batch: Option<&Batch>) -> Result<Self, ExportError> {
        let id = || finding.id.clone();
        let not_a_fault = |what| ExportError::NotAFault { id: id(), what };
        match finding.outcome.kind {
            OutcomeKind::Fault => {}
            OutcomeKind::Wrote => {
                return Err(not_a_fault("the walk wrote silently and crashed nothing"));
            }
            OutcomeKind::ProcessDeath => {
                return Err(not_a_fault(
                    "the process died, and the walk that was to blame is not known for sure",
                ));
            }
            OutcomeKind::Hang => return Err(not_a_fault("the walk hung")),
            OutcomeKind::Frames
            | OutcomeKind::Error
            | OutcomeKind::WrongFrames
            | OutcomeKind::Breach => return Err(not_a_fault("the walk came back")),
        }
        if finding.walker.name != "agct" {
            return Err(ExportError::Walker {
                id: id(),
                walker: finding.walker.name.clone(),
            });
        }
        let arch = Arch::from_name(&finding.machine.arch).ok_or_else(|| ExportError::Arch {
            id: id(),
            arch: finding.machine.arch.clone(),
        })?;
        let perturbation = Perturbation::parse(arch, &finding.input.perturbation)
            .map_err(|source| ExportError::Edits { id: id(), source })?;
        if let Some(class) = classes(&perturbation).find(|class| *class == ValueClass::PollPage) {
            return Err(ExportError::Class {
                id: id(),
                class: class.name(),
            });
        }
        let site = finding
            .site
            .as_ref()
            .ok_or_else(|| not_a_fault("its fault's place is not known"))?;
        let function = site
            .function
            .as_deref()
            .map(before_arguments)
            .filter(|name| name.len() <= LONGEST_NAME)
            .unwrap_or_default();
        let place = match (&site.module, &site.offset) {
            (Some(module), Some(offset)) => format!("{module}+{offset}"),
            _ if function.is_empty() => {
                return Err(not_a_fault("its fault is in no known function"));
            }
            _ => String::new(),
        };
        let kind = finding.signature.split('|').next().unwrap_or_default();
        let headline = if kind.starts_with("SIG") {
            kind.to_owned()
        } else {
            "Internal Error".to_owned()
        };
        Ok(Self {
            arch,
            perturbation,
            depth: batch.map_or(walkfuzz_context::DepthLimit::default().frames(), |batch| {
                batch.depth.frames()
            }),
            function: function.to_owned(),
            place,
            headline,
        })
    }

    /// Where the JVM dies: a function, or a place in a library without symbols.
    #[must_use]
    pub fn site(&self) -> &str {
        if self.function.is_empty() {
            &self.place
        } else {
            &self.function
        }
    }

    /// Whether the agent needs a part of its template.
    pub(crate) fn needs(&self, part: &str) -> bool {
        part == self.arch.name()
            || (part == "near" && self.perturbation.edits().iter().any(has_neighbours))
            || classes(&self.perturbation).any(|class| class.name() == part)
    }
}

/// The value classes of the edits.
fn classes(perturbation: &Perturbation) -> impl Iterator<Item = ValueClass> {
    perturbation.edits().iter().filter_map(|edit| match edit {
        Edit::Set { value, .. } => Some(value.class),
        _ => None,
    })
}

/// Whether an edit has a number whose neighbours can be tried too.
fn has_neighbours(edit: &Edit) -> bool {
    match edit {
        Edit::Set { value, .. } => !value.class.is_computed(),
        Edit::Nudge { .. } | Edit::Alias { .. } | Edit::Flip { .. } => true,
        Edit::Swap { .. } | Edit::Sign { .. } => false,
    }
}

/// A function without what follows its name: `f(int) const` becomes `f`. An operator's brackets are part of its name.
fn before_arguments(function: &str) -> &str {
    let from = function
        .find("operator()")
        .map_or(0, |at| at + "operator()".len());
    let rest = function.get(from..).unwrap_or_default();
    let anonymous = "(anonymous namespace)";
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| rest.find('(')) {
        let bracket = at + found;
        if rest
            .get(bracket..)
            .is_some_and(|rest| rest.starts_with(anonymous))
        {
            at = bracket + anonymous.len();
        } else {
            return function.get(..from + bracket).unwrap_or(function);
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_before_their_arguments() {
        for (function, name) in [
            ("frame::sender(RegisterMap*) const", "frame::sender"),
            ("A::operator()(int)", "A::operator()"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("memcpy", "memcpy"),
        ] {
            assert_eq!(before_arguments(function), name);
        }
    }
}
