//! The bar of commands that take long, drawn on stderr and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar with so many steps; `count` is how many are done, in the template language of `indicatif`.
pub fn bar(steps: u64, count: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    bar.set_style(
        ProgressStyle::with_template(&format!("{{bar:30}} {count} {{wide_msg}}"))
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
