//! A table with a header line, in the encodings that public data come in.

use super::facilities::facility;
use super::row::{Cells, LONGEST_CELL};
use encoding_rs::EUC_KR;
use std::collections::HashMap;

/// A CSV file as text, and where its columns are.
pub(super) struct Table {
    text: String,
    columns: HashMap<String, usize>,
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
        let mut columns = HashMap::new();
        for (at, name) in header.iter().enumerate().take(256) {
            columns.entry(column(name)).or_insert(at);
        }
        Ok(Self { columns, width: header.len(), text })
    }

    /// Whether it says which facilities markets have.
    pub(super) fn is_of_facilities(&self) -> bool {
        !self.columns.contains_key("위도")
            && self.columns.keys().any(|name| facility(name).is_some())
    }

    /// Refuses a table without these columns.
    pub(super) fn require(&self, names: &[&str]) -> anyhow::Result<()> {
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
    pub(super) fn each(&self, mut row: impl FnMut(u64, Result<&dyn Cells, String>)) {
        let mut reader = reader(&self.text);
        let mut record = csv::StringRecord::new();
        // Text is UTF-8 by now, and lengths are free, so reading cannot fail; were it to, the rest is none.
        let _header = reader.read_record(&mut record);
        while let Ok(true) = reader.read_record(&mut record) {
            let line = record.position().map_or(0, csv::Position::line);
            let longest = record.iter().map(str::len).max().unwrap_or(0);
            if longest > LONGEST_CELL {
                row(line, Err(format!("a field of {longest} bytes (a quote that is not closed?)")));
            } else if record.len() != self.width {
                row(line, Err(format!("{} fields instead of {}", record.len(), self.width)));
            } else {
                row(line, Ok(&Row { columns: &self.columns, record: &record }));
            }
        }
    }
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
