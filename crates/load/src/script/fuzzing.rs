//! Fuzz targets for private parts of this module.

use super::modules::{files, json_path};
use super::syntax::{self, Language, Syntax};

pub(crate) fn json_path(text: &str) {
    if let Ok(steps) = json_path::parse(text) {
        assert!(!steps.is_empty());
    }
}

/// A file of comma-separated values.
pub(crate) fn csv(text: &str) {
    if let Ok(records) = files::records(text, ',') {
        let bytes: usize = records.iter().flatten().map(String::len).sum();
        assert!(bytes <= text.len() && records.iter().all(|record| !record.is_empty()));
    }
}

pub(crate) fn read(text: &str, language: Language) -> Option<Syntax> {
    syntax::read(text.to_owned(), language, "script").ok().map(|(syntax, _)| syntax)
}
