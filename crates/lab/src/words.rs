//! Errors as one line.

use std::{error::Error, iter};

/// An error and its causes, as `cannot do this: no such file`.
pub fn chain(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
