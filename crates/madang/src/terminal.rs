//! Output: progress bars, results, messages.

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

/// A progress bar on stderr, drawn only on a terminal. `count` is a template of `indicatif`, such as `{pos}/{len}`.
pub(crate) fn bar(steps: u64, count: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    bar.set_style(
        ProgressStyle::with_template(&format!("{{bar:30}} {count} {{wide_msg}}"))
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Writes to stdout. A closed pipe is no error: its reader needs no more.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr, which may be closed: exit code and results show the outcome, too.
pub(crate) fn message(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
