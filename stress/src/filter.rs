//! Filter expressions over cells: `jdk=17 & !workload~spark`, `(collector=z | collector=g1) & mode=guarded`.
//!
//! | term | holds if |
//! |---|---|
//! | `AXIS=VALUE` | the cell's value is VALUE; for `jdk` also if it is a release of that line (`jdk=17`) |
//! | `AXIS~TEXT` | the cell's value contains TEXT |
//! | `AXIS<VALUE` | `jdk` only: the version is older |
//! | `!`, `&`, `\|`, `( )` | not, and, or, in this order |

use std::iter::Peekable;
use std::str::CharIndices;

use walkfuzz_triage::JdkVersion;

use crate::cell::{Cell, Dimension};

/// An expression, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Expression);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expression {
    Everything,
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Is(Dimension, String),
    Contains(Dimension, String),
    Before(JdkVersion),
}

/// What is wrong with an expression.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter `{text}` is wrong at character {}: {what}", .at + 1)]
pub struct FilterError {
    text: String,
    at: usize,
    what: String,
}

impl Filter {
    /// Matches every cell.
    #[must_use]
    pub fn everything() -> Self {
        Self(Expression::Everything)
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// The place and what was expected there.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser {
            text,
            rest: text.char_indices().peekable(),
        };
        let expression = parser.any()?;
        parser.blanks();
        match parser.rest.peek() {
            None => Ok(Self(expression)),
            Some(_) => Err(parser.wrong("expected &, | or the end")),
        }
    }

    /// Whether the cell is wanted.
    #[must_use]
    pub fn matches(&self, cell: &Cell) -> bool {
        self.0.holds(cell)
    }

    /// Both have to match.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        Filter(Expression::And(Box::new(self.0), Box::new(other.0)))
    }
}

impl Expression {
    fn holds(&self, cell: &Cell) -> bool {
        match self {
            Expression::Everything => true,
            Expression::Not(inner) => !inner.holds(cell),
            Expression::And(a, b) => a.holds(cell) && b.holds(cell),
            Expression::Or(a, b) => a.holds(cell) || b.holds(cell),
            Expression::Is(Dimension::Jdk, wanted) => is_release(&cell.jdk, wanted),
            Expression::Is(Dimension::Antagonists, wanted) => {
                cell.antagonists == *wanted || cell.antagonists().any(|name| name == wanted)
            }
            Expression::Is(dimension, wanted) => cell.get(*dimension) == wanted,
            Expression::Contains(dimension, text) => cell.get(*dimension).contains(text.as_str()),
            Expression::Before(version) => cell
                .jdk
                .parse::<JdkVersion>()
                .is_ok_and(|jdk| jdk < *version),
        }
    }
}

/// Whether `version` is `wanted`, or one of its line: 17.0.15 is a 17.
pub(crate) fn is_release(version: &str, wanted: &str) -> bool {
    let longer = version.strip_prefix(wanted);
    longer.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-', '_']))
}

struct Parser<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.all()?;
        while self.takes('|') {
            left = Expression::Or(Box::new(left), Box::new(self.all()?));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.one()?;
        while self.takes('&') {
            left = Expression::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Expression, FilterError> {
        if self.takes('!') {
            return Ok(Expression::Not(Box::new(self.one()?)));
        }
        if self.takes('(') {
            let inner = self.any()?;
            return if self.takes(')') {
                Ok(inner)
            } else {
                Err(self.wrong("a ) is missing"))
            };
        }
        self.term()
    }

    fn term(&mut self) -> Result<Expression, FilterError> {
        self.blanks();
        let axes = || {
            Dimension::ALL
                .iter()
                .map(|d| d.name())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let start = self.place();
        let name = self.word();
        let dimension = Dimension::from_name(&name)
            .ok_or_else(|| self.wrong_at(start, format!("expected one of {}", axes())))?;
        self.blanks();
        let operator = self.rest.next().map(|(_, c)| c);
        self.blanks();
        let start = self.place();
        let value = self.word();
        if value.is_empty() {
            return Err(self.wrong_at(start, "expected a value"));
        }
        match (operator, dimension) {
            (Some('='), _) => Ok(Expression::Is(dimension, value)),
            (Some('~'), _) => Ok(Expression::Contains(dimension, value)),
            (Some('<'), Dimension::Jdk) => value
                .parse()
                .map(Expression::Before)
                .map_err(|_| self.wrong_at(start, "expected a JDK's version")),
            _ => Err(self.wrong_at(start, "expected =, ~ or (for jdk) < before the value")),
        }
    }

    /// A value goes on to the next blank, operator or bracket.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&(_, c)) = self.rest.peek() {
            if c.is_whitespace() || "=~<&|!()".contains(c) {
                break;
            }
            word.push(c);
            self.rest.next();
        }
        word
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.blanks();
        self.rest.next_if(|&(_, c)| c == wanted).is_some()
    }

    fn blanks(&mut self) {
        while self.rest.next_if(|&(_, c)| c.is_whitespace()).is_some() {}
    }

    fn place(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |&(at, _)| at)
    }

    fn wrong(&mut self, what: &str) -> FilterError {
        let at = self.place();
        self.wrong_at(at, what)
    }

    fn wrong_at(&self, at: usize, what: impl Into<String>) -> FilterError {
        FilterError {
            text: self.text.to_owned(),
            at,
            what: what.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::tests::cell;

    fn matches(filter: &str) -> bool {
        Filter::parse(filter).unwrap().matches(&cell(
            "17.0.15 g1 default agct guarded spark-sql deopt+classes timer 100us",
        ))
    }

    #[test]
    fn terms_and_their_order() {
        for filter in [
            "jdk=17",
            "jdk=17.0.15",
            "jdk<21",
            "workload~spark",
            "antagonists=deopt",
            "antagonists=deopt+classes",
            "!collector=z & mode=guarded",
            "collector=z | collector=g1 & jdk=17",
            "(collector=z|collector=g1)&!(jdk=11)",
        ] {
            assert!(matches(filter), "{filter}");
        }
        for filter in [
            "jdk=1",
            "jdk=11",
            "jdk<17.0.15",
            "workload=spark",
            "antagonists=none",
            "!jdk=17",
            "(collector=z | collector=g1) & jdk=21",
        ] {
            assert!(!matches(filter), "{filter}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let message = |text: &str| Filter::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("gc=z"),
            "the filter `gc=z` is wrong at character 1: expected one of jdk, collector, flags, walker, mode, workload, \
             antagonists, clock, interval"
        );
        assert_eq!(
            message("jdk=17 & (mode=bare"),
            "the filter `jdk=17 & (mode=bare` is wrong at character 20: a ) is missing"
        );
        assert!(message("jdk=").ends_with("character 5: expected a value"));
        assert!(message("jdk=17 mode=bare").contains("expected &, | or the end"));
        assert!(message("mode<bare").contains("expected =, ~"));
        assert!(message("").contains("expected one of"));
        assert!(message("é=1").contains("character 1"));
    }
}
