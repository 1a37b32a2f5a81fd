//! The standard data as JSON: `{"fields": […], "records": [{…}, …]}`, read record by record.

use super::row::{Cells, LONGEST_CELL};
use anyhow::bail;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Calls `row` with every record, and its number from 1 instead of a line.
///
/// # Errors
/// When the bytes are not JSON or contain no records; `row` was called for those before the error.
pub(super) fn read(
    bytes: &[u8],
    row: impl FnMut(u64, anyhow::Result<&dyn Cells>),
) -> anyhow::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let found = reader.deserialize_map(File(row))?;
    anyhow::ensure!(found, "has no records");
    reader.end()?;
    Ok(())
}

struct File<F>(F);

impl<'de, F: FnMut(u64, anyhow::Result<&dyn Cells>)> Visitor<'de> for File<F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with records")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<bool, M::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "records" && !found {
                found = true;
                map.next_value_seed(Records(&mut self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct Records<'f, F>(&'f mut F);

impl<'de, F: FnMut(u64, anyhow::Result<&dyn Cells>)> DeserializeSeed<'de> for Records<'_, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(u64, anyhow::Result<&dyn Cells>)> Visitor<'de> for Records<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
        let mut number = 0;
        while let Some(record) = seq.next_element::<Value>()? {
            number += 1;
            match Record::read(record) {
                Ok(record) => (self.0)(number, Ok(&record)),
                Err(reason) => (self.0)(number, Err(reason)),
            }
            if number > u64::from(u32::MAX) {
                return Err(S::Error::custom("too many records"));
            }
        }
        Ok(())
    }
}

/// Strings and numbers of a record by name.
struct Record(HashMap<String, String>);

impl Record {
    fn read(value: Value) -> anyhow::Result<Self> {
        let Value::Object(members) = value else { bail!("is not an object") };
        let mut cells = HashMap::with_capacity(members.len());
        for (name, value) in members {
            let text = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if text.len() > LONGEST_CELL {
                bail!("a field of {} bytes is too long", text.len());
            }
            cells.insert(name, text);
        }
        Ok(Self(cells))
    }
}

impl Cells for Record {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
