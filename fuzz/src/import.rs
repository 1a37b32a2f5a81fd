//! The readers of `madang import markets`: a command has no library, so its files are compiled here once more.

pub mod markets;

use indicatif::ProgressBar;
use std::fmt::Arguments;

/// What the command would print.
pub(crate) fn print_above(_bar: &ProgressBar, _text: Arguments<'_>) {}
