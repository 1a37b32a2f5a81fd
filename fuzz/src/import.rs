//! The readers of `madang import markets`: a command has no library, so its files are compiled here once more.

pub mod markets;

use indicatif::ProgressBar;
use std::fmt::Arguments;

/// Discards the messages of the command.
pub(crate) fn print_above(_bar: &ProgressBar, _text: Arguments<'_>) {}
