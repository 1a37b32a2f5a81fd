//! The server of a script's client, from the options of its constructor.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::Url;
use crate::options::parse_duration;

/// k6's default.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// k6's default.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// A server and the log-in to it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) url: Url,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) database: i64,
    pub(super) dial_timeout: Duration,
    pub(super) reply_timeout: Duration,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TargetError {
    #[error("invalid options; reason: {0}")]
    Invalid(String),
    /// A feature of k6 that this client lacks.
    #[error("{0}")]
    Unsupported(&'static str),
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands errors over")]
fn invalid(reason: impl ToString) -> TargetError {
    TargetError::Invalid(reason.to_string())
}

/// Options as an object, with k6's names. Those of the connection pool have no effect: there is one connection.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ClientOptions {
    socket: Option<Socket>,
    username: String,
    password: String,
    database: i64,
    _client_name: IgnoredAny,
    _max_retries: IgnoredAny,
    _min_retry_backoff: IgnoredAny,
    _max_retry_backoff: IgnoredAny,
    cluster: Option<IgnoredAny>,
    master_name: Option<IgnoredAny>,
}

/// Times are in milliseconds; 0 is the default.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Socket {
    host: String,
    port: u16,
    tls: Option<TlsOptions>,
    dial_timeout: u64,
    read_timeout: u64,
    _write_timeout: IgnoredAny,
    _pool_size: IgnoredAny,
    _min_idle_conns: IgnoredAny,
    _max_conn_age: IgnoredAny,
    _pool_timeout: IgnoredAny,
    _idle_timeout: IgnoredAny,
    _idle_check_frequency: IgnoredAny,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsOptions {
    ca: Vec<String>,
    cert: String,
    key: String,
}

impl Target {
    /// Parses an address, `redis://USER:PASSWORD@HOST:PORT/DATABASE`; `rediss` is TLS.
    pub(crate) fn from_address(text: &str) -> Result<Self, TargetError> {
        let Ok(address) = url::Url::parse(text) else {
            return Err(invalid("redis: invalid URL scheme: "));
        };
        let secure = match address.scheme() {
            "redis" => false,
            "rediss" => true,
            "unix" => return Err(TargetError::Unsupported("redis over unix://")),
            other => return Err(invalid(format!("redis: invalid URL scheme: {other}"))),
        };
        let host = address.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        let mut target = Self::new(host, address.port().unwrap_or(6379), secure)?;
        let decoded = |text: &str| {
            let pairs = format!("x={}", text.replace('+', "%2B"));
            url::form_urlencoded::parse(pairs.as_bytes())
                .map(|(_, value)| value.into_owned())
                .collect()
        };
        target.username = decoded(address.username());
        target.password = decoded(address.password().unwrap_or_default());
        let path = address.path().trim_matches('/');
        if !path.is_empty() {
            let wrong = |_| invalid(format!("redis: invalid database number: {path:?}"));
            target.database = path.parse().map_err(wrong)?;
        }
        for (name, value) in address.query_pairs() {
            let duration = || parse_duration(&value).map_err(invalid);
            match &*name {
                "db" => target.database = value.parse().map_err(invalid)?,
                "dial_timeout" => target.dial_timeout = duration()?,
                "read_timeout" => target.reply_timeout = duration()?,
                "protocol" | "client_name" | "max_retries" | "min_retry_backoff"
                | "max_retry_backoff" | "write_timeout" | "pool_fifo" | "pool_size"
                | "pool_timeout" | "min_idle_conns" | "max_idle_conns" | "max_active_conns"
                | "conn_max_idle_time" | "conn_max_lifetime" => {}
                other => return Err(invalid(format!("redis: unexpected option: {other}"))),
            }
        }
        Ok(target)
    }

    pub(crate) fn from_options(json: &str) -> Result<Self, TargetError> {
        let options: ClientOptions = serde_json::from_str(json).map_err(invalid)?;
        if options.cluster.is_some() {
            return Err(TargetError::Unsupported("a redis cluster"));
        }
        if options.master_name.is_some() {
            return Err(TargetError::Unsupported("redis sentinels"));
        }
        let Some(socket) = options.socket else { return Err(invalid("empty socket options")) };
        if let Some(TlsOptions { ca, cert, key }) = &socket.tls
            && !(ca.is_empty() && cert.is_empty() && key.is_empty())
        {
            return Err(TargetError::Unsupported("redis with certificates of its own"));
        }
        let host = if socket.host.is_empty() { "localhost" } else { &socket.host };
        let mut target = Self::new(host, socket.port, socket.tls.is_some())?;
        let time = |millis: u64, default| match millis {
            0 => default,
            millis => Duration::from_millis(millis),
        };
        target.dial_timeout = time(socket.dial_timeout, DIAL_TIMEOUT);
        target.reply_timeout = time(socket.read_timeout, REPLY_TIMEOUT);
        target.username = options.username;
        target.password = options.password;
        target.database = options.database;
        Ok(target)
    }

    fn new(host: &str, port: u16, secure: bool) -> Result<Self, TargetError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = if bare.contains(':') { format!("[{bare}]") } else { bare.to_owned() };
        let scheme = if secure { "https" } else { "http" };
        Ok(Self {
            url: Url::parse(&format!("{scheme}://{host}:{port}/")).map_err(invalid)?,
            username: String::new(),
            password: String::new(),
            database: 0,
            dial_timeout: DIAL_TIMEOUT,
            reply_timeout: REPLY_TIMEOUT,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_objects_mean_the_same() {
        let address = Target::from_address("rediss://u:p%40+@h.example:1/2?dial_timeout=7s");
        let object = Target::from_options(
            r#"{ "socket": { "host": "h.example", "port": 1, "tls": {}, "dialTimeout": 7000, "poolSize": 3 },
                 "username": "u", "password": "p@+", "database": 2, "maxRetries": 1 }"#,
        );
        let (address, object) = (address.expect("an address"), object.expect("options"));
        assert_eq!(format!("{address:?}"), format!("{object:?}"));
        assert!(address.url.secure && address.database == 2 && address.password == "p@+");
        let default = Target::from_address("redis://h").expect("an address");
        assert_eq!((default.url.port, default.reply_timeout), (6379, REPLY_TIMEOUT));
    }

    #[test]
    fn invalid_targets_are_rejected() {
        for (text, reason) in [
            ("x", "redis: invalid URL scheme: "),
            ("http://a", "redis: invalid URL scheme: http"),
            ("redis://h/x", "redis: invalid database number: \"x\""),
            ("redis://h?x=1", "redis: unexpected option: x"),
        ] {
            assert_eq!(Target::from_address(text).err(), Some(invalid(reason)), "{text}");
        }
        assert_eq!(Target::from_options("{}").err(), Some(invalid("empty socket options")));
        assert!(Target::from_options(r#"{ "socket": { "nope": 1 } }"#).is_err());
        for options in [r#"{ "cluster": {} }"#, r#"{ "masterName": "m" }"#] {
            let error = Target::from_options(options).err();
            assert!(matches!(error, Some(TargetError::Unsupported(_))), "{error:?}");
        }
    }
}
