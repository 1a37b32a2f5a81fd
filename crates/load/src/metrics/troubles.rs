//! Counts of error messages.

use std::collections::BTreeMap;

use super::recorder::OVERFLOW_NAME;

/// Error messages with their counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Troubles(BTreeMap<String, u64>);

/// Limit of different messages, which may contain numbers of the script.
const MAX_TROUBLES: usize = 50;
/// Longer messages are truncated.
const TROUBLE_CHARS: usize = 200;

impl Troubles {
    /// Adds the first line; the others are its place.
    pub(crate) fn add(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        let short: String = line.chars().take(TROUBLE_CHARS).collect();
        let is_known = self.0.contains_key(&short) || self.0.len() < MAX_TROUBLES;
        *self.0.entry(if is_known { short } else { OVERFLOW_NAME.to_owned() }).or_default() += 1;
    }

    /// Adds an exception with its place in the script.
    pub(crate) fn add_thrown(&mut self, text: &str) {
        self.add(&with_place(text));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (text, count) in &other.0 {
            *self.0.entry(text.clone()).or_default() += count;
        }
    }

    /// The most frequent messages, sorted by count.
    pub(crate) fn most(&self, limit: usize) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> =
            self.0.iter().map(|(text, count)| (text.clone(), *count)).collect();
        all.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        all.truncate(limit);
        all
    }
}

/// The first line and the place in a script, `script.js:3:9` of `at f (/dir/script.js:3:9)`.
fn with_place(text: &str) -> String {
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let place = lines.find_map(|line| {
        let place = line.rsplit_once('(').map_or(line, |(_, place)| place).strip_suffix(')')?;
        let file = place.rsplit('/').next()?;
        file.contains(':').then_some(file)
    });
    place.map_or_else(|| line.to_owned(), |place| format!("{line} ({place})"))
}
