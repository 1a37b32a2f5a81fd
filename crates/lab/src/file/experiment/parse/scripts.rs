//! The scripts of an experiment and what the load generator knows of them: a metric that nobody makes is a typing
//! error, and better found before the first round than after the last.

use std::path::Path;

use super::super::reader::Mistakes;
use crate::{
    file::{outline::Outline, scripts},
    load::metric::LoadMetric,
};

/// The text of a script and of those it imports.
pub struct Scripts<'o> {
    text: String,
    /// What the load generator knows of them, once it has been asked.
    outline: Option<&'o Outline>,
}

impl<'o> Scripts<'o> {
    pub fn read(script: &Path) -> Self {
        let mut text = scripts::text_of(script).unwrap_or_default();
        // In the order of a set: two readings of the same files must be the same text.
        for other in scripts::named_by(script).scripts {
            text.push('\n');
            text += &scripts::text_of(&other).unwrap_or_default();
        }
        Self { text, outline: None }
    }

    /// What `into_text` gave.
    pub fn stored(text: &str, outline: Option<&'o Outline>) -> Self {
        Self { text: text.to_owned(), outline }
    }

    /// The script and those it imports, one after another.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Reports a metric that these scripts do not have, if the load generator has been asked.
    pub fn check(&self, metric: &LoadMetric, offset: usize, mistakes: &Mistakes<'_>) {
        if let Some(Err(why)) = self.outline.map(|outline| metric.check_outline(outline)) {
            mistakes.add(offset, why);
        }
    }
}
