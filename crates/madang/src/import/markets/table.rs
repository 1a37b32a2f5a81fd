//! A table with a header line, in the encodings that public data come in.

use super::facilities::facility;
use super::row::{Cells, LONGEST_CELL};
use anyhow::anyhow;
use encoding_rs::EUC_KR;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Columns that are looked at.
const MOST_COLUMNS: usize = 256;

/// A CSV file as text, and where its columns are.
pub(super) struct Table {
    text: String,
    columns: HashMap<String, usize>,
    /// Those that are there more than once.
    repeated: Vec<String>,
    width: usize,
}

impl Table {
    /// Reads the header. A file whose first line is UTF-8 is, another one is CP949 (which encoding_rs calls
    /// EUC-KR, as the web does).
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
                Entry::Vacant(place) => {
                    place.insert(at);
                }
                Entry::Occupied(there) => repeated.push(there.key().clone()),
            }
        }
        Ok(Self { columns, repeated, width: header.len(), text })
    }

    pub(super) fn is_of_facilities(&self) -> bool {
        !self.columns.contains_key("위도")
            && self.columns.keys().any(|name| facility(name).is_some())
    }

    /// Refuses a table without these columns, and one that has a column of those that are read (`is_read`)
    /// more than once: nobody could say which of the two is meant.
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

    /// Hands every row with its line to `row`, or why it is none.
    pub(super) fn each(&self, mut row: impl FnMut(u64, anyhow::Result<&dyn Cells>)) {
        let mut reader = reader(&self.text);
        let mut record = csv::StringRecord::new();
        // Text is UTF-8 by now, and lengths are free, so reading cannot fail; were it to, the rest is none.
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

/// What is wrong with a record that goes over several lines. No value of the data does, but all rows
/// behind a quote that is not closed are in one field, up to the next quote: they would be lost unsaid.
fn broken(record: &csv::StringRecord) -> Option<String> {
    if !record.iter().any(|field| field.contains(['\n', '\r'])) {
        return None;
    }
    let breaks: usize = record.iter().map(|field| field.matches('\n').count()).sum();
    let first = record.position().map_or(0, csv::Position::line);
    let last = first + breaks as u64;
    Some(format!("a line break in a field, lines {first} to {last} (unclosed quote?)"))
}

/// The name of a column: editions differ in spaces.
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
