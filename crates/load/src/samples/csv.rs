//! k6's CSV (`internal/output/csv`): a column for each system tag, and one for all other tags.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::Batch;
use crate::log::{rfc_3339, rfc_3339_nano};
use crate::metrics::{Registry, SystemTags};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TimeFormat {
    #[default]
    Unix,
    UnixMilli,
    UnixMicro,
    UnixNano,
    Rfc3339,
    Rfc3339Nano,
}

impl TimeFormat {
    /// Parses k6's name in any case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "unix" => Some(Self::Unix),
            "unix_milli" => Some(Self::UnixMilli),
            "unix_micro" => Some(Self::UnixMicro),
            "unix_nano" => Some(Self::UnixNano),
            "rfc3339" => Some(Self::Rfc3339),
            "rfc3339_nano" => Some(Self::Rfc3339Nano),
            _ => None,
        }
    }

    fn write(self, time: std::time::SystemTime) -> String {
        let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Unix => since.as_secs().to_string(),
            Self::UnixMilli => since.as_millis().to_string(),
            Self::UnixMicro => since.as_micros().to_string(),
            Self::UnixNano => since.as_nanos().to_string(),
            Self::Rfc3339 => rfc_3339(time),
            Self::Rfc3339Nano => rfc_3339_nano(time),
        }
    }
}

#[derive(Debug)]
pub(super) struct Csv {
    time_format: TimeFormat,
    columns: Vec<&'static str>,
}

impl Csv {
    pub(super) fn new(time_format: TimeFormat, tags: SystemTags) -> Self {
        Self { time_format, columns: tags.columns() }
    }

    pub(super) fn write_header(&self, to: &mut impl Write) -> io::Result<()> {
        let first = ["metric_name", "timestamp", "metric_value"];
        let last = ["extra_tags", "metadata"];
        let names: Vec<&str> = first.iter().chain(&self.columns).chain(&last).copied().collect();
        writeln!(to, "{}", names.join(","))
    }

    pub(super) fn write(
        &self,
        to: &mut impl Write,
        batch: &Batch,
        registry: &Registry,
    ) -> io::Result<()> {
        let time = self.time_format.write(batch.time);
        let mut rest = String::new();
        for column in &self.columns {
            rest.push(',');
            let found = batch.tags.iter().find(|(key, _)| key == column);
            field(&mut rest, found.map_or("", |(_, value)| value));
        }
        let others = batch.tags.iter().filter(|(key, _)| !self.columns.contains(&&**key));
        for joined in [pairs(others), pairs(batch.metadata.iter())] {
            rest.push(',');
            field(&mut rest, &joined);
        }
        for (metric, value) in &batch.values {
            writeln!(to, "{},{time},{value:.6}{rest}", registry.get(*metric).name)?;
        }
        Ok(())
    }
}

/// `key=value&key=value`, as in k6 without escapes.
fn pairs<'p>(pairs: impl Iterator<Item = &'p (String, String)>) -> String {
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("&")
}

/// Appends a field, quoted as by Go's `encoding/csv`.
fn field(row: &mut String, text: &str) {
    let needs_quotes = text == "\\."
        || text.contains(['"', ',', '\n', '\r'])
        || text.starts_with(char::is_whitespace);
    if needs_quotes {
        row.push('"');
        row.push_str(&text.replace('"', "\"\""));
        row.push('"');
    } else {
        row.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Builtin;

    #[test]
    fn system_tags_are_columns_and_all_others_one() {
        let batch = Batch::new(
            Duration::from_millis(2500),
            &[("a", "1"), ("b", "x,\"y\""), ("url", " u")],
            &[("trace", "t")],
            &[(Builtin::HttpReqs, 1.0), (Builtin::DataSent, 1e6)],
        );
        let tags = ["url", "vu", "name"].into_iter().try_fold(SystemTags::NONE, SystemTags::with);
        let csv = Csv::new(TimeFormat::UnixMilli, tags.unwrap());
        let mut bytes = Vec::new();
        csv.write_header(&mut bytes).unwrap();
        csv.write(&mut bytes, &batch, &Registry::new()).unwrap();
        let rest = "2500,{},,\" u\",\"a=1&b=x,\"\"y\"\"\",trace=t";
        let expected = format!(
            "metric_name,timestamp,metric_value,name,url,extra_tags,metadata\nhttp_reqs,{}\ndata_sent,{}\n",
            rest.replace("{}", "1.000000"),
            rest.replace("{}", "1000000.000000"),
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
