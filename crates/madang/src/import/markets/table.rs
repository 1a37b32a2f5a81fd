//! A CSV table with a header line, in the encodings of public data.

use super::facilities::facility;
use super::row::{Cells, LONGEST_CELL};
use anyhow::anyhow;
use encoding_rs::EUC_KR;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Maximum number of columns that are read.
const MOST_COLUMNS: usize = 256;

/// A CSV file as text, and the positions of its columns.
pub(super) struct Table {
    text: String,
    columns: HashMap<String, usize>,
    /// Columns that occur more than once.
    repeated: Vec<String>,
    width: usize,
}

impl Table {
    /// Reads the header. The encoding is UTF-8 if the first line is, else CP949 (in encoding_rs and on the web:
    /// EUC-KR).
    pub(super) fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
        let text = match std::str::from_utf8(first_line) {
            Ok(_) => String::from_utf8_lossy(bytes).into_owned(),
            Err(_) => EUC_KR.decode_without_bom_handling(bytes).0.into_owned(),
        };
        let mut header = csv::StringRecord::new();
        let read = reader(&text).read_record(&mut header)?;
        anyhow::ensure!(read, "is empty");
        if let Some(reason) = broken(&header) {
            anyhow::bail!("its header has {reason}");
        }
        let (mut columns, mut repeated) = (HashMap::new(), Vec::new());
        for (at, name) in header.iter().enumerate().take(MOST_COLUMNS) {
            match columns.entry(column(name)) {
                Entry::Vacant(entry) => {
                    entry.insert(at);
                }
                Entry::Occupied(entry) => repeated.push(entry.key().clone()),
            }
        }
        Ok(Self { columns, repeated, width: header.len(), text })
    }

    pub(super) fn is_of_facilities(&self) -> bool {
        !self.columns.contains_key("위도")
            && self.columns.keys().any(|name| facility(name).is_some())
    }

    /// Rejects a table that lacks one of these columns, or repeats a column that `is_read`.
    pub(super) fn require(
        &self,
        names: &[&str],
        is_read: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        if let Some(name) = self.repeated.iter().find(|name| is_read(name)) {
            anyhow::bail!("has more than one column {name}");
        }
        let missing: Vec<&str> =
            names.iter().copied().filter(|name| !self.columns.contains_key(*name)).collect();
        anyhow::ensure!(missing.is_empty(), "has no column {}", missing.join(", "));
        Ok(())
    }

    /// Columns by name, without spaces.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// Calls `row` with every row or its error, and the line.
    pub(super) fn each(&self, mut row: impl FnMut(u64, anyhow::Result<&dyn Cells>)) {
        let mut reader = reader(&self.text);
        let mut record = csv::StringRecord::new();
        // Cannot fail: the text is UTF-8, and any number of fields is accepted.
        let _header = reader.read_record(&mut record);
        while let Ok(true) = reader.read_record(&mut record) {
            let line = record.position().map_or(0, csv::Position::line);
            let longest = record.iter().map(str::len).max().unwrap_or(0);
            if let Some(reason) = broken(&record) {
                row(line, Err(anyhow!(reason)));
            } else if longest > LONGEST_CELL {
                row(line, Err(anyhow!("a field of {longest} bytes is too long")));
            } else if record.len() != self.width {
                row(line, Err(anyhow!("{} fields instead of {}", record.len(), self.width)));
            } else {
                row(line, Ok(&Row { columns: &self.columns, record: &record }));
            }
        }
    }
}

/// Error of a record of several lines. No valid value has line breaks, but an unclosed quote puts all rows up to the
/// next quote into one field, and they would be lost silently.
fn broken(record: &csv::StringRecord) -> Option<String> {
    if !record.iter().any(|field| field.contains(['\n', '\r'])) {
        return None;
    }
    let breaks: usize = record.iter().map(|field| field.matches('\n').count()).sum();
    let first = record.position().map_or(0, csv::Position::line);
    let last = first + breaks as u64;
    Some(format!("a line break in a field, lines {first} to {last} (unclosed quote?)"))
}

/// Name of a column without spaces, in which editions differ.
fn column(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect()
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes())
}

struct Row<'a> {
    columns: &'a HashMap<String, usize>,
    record: &'a csv::StringRecord,
}

impl Cells for Row<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.record.get(*self.columns.get(name)?)
    }
}
