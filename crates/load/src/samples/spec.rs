//! Parses `--out`.

use std::path::PathBuf;
use std::time::Duration;

use super::csv::TimeFormat;
use super::influx::InfluxSettings;
use super::opentelemetry::OpenTelemetrySettings;
use super::prometheus::PrometheusSettings;
use super::variables::{Variables, parse_interval};
use crate::options::OptionsError;

/// Interval of writes to a JSON file; k6's.
const JSON_INTERVAL: Duration = Duration::from_millis(200);

const CSV_INTERVAL: Duration = Duration::from_secs(1);

/// Unsupported outputs of k6, and alternatives.
const MISSING: &[(&str, &str)] = &[
    ("cloud", ""),
    ("summary", ""),
    ("web-dashboard", "--html FILE writes everything measured as one page"),
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    Json,
    Csv(TimeFormat),
    Influx(Box<InfluxSettings>),
    Prometheus(Box<PrometheusSettings>),
    OpenTelemetry(Box<OpenTelemetrySettings>),
}

/// An output of single values.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSpec {
    pub(super) format: Format,
    /// `None` for standard output.
    pub(super) file: Option<PathBuf>,
    pub(super) flush_interval: Duration,
}

impl OutputSpec {
    /// Parses `json=FILE`, `csv=FILE`, `csv=fileName=FILE,timeFormat=unix_milli`, `influxdb=http://host:8086/database`,
    /// `experimental-prometheus-rw` or `opentelemetry`. `variable` reads the environment (`K6_CSV_TIME_FORMAT`, …).
    ///
    /// # Errors
    /// An unsupported output or invalid settings.
    pub fn parse(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, OptionsError> {
        let (kind, argument) = text.split_once('=').unwrap_or((text, ""));
        let to_server = |flush_interval, format| Ok(Self { format, file: None, flush_interval });
        match kind {
            "json" => {
                let (format, file) = (Format::Json, file(argument));
                Ok(Self { format, file, flush_interval: JSON_INTERVAL })
            }
            "csv" => csv(argument, variable),
            "influxdb" => {
                let settings = InfluxSettings::parse(argument, variable)?;
                to_server(settings.interval, Format::Influx(settings.into()))
            }
            "experimental-prometheus-rw" => {
                let settings = PrometheusSettings::parse(argument, variable)?;
                to_server(settings.interval, Format::Prometheus(settings.into()))
            }
            "opentelemetry" | "experimental-opentelemetry" => {
                let settings = OpenTelemetrySettings::parse(variable)?;
                to_server(settings.interval, Format::OpenTelemetry(settings.into()))
            }
            _ => {
                if let Some((missing, instead)) = MISSING.iter().find(|(name, _)| *name == kind) {
                    let what = format!("the output `{missing}`");
                    return Err(OptionsError::unsupported(what, instead));
                }
                let known = "json, csv, influxdb, experimental-prometheus-rw or opentelemetry";
                Err(OptionsError::invalid("out", format!("`{kind}` is not {known}")))
            }
        }
    }

    /// Adds headers to Prometheus' remote write; k6 has a variable for each (`K6_PROMETHEUS_RW_HEADERS_NAME`).
    #[must_use]
    pub fn with_headers(mut self, headers: &[(String, String)]) -> Self {
        if let Format::Prometheus(settings) = &mut self.format {
            settings.headers.extend_from_slice(headers);
        }
        self
    }

    pub(crate) fn describe(&self) -> String {
        let name = match &self.format {
            Format::Json => "json",
            Format::Csv(_) => "csv",
            Format::Influx(settings) => return settings.describe(),
            Format::Prometheus(settings) => return settings.describe(),
            Format::OpenTelemetry(settings) => return settings.describe(),
        };
        match (&self.file, &self.format) {
            (Some(file), _) => format!("{name} ({})", file.display()),
            // As in k6 without a space.
            (None, Format::Json) => "json(stdout)".to_owned(),
            (None, _) => format!("{name} (stdout)"),
        }
    }
}

fn file(name: &str) -> Option<PathBuf> {
    (!matches!(name, "" | "-")).then(|| name.into())
}

fn csv(
    argument: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<OutputSpec, OptionsError> {
    let mut name = "file.csv".to_owned();
    let mut format = TimeFormat::default();
    let mut interval = CSV_INTERVAL;
    let mut set = |key: &str, value: &str| {
        let wrong = |problem: &str| OptionsError::invalid("out", format!("csv: {problem}"));
        match key {
            "fileName" => value.clone_into(&mut name),
            "timeFormat" => {
                let problem = format!(
                    "`{value}` is not one of unix, unix_milli, unix_micro, unix_nano, rfc3339, rfc3339_nano"
                );
                format = TimeFormat::parse(value).ok_or_else(|| wrong(&problem))?;
            }
            "saveInterval" => {
                interval = parse_interval(value).map_err(|e| wrong(&e.to_string()))?;
            }
            _ => return Err(wrong(&format!("unknown setting `{key}`"))),
        }
        Ok(())
    };
    let variables = Variables::new("K6_CSV_", &variable);
    for (name, key) in
        [("FILENAME", "fileName"), ("SAVE_INTERVAL", "saveInterval"), ("TIME_FORMAT", "timeFormat")]
    {
        if let Some(value) = variables.text(name) {
            set(key, &value)?;
        }
    }
    match argument {
        "" => {}
        name if !name.contains('=') => set("fileName", name)?,
        pairs => pairs.split(',').try_for_each(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            set(key, value)
        })?,
    }
    Ok(OutputSpec { format: Format::Csv(format), file: file(&name), flush_interval: interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<OutputSpec, OptionsError> {
        let variable = |name: &str| match name {
            "K6_CSV_TIME_FORMAT" => Some("rfc3339".to_owned()),
            "K6_CSV_FILENAME" => Some("v.csv".to_owned()),
            _ => None,
        };
        OutputSpec::parse(text, variable)
    }

    #[test]
    fn outputs_are_files_or_the_standard_output() {
        let file = |text: &str| parse(text).unwrap().file;
        assert_eq!(file("json=a=b.json"), Some("a=b.json".into()));
        assert_eq!((file("json"), file("json=-"), file("csv=-")), (None, None, None));
        assert_eq!((file("csv"), file("csv=o.csv")), (Some("v.csv".into()), Some("o.csv".into())));
    }

    #[test]
    fn settings_of_rows_win_over_their_variables() {
        let spec = parse("csv=fileName=x.csv,saveInterval=2s,timeFormat=UNIX_nano").unwrap();
        assert_eq!(spec.format, Format::Csv(TimeFormat::UnixNano));
        assert_eq!(spec.file, Some("x.csv".into()));
        assert_eq!(spec.flush_interval, Duration::from_secs(2));
        assert_eq!(parse("csv=o.csv").unwrap().format, Format::Csv(TimeFormat::Rfc3339));
    }

    #[test]
    fn headers_are_added_to_those_of_the_variable() {
        let variable =
            |name: &str| (name == "K6_PROMETHEUS_RW_HTTP_HEADERS").then(|| "A:1".to_owned());
        let spec = OutputSpec::parse("experimental-prometheus-rw", variable).unwrap();
        let header = |name: &str| (name.to_owned(), "1".to_owned());
        let Format::Prometheus(settings) = spec.with_headers(&[header("B")]).format else {
            panic!()
        };
        assert_eq!(settings.headers, [header("A"), header("B")]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_reported() {
        for (text, expected) in [
            ("web-dashboard", "the output `web-dashboard` is not supported yet"),
            ("jsn=x", "`jsn` is not json, csv, influxdb,"),
            ("csv=timeFormat=iso", "`iso` is not one of unix"),
            ("csv=saveInterval=0", "`0` is not a duration"),
            ("csv=name=x", "unknown setting `name`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
