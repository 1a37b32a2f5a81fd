//! Settings of the log, the access log and spans.

use super::keys::settings;
use super::value::{kind, off_or, optional, time, word};
use serde::Deserialize;
use std::time::Duration;

settings! {
    /// `log.*`: the log and the access log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogSettings {
        level: String = "log.level", "info",
            kind("error, warn, info, debug, trace, or a filter such as madang_service=debug,info",
                filter),
            "Minimum level of log lines, or a filter; logs go to stderr";
        format: LogFormat = "log.format", "text", word("text or json"),
            "Format of log lines";
        access: Option<AccessLog> = "log.access", "off", off_or(word("stdout or stderr")),
            "Output of the access log, one line of JSON for each request; off = none";
        slow: Option<Duration> = "log.slow", "off", off_or(time()),
            "Duration of a request from which a warning is logged with where the time went; off = none";
    }
}

settings! {
    /// `trace.*`: spans for a collector.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TraceSettings {
        endpoint: Option<Endpoint> = "trace.endpoint", "",
            optional("http://HOST:PORT of an OpenTelemetry collector, with or without a path, or empty",
                Endpoint::parse),
            "Collector that receives a span for each sampled request (OTLP over HTTP, JSON; path /v1/traces unless given); empty = no spans";
        sample: f64 = "trace.sample", "1", kind("0 to 1", share),
            "Share of the requests without a traceparent header that get a span; with one, its sampled flag decides";
    }
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Output of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLog {
    /// After the two lines with the addresses.
    Stdout,
    /// Between the lines of the log.
    Stderr,
}

/// Address of a span collector (OTLP over HTTP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and port, as in the `Host` header; an IPv6 address in brackets.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Endpoint {
    /// Default path (OpenTelemetry Protocol Exporter specification, "Endpoint URLs for OTLP/HTTP").
    const PATH: &str = "/v1/traces";

    /// Reads `http://HOST:PORT` with an optional path.
    fn parse(text: &str) -> Option<Endpoint> {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority.rsplit_once(':')?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        let is_right = !host.is_empty()
            && host.bytes().all(is_host)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
            // It becomes part of a request head.
            && path.bytes().all(|byte| byte.is_ascii_graphic());
        let path = if matches!(path, "" | "/") { Self::PATH } else { path };
        is_right.then(|| Endpoint { authority: authority.to_owned(), path: path.to_owned() })
    }
}

/// Directives of a log filter. An unknown level would be taken for the name of a module, and silence everything else.
pub fn filter(value: &str) -> Option<String> {
    let is_level =
        |word: &str| matches!(word, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let known = value.split(',').map(str::trim).all(|directive| match directive.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(directive),
    });
    known.then(|| value.to_owned())
}

fn share(value: &str) -> Option<f64> {
    value.parse().ok().filter(|share| (0.0..=1.0).contains(share))
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
            "", "c:4318", "https://c:4318", "http://c", "http://:4318", "http://c:0",
            "http://c:99999", "http://user:pass@c:4318", "http://c:4318/a b",
            "http://c:4318/\r\nX: y",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_is_a_number_from_0_to_1() {
        assert_eq!(share("0.25"), Some(0.25));
        for wrong in ["", "-0.1", "1.1", "NaN", "25%"] {
            assert!(share(wrong).is_none(), "{wrong}");
        }
    }
}
