//! InfluxDB 1.x over HTTP (k6's `internal/output/influxdb`): points in the line protocol, pushed every second.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use super::Batch;
use super::post::Server;
use super::variables::{Variables, parse_interval};
use crate::http::escape_query;
use crate::metrics::Registry;
use crate::options::OptionsError;

/// Waiting points are pushed early at this size.
const MAX_PUSH_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Text,
    Boolean,
    Float,
    Integer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InfluxSettings {
    server: Server,
    database: String,
    retention: String,
    precision: String,
    consistency: String,
    pub(super) interval: Duration,
    /// Tags written as fields: they have too many values for an index.
    fields: Vec<(String, FieldKind)>,
}

impl InfluxSettings {
    /// Parses `http://user:password@host:port/database?pushInterval=2s`, which wins over the environment.
    pub(super) fn parse(
        address: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, OptionsError> {
        let variables = Variables::new("K6_INFLUXDB_", &variable);
        variables.refuse("PROXY")?;
        variables.refuse("PAYLOAD_SIZE")?;
        let variable = |name: &str| variables.text(name);
        let (address, query) = address.split_once('?').unwrap_or((address, ""));
        let base = variable("ADDR").unwrap_or_else(|| "http://localhost:8086".to_owned());
        let (base, path) = if address.is_empty() {
            (base.as_str(), "")
        } else {
            let host = address.find("://").map_or(0, |at| at + 3);
            let path = address[host..].find('/').map_or(address.len(), |at| host + at);
            address.split_at(path)
        };
        let mut settings = Self {
            server: Server::parse(base).map_err(wrong)?,
            database: variable("DB").unwrap_or_else(|| "k6".to_owned()),
            retention: variable("RETENTION").unwrap_or_default(),
            precision: variable("PRECISION").unwrap_or_else(|| "ns".to_owned()),
            consistency: variable("CONSISTENCY").unwrap_or_default(),
            interval: Duration::from_secs(1),
            fields: Vec::new(),
        };
        if let Some(user) = variable("USERNAME") {
            settings.server.log_in(&user, &variable("PASSWORD").unwrap_or_default());
        }
        let mut fields = variable("TAGS_AS_FIELDS").unwrap_or_else(|| "vu,iter,url".to_owned());
        for (name, key) in [("INSECURE", "insecure"), ("PUSH_INTERVAL", "pushInterval")] {
            if let Some(value) = variable(name) {
                settings.set(key, &value)?;
            }
        }
        if let Some(name) = path.strip_prefix('/').filter(|name| !name.is_empty()) {
            name.clone_into(&mut settings.database);
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let mut given = Vec::new();
        for (key, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
            match key {
                "tagsAsFields" => given.push(value),
                _ => settings.set(key, value)?,
            }
        }
        if !given.is_empty() {
            fields = given.join(",");
        }
        settings.fields = kinds(&fields)?;
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), OptionsError> {
        match key {
            "insecure" if matches!(value, "true" | "false" | "") => {
                self.server.tls.insecure = value == "true";
            }
            "insecure" => {
                return Err(wrong(format!("insecure must be true or false, not {value}")));
            }
            "precision" => value.clone_into(&mut self.precision),
            "retention" => value.clone_into(&mut self.retention),
            "consistency" => value.clone_into(&mut self.consistency),
            "pushInterval" => {
                self.interval = parse_interval(value).map_err(|e| wrong(e.to_string()))?;
            }
            // One push at a time is enough for one program.
            "concurrentWrites" if value.parse::<u32>().is_ok_and(|number| number > 0) => {}
            _ => return Err(wrong(format!("unknown setting `{key}` or wrong value `{value}`"))),
        }
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        format!("InfluxDBv1 ({})", self.server.address)
    }
}

fn wrong(problem: impl Display) -> OptionsError {
    OptionsError::invalid("out", format!("influxdb: {problem}"))
}

fn kinds(list: &str) -> Result<Vec<(String, FieldKind)>, OptionsError> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let mut kinds: Vec<(String, FieldKind)> = Vec::new();
    for entry in entries {
        let (name, kind) = entry.split_once(':').unwrap_or((entry, "string"));
        let kind = match kind {
            "string" => FieldKind::Text,
            "bool" => FieldKind::Boolean,
            "float" => FieldKind::Float,
            "int" => FieldKind::Integer,
            other => {
                return Err(wrong(format!("{name}: `{other}` is not string, bool, float or int")));
            }
        };
        if kinds.iter().any(|(known, _)| known == name) {
            return Err(wrong(format!("the tag `{name}` is named twice")));
        }
        kinds.push((name.to_owned(), kind));
    }
    Ok(kinds)
}

impl InfluxSettings {
    pub(super) fn write_points(
        &self,
        to: &mut impl Write,
        batch: &Batch,
        registry: &Registry,
    ) -> io::Result<()> {
        let mut tags = String::new();
        let mut fields: Vec<(&str, String)> = Vec::new();
        for (key, value) in &batch.tags {
            if let Some((_, kind)) = self.fields.iter().find(|(name, _)| name == key) {
                fields.push((key, field(value, *kind)));
            } else if !value.is_empty() {
                tags.push(',');
                escape(&mut tags, key);
                tags.push('=');
                escape(&mut tags, value);
            }
        }
        let time = self.time(batch);
        for (metric, value) in batch.values.iter().filter(|(_, value)| value.is_finite()) {
            let value = ("value", value.to_string());
            let mut all: Vec<_> = fields.iter().chain([&value]).collect();
            all.sort();
            let mut line = registry.get(*metric).name.clone();
            line.push_str(&tags);
            for (index, (key, value)) in all.into_iter().enumerate() {
                line.push(if index == 0 { ' ' } else { ',' });
                escape(&mut line, key);
                line.push('=');
                line.push_str(value);
            }
            writeln!(to, "{line} {time}")?;
        }
        Ok(())
    }

