//! What went wrong in a run, as texts with counts.

use std::collections::BTreeMap;

use super::recorder::OVERFLOW_NAME;

/// What went wrong, by what was said, and how often.
#[derive(Debug, Clone, Default)]
pub(crate) struct Troubles(BTreeMap<String, u64>);

/// So many different ones are kept apart: texts may have numbers of the script's in them.
const MAX_TROUBLES: usize = 50;
/// Longer ones are cut.
const TROUBLE_CHARS: usize = 200;

impl Troubles {
    /// Only the first line is the message, the others are its place.
    pub(crate) fn add(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        let short: String = line.chars().take(TROUBLE_CHARS).collect();
        let is_known = self.0.contains_key(&short) || self.0.len() < MAX_TROUBLES;
        *self.0.entry(if is_known { short } else { OVERFLOW_NAME.to_owned() }).or_default() += 1;
    }

    /// The same with the place in a script, for what was thrown.
    pub(crate) fn add_thrown(&mut self, text: &str) {
        self.add(&with_place(text));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (text, count) in &other.0 {
            *self.0.entry(text.clone()).or_default() += count;
        }
    }

    /// The most frequent first.
    pub(crate) fn most(&self, limit: usize) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> =
            self.0.iter().map(|(text, count)| (text.clone(), *count)).collect();
        all.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        all.truncate(limit);
        all
    }
}

/// The first line of what was thrown, and the place in a script: of `at f (/dir/script.js:3:9)`, the last part.
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
