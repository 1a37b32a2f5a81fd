//! Errors as one line, and numbers of things.

use std::error::Error;
use std::iter;

/// An error and its causes, as `cannot do this: no such file`.
pub(crate) fn chain(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// `1 block`, `2 blocks`; for nouns with a plural in `s`.
pub(crate) fn some(number: usize, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {one}{ending}")
}
