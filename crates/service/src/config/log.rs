//! Settings of the log, of its lines for requests, and of spans.

use super::keys::{Key, choice, key, positive};
use std::time::Duration;

/// `log.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// A `tracing` filter: `info`, `debug`, `madang_service=debug,info`.
    pub level: String,
    /// Lines for people or for machines.
    pub format: LogFormat,
    /// Where the access log goes; `None` = there is none.
    pub access: Option<AccessLog>,
    /// Duration from which a request is logged as slow; `None` = none is.
    pub slow: Option<Duration>,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Output of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Standard output, after the two lines with the addresses.
    Stdout,
    /// Standard error, between the lines of the log.
    Stderr,
}

impl LogSettings {
    pub(super) fn blank() -> Self {
        Self { level: String::new(), format: LogFormat::Text, access: None, slow: None }
    }
}

/// `trace.*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSettings {
    /// Where spans go; `None` = none are made.
    pub endpoint: Option<Endpoint>,
    /// Share of the requests without a `traceparent` that get a span, 0 to 1.
    pub sample: f64,
}

/// Address of a collector of spans (OTLP over HTTP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port, as in the `Host` header; an IPv6 address in brackets.
    pub authority: String,
    /// Path of the request.
    pub path: String,
}

impl Endpoint {
    /// Path of spans below a collector's address (OpenTelemetry Protocol Exporter specification, "Endpoint URLs
    /// for OTLP/HTTP").
    const PATH: &str = "/v1/traces";

    /// Reads `http://HOST:PORT`, or with a path of its own.
    fn parse(text: &str) -> Option<Endpoint> {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority.rsplit_once(':')?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        let is_right = !host.is_empty()
            && host.bytes().all(is_host)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
            // It goes into the head of a request.
            && path.bytes().all(|byte| byte.is_ascii_graphic());
        let path = if matches!(path, "" | "/") { Self::PATH } else { path };
        is_right.then(|| Endpoint { authority: authority.to_owned(), path: path.to_owned() })
    }
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "log.level" = "info",
        "error, warn, info, debug, trace, or a filter such as madang_service=debug,info",
        "Minimum level of log lines, or a filter; logs go to stderr",
        |s, v| s.log.level = filter(v)?
    ),
    key!("log.format" = "text", "text or json", "Format of log lines", |s, v| s.log.format =
        choice(v, &[("text", LogFormat::Text), ("json", LogFormat::Json)])?),
    key!(
        "log.access" = "off",
        "off, stdout or stderr",
        "Output of the access log, one line of JSON for each request; off = none",
        |s, v| s.log.access = choice(
            v,
            &[
                ("off", None),
                ("stdout", Some(AccessLog::Stdout)),
                ("stderr", Some(AccessLog::Stderr))
            ]
        )?
    ),
    key!(
        "log.slow" = "off",
        "off or a duration: 250ms, 1s",
        "Duration of a request from which a warning is logged with where the time went; off = none",
        |s, v| s.log.slow = if v == "off" { None } else { Some(positive(v)?) }
    ),
    key!(
        "trace.endpoint" = "",
        "http://HOST:PORT of an OpenTelemetry collector, with or without a path, or empty",
        "Collector that receives a span for each sampled request (OTLP over HTTP, JSON; path /v1/traces unless given); empty = no spans",
        |s, v| s.trace.endpoint = endpoint(v)?
    ),
    key!(
        "trace.sample" = "1",
        "0 to 1",
        "Share of the requests without a traceparent header that get a span; with one, its sampled flag decides",
        |s, v| s.trace.sample = share(v)?
    ),
];

/// Directives of a log filter. A word that is no level would be taken for the name of a module, and
/// silence everything else.
///
/// # Errors
/// With an empty text when it is none.
pub fn filter(value: &str) -> Result<String, String> {
    let is_level =
        |word: &str| matches!(word, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let known = value.split(',').map(str::trim).all(|directive| match directive.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(directive),
    });
    if known { Ok(value.to_owned()) } else { Err(String::new()) }
}

fn endpoint(value: &str) -> Result<Option<Endpoint>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    Endpoint::parse(value).map(Some).ok_or_else(String::new)
}

fn share(value: &str) -> Result<f64, String> {
    value.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(String::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port_and_perhaps_a_path() {
        let parsed = |text| Endpoint::parse(text).map(|found| found.authority + &found.path);
        for (text, reads) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318/v1/traces"),
            ("http://collector:4318/", "collector:4318/v1/traces"),
            ("http://[::1]:4318/otlp/v1/traces", "[::1]:4318/otlp/v1/traces"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(reads));
        }
        for wrong in [
            "",
            "collector:4318",
            "https://collector:4318",
            "http://collector",
            "http://:4318",
            "http://collector:0",
            "http://collector:99999",
            "http://user:password@collector:4318",
            "http://collector:4318/a b",
            "http://collector:4318/\r\nX: y",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        assert_eq!(share("0.25"), Ok(0.25));
        for wrong in ["", "-0.1", "1.1", "NaN", "25%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