    fn time(&self, batch: &Batch) -> u128 {
        let time = batch.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.precision.as_str() {
            "u" => time.as_micros(),
            "ms" => time.as_millis(),
            "s" => time.as_secs().into(),
            "m" => (time.as_secs() / 60).into(),
            "h" => (time.as_secs() / 3600).into(),
            _ => time.as_nanos(),
        }
    }
}

/// The value of a field; text if it does not have the type.
fn field(value: &str, kind: FieldKind) -> String {
    let typed = match kind {
        FieldKind::Text => None,
        FieldKind::Boolean => value.parse::<bool>().ok().map(|value| value.to_string()),
        FieldKind::Float => value.parse::<f64>().ok().map(|value| value.to_string()),
        FieldKind::Integer => value.parse::<i64>().ok().map(|value| format!("{value}i")),
    };
    let text = || format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
    typed.unwrap_or_else(text)
}

fn escape(line: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            ',' | '=' | ' ' => line.extend(['\\', c]),
            // These would end the line.
            '\n' | '\r' => line.push(' '),
            c => line.push(c),
        }
    }
}

#[derive(Debug)]
pub(super) struct Database {
    settings: InfluxSettings,
    waiting: Vec<u8>,
    target: String,
}

impl Database {
    /// Creates the database unless it exists; a failure shows at the first push.
    pub(super) fn open(settings: InfluxSettings) -> Self {
        let query =
            encoded(&[("db", ""), ("q", &format!("CREATE DATABASE {}", settings.database))]);
        let _ = settings.server.post(&format!("/query?{query}"), &[], &[]);
        let target = encoded(&[
            ("consistency", &settings.consistency),
            ("db", &settings.database),
            ("precision", &settings.precision),
            ("rp", &settings.retention),
        ]);
        Self { settings, waiting: Vec::new(), target: format!("/write?{target}") }
    }
}

impl Write for Database {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= MAX_PUSH_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// Pushes the points; they are lost if that fails.
    fn flush(&mut self) -> io::Result<()> {
        let points = std::mem::take(&mut self.waiting);
        if points.is_empty() {
            return Ok(());
        }
        self.settings.server.post(&self.target, &[], &points)
    }
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (key, value) in pairs {
        let separator = if query.is_empty() { "" } else { "&" };
        query.extend([separator, key, "="]);
        escape_query(value, &mut query);
    }
    query
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Builtin;

    fn settings(text: &str) -> Result<InfluxSettings, OptionsError> {
        let variable = |name: &str| match name {
            "K6_INFLUXDB_USERNAME" => Some("u".to_owned()),
            "K6_INFLUXDB_RETENTION" => Some("week".to_owned()),
            _ => None,
        };
        InfluxSettings::parse(text, variable)
    }

    #[test]
    fn addresses_have_settings() {
        let given = settings("http://h:1/db?pushInterval=2s&precision=ms&insecure=true").unwrap();
        assert_eq!((given.database.as_str(), given.retention.as_str()), ("db", "week"));
        assert_eq!(given.interval, Duration::from_secs(2));
        assert_eq!(given.describe(), "InfluxDBv1 (http://h:1)");
        let default = settings("").unwrap();
        assert_eq!(default.database, "k6");
        assert_eq!(default.describe(), "InfluxDBv1 (http://localhost:8086)");
        assert_eq!(settings("https://h").unwrap().describe(), "InfluxDBv1 (https://h)");
        for (wrong, expected) in [
            ("udp://h:1", "udp"),
            ("http://h/db?x=1", "unknown setting `x`"),
            ("http://h/db?pushInterval=0", "is not a duration"),
            ("http://h/db?tagsAsFields=a:b", "`b` is not string"),
            ("http://h/db?tagsAsFields=a,a:int", "named twice"),
            ("http://h/db?insecure=x", "insecure must be"),
        ] {
            let error = settings(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    #[test]
    fn points_have_tags_and_fields() {
        let batch = Batch::new(
            Duration::from_millis(1500),
            &[("a b", "x,y=z"), ("empty", ""), ("url", "http://\"h\"\\"), ("vu", "7")],
            &[("trace", "t")],
            &[
                (Builtin::HttpReqs, 1.0),
                (Builtin::HttpReqDuration, 0.25),
                (Builtin::HttpReqs, f64::NAN),
            ],
        );
        let given = settings("http://h/db?tagsAsFields=vu:int&tagsAsFields=url").unwrap();
        let mut bytes = Vec::new();
        given.write_points(&mut bytes, &batch, &Registry::new()).unwrap();
        let rest = ",a\\ b=x\\,y\\=z url=\"http://\\\"h\\\"\\\\\",value=";
        let expected = format!(
            "http_reqs{rest}1,vu=7i 1500000000\nhttp_req_duration{rest}0.25,vu=7i 1500000000\n"
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
