//! Which metrics a script makes, as far as its text tells: a name nobody makes is a typing error,
//! and better found before the first round than after the last.

use std::path::Path;

use super::{super::reader::Mistakes, quoted};
use crate::{load_metric::LoadMetric, outline::Outline, script_files};

const CONSTRUCTORS: [&str; 4] = ["Counter", "Gauge", "Rate", "Trend"];

/// The text of a script and of those it imports.
pub struct Scripts<'o> {
    text: String,
    /// What the load generator knows of them, once it has been asked.
    outline: Option<&'o Outline>,
}

impl<'o> Scripts<'o> {
    pub fn read(script: &Path) -> Self {
        let mut text = script_files::text_of(script).unwrap_or_default();
        // In the order of a set: two readings of the same files must be the same text.
        for other in script_files::named_by(script).scripts {
            text.push('\n');
            text += &script_files::text_of(&other).unwrap_or_default();
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

    /// Reports a metric that neither every run nor these scripts have.
    pub fn check(&self, metric: &LoadMetric, offset: usize, mistakes: &Mistakes<'_>) {
        if metric.is_built_in() || self.has(metric.name()) {
            if metric.has_tags() && !metric.is_named_in(&self.text) {
                mistakes.add(offset, metric.nothing_makes_it());
            } else if let Some(Err(why)) = self.outline.map(|outline| metric.check_outline(outline))
            {
                mistakes.add(offset, why);
            }
            return;
        }
        let own = self.made();
        let own = if own.is_empty() { "none".to_owned() } else { quoted(&own) };
        let built_in: Vec<&str> = LoadMetric::built_in().collect();
        let message = format!(
            "no metric `{}`: the script makes {own}; every run has {}",
            metric.name(),
            quoted(&built_in)
        );
        mistakes.add(offset, message);
    }

    /// Whether the name stands anywhere as a string: it may be made in ways `made` cannot see.
    fn has(&self, name: &str) -> bool {
        ['\'', '"', '`'].iter().any(|quote| self.text.contains(&format!("{quote}{name}{quote}")))
    }

    /// The names in `new Counter('name')` and the like.
    fn made(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (at, _) in self.text.match_indices("new ") {
            let rest = &self.text[at + 4..];
            let call = CONSTRUCTORS.iter().find_map(|name| rest.strip_prefix(name));
            let Some(argument) = call.and_then(|rest| rest.trim_start().strip_prefix('(')) else {
                continue;
            };
            let mut parts = argument.trim_start().splitn(3, ['\'', '"', '`']);
            if let (Some(""), Some(name)) = (parts.next(), parts.next()) {
                names.push(name.chars().take(64).collect());
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn metrics_are_found_where_a_script_makes_them() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script.js");
        const SCRIPT: &str = "import './shared.js'; const a = new Counter('created'); \
                              new Trend( \"t\", true); new Map()";
        fs::write(&script, SCRIPT).unwrap();
        fs::write(dir.path().join("shared.js"), "export const r = new Rate(`shared`);").unwrap();
        // As a server may stand beside the script of its load.
        fs::write(dir.path().join("server.js"), "new Rate('elsewhere')").unwrap();
        let scripts = Scripts::read(&script);
        assert_eq!(scripts.made(), ["created", "shared", "t"]);
        assert!(scripts.has("shared") && !scripts.has("elsewhere") && !scripts.has("creat"));
    }
}
