//! Options of requests: concurrency, cookies, TLS, name resolution.

use std::sync::Arc;

use serde_json::Value;

use super::duration::parse_duration;
use super::script::{Result, fields, list, object, only, pairs, text, texts};
use super::{Layer, OptionsError};
use crate::http::{
    AddressRange, ClientCertificate, ClientConfig, Dns, HttpDebug, NameError, NameRules, Patterns,
    Policy, Select, Target, TlsSettings, TlsVersion, cipher_suite,
};

/// The settings of the client, with k6's defaults filled in.
pub(super) fn client_config(layer: &Layer) -> ClientConfig {
    let default = TlsSettings::default();
    let (min, max) = layer.tls_version.unwrap_or((default.min, default.max));
    let user_agent = || concat!("madang-load/", env!("CARGO_PKG_VERSION")).to_owned();
    ClientConfig {
        user_agent: layer.user_agent.clone().unwrap_or_else(user_agent),
        no_connection_reuse: layer.no_connection_reuse.unwrap_or(false),
        tls: TlsSettings {
            insecure: layer.insecure_skip_tls_verify.unwrap_or(default.insecure),
            min,
            max,
            cipher_suites: layer.tls_cipher_suites.clone().unwrap_or_default(),
            certificates: layer.tls_auth.clone().unwrap_or_default(),
        },
        names: NameRules {
            hosts: layer.hosts.clone().unwrap_or_default(),
            blocked: layer.block_hostnames.clone().unwrap_or_default(),
            blacklist: layer.blacklist_ips.clone().unwrap_or_default(),
            dns: layer.dns.unwrap_or_default(),
        },
        proxies: layer.proxies.clone().unwrap_or_default(),
        skips_success: false,
        debug: layer.http_debug.flatten(),
    }
}

fn invalid(key: &str, error: &dyn std::error::Error) -> OptionsError {
    OptionsError::invalid(key, error.to_string())
}

/// As in k6, anything but `full` shows the headers.
pub(super) fn debug(key: &str, value: &Value) -> Result<Option<HttpDebug>> {
    Ok(match text(key, value)? {
        "" => None,
        "full" => Some(HttpDebug::Full),
        _ => Some(HttpDebug::Headers),
    })
}

/// Reads `{ 'name': 'address' }`.
pub(super) fn hosts(key: &str, value: &Value) -> Result<Patterns<Target>> {
    let entries = object(key, value)?.iter().map(|(name, value)| {
        let key = format!("{key}.{name}");
        let target = text(&key, value)?.parse();
        let target = target.map_err(|error: NameError| invalid(&key, &error))?;
        Ok((name.clone(), target))
    });
    patterns(key, entries.collect::<Result<Vec<_>>>()?)
}

/// Reads a list of names, or one string with commas.
pub(super) fn names(key: &str, value: &Value) -> Result<Patterns<()>> {
    patterns(key, list(key, value)?.into_iter().map(|name| (name.to_owned(), ())).collect())
}

fn patterns<T>(key: &str, entries: Vec<(String, T)>) -> Result<Patterns<T>> {
    Patterns::new(entries).map_err(|error| invalid(key, &error))
}

pub(super) fn ranges(key: &str, value: &Value) -> Result<Vec<AddressRange>> {
    let parse = |text: &str| text.parse().map_err(|error: NameError| invalid(key, &error));
    list(key, value)?.into_iter().map(parse).collect()
}

const SELECTS: [(&str, Select); 3] =
    [("first", Select::First), ("random", Select::Random), ("roundRobin", Select::RoundRobin)];

const POLICIES: [(&str, Policy); 5] = [
    ("preferIPv4", Policy::PreferIPv4),
    ("preferIPv6", Policy::PreferIPv6),
    ("onlyIPv4", Policy::OnlyIPv4),
    ("onlyIPv6", Policy::OnlyIPv6),
    ("any", Policy::Any),
];

/// As in k6, case does not matter.
fn choose<T: Copy>(name: &str, choices: &[(&str, T)]) -> Option<T> {
    let chosen = choices.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    chosen.map(|(_, choice)| *choice)
}

/// Reads `{ ttl, select, policy }`, or `ttl=5m,select=first,policy=any` as in variables and flags.
pub(super) fn dns(key: &str, value: &Value) -> Result<Dns> {
    let fields: Vec<(String, String)> = match value.as_str() {
        None => texts(key, &Value::Object(fields(key, value, &["ttl", "select", "policy"])?))?,
        Some(text) => {
            let wrong =
                || OptionsError::invalid(key, format!("`{text}` is not ttl=5m,select=first"));
            pairs(text, '=').ok_or_else(wrong)?
        }
    };
    let mut dns = Dns::default();
    for (name, value) in fields {
        let wrong = |expected: &str| {
            OptionsError::invalid(format!("{key}.{name}"), format!("{expected} is expected"))
        };
        match &*name {
            "ttl" => {
                dns.ttl = match &*value {
                    "inf" => None,
                    "" => Dns::default().ttl,
                    other => {
                        Some(parse_duration(other).map_err(|_| wrong("`inf`, 0 or a duration"))?)
                    }
                }
            }
            "select" => {
                dns.select = choose(&value, &SELECTS)
                    .ok_or_else(|| wrong("`first`, `random` or `roundRobin`"))?;
            }
            "policy" => {
                dns.policy = choose(&value, &POLICIES).ok_or_else(|| {
                    wrong("`preferIPv4`, `preferIPv6`, `onlyIPv4`, `onlyIPv6` or `any`")
                })?;
            }
            _ => return Err(OptionsError::Unknown(format!("{key}.{name}"))),
        }
    }
    Ok(dns)
}

/// Reads a list of `{ cert, key }` as PEM. `domains` has no effect, as in k6: the certificate depends on the server's
/// request.
pub(super) fn certificates(key: &str, value: &Value) -> Result<Vec<Arc<ClientCertificate>>> {
    let wrong = || OptionsError::invalid(key, "a list of { cert, key } is expected");
    let entries = value.as_array().ok_or_else(wrong)?.iter().map(|entry| {
        let fields = only(key, entry, &["cert", "key", "domains", "password"])?;
        let pem =
            |name: &str| text(&format!("{key}.{name}"), fields.get(name).unwrap_or(&Value::Null));
        // As in k6, an empty one is none.
        let password =
            fields.get("password").and_then(Value::as_str).filter(|text| !text.is_empty());
        let certificate = ClientCertificate::from_pem(pem("cert")?, pem("key")?, password);
        certificate.map(Arc::new).map_err(|error| invalid(key, &error))
    });
    entries.collect()
}

/// Reads IANA names. Suites of k6 that this client lacks are refused: servers would be offered others.
pub(super) fn cipher_suites(key: &str, value: &Value) -> Result<Vec<rustls::CipherSuite>> {
    let suites = list(key, value)?.into_iter().map(|name| {
        cipher_suite(name).ok_or_else(|| {
            if name.starts_with("TLS_") {
                return OptionsError::Unsupported(format!("option `{key}` with `{name}`"));
            }
            let such_as = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
            OptionsError::invalid(key, format!("`{name}` is no cipher suite such as {such_as}"))
        })
    });
    suites.collect()
}

/// Reads `'tls1.3'`, or `{ min, max }`.
pub(super) fn tls_versions(key: &str, value: &Value) -> Result<(TlsVersion, TlsVersion)> {
    if value.is_string() {
        let version = tls_version(key, value)?;
        return Ok((version, version));
    }
    let fields = only(key, value, &["min", "max"])?;
    let field = |name: &str, default| {
        fields.get(name).map_or(Ok(default), |value| tls_version(&format!("{key}.{name}"), value))
    };
    let (min, max) = (field("min", TlsVersion::Tls12)?, field("max", TlsVersion::Tls13)?);
    if min > max {
        return Err(OptionsError::invalid(key, "min must not be above max"));
    }
    Ok((min, max))
}

fn tls_version(key: &str, value: &Value) -> Result<TlsVersion> {
    match text(key, value)? {
        "tls1.2" => Ok(TlsVersion::Tls12),
        "tls1.3" => Ok(TlsVersion::Tls13),
        old @ ("ssl3.0" | "tls1.0" | "tls1.1") => {
            Err(OptionsError::Unsupported(format!("option `{key}` with `{old}`")))
        }
        _ => Err(OptionsError::invalid(key, "`tls1.2` or `tls1.3` is expected")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Options;
    use crate::options::script::read_option;

    fn tls(value: impl std::borrow::Borrow<Value>) -> Result<(TlsVersion, TlsVersion)> {
        tls_versions("tlsVersion", value.borrow())
    }

    #[test]
    fn tls_versions_are_one_or_a_range() {
        use TlsVersion::{Tls12, Tls13};
        assert_eq!(tls(json!("tls1.2")), Ok((Tls12, Tls12)));
        assert_eq!(tls(json!({"min": "tls1.3"})), Ok((Tls13, Tls13)));
        assert_eq!(tls(json!({"max": "tls1.3"})), Ok((Tls12, Tls13)));
        let error = |value| tls(value).unwrap_err().to_string();
        let unsupported = "option `tlsVersion.min` with `tls1.0` is not supported yet";
        assert_eq!(error(json!({"min": "tls1.0"})), unsupported);
        assert!(error(json!({"min": "tls1.3", "max": "tls1.2"})).contains("above"));
        assert!(error(json!({"low": "tls1.3"})).contains("tlsVersion.low"));
    }

    #[test]
    fn names_and_addresses_are_read_from_objects_and_from_texts() {
        let mut layer = Layer::default();
        layer.read("hosts", &json!({"*.a.example": "127.0.0.1:8080"})).unwrap();
        layer.read("blockHostnames", &json!("b.example,*.c.example")).unwrap();
        layer.read("blacklistIPs", &json!(["10.0.0.0/8"])).unwrap();
        layer.read("dns", &json!("ttl=inf,select=ROUNDROBIN")).unwrap();
        let names = client_config(&layer).names;
        let dns = Dns { ttl: None, select: Select::RoundRobin, policy: Policy::PreferIPv4 };
        assert_eq!((names.dns, names.blacklist.len()), (dns, 1));
        let mut layer = Layer::default();
        layer.read("dns", &json!({"ttl": "0", "policy": "any"})).unwrap();
        let ttl = Some(std::time::Duration::ZERO);
        assert_eq!(layer.dns, Some(Dns { ttl, policy: Policy::Any, ..Dns::default() }));
    }

    #[test]
    fn every_key_is_read_and_no_other() {
        // Not from the table, which is what the test is about.
        for key in [
            "tags", "vus", "duration", "iterations", "stages", "scenarios", "summaryTrendStats",
            "summaryTimeUnit", "userAgent", "noConnectionReuse", "noVUConnectionReuse",
            "discardResponseBodies", "throw", "maxRedirects", "thresholds", "noSetup",
            "noTeardown", "setupTimeout", "teardownTimeout", "handleSummaryTimeout", "systemTags",
            "rps", "minIterationDuration", "batch", "batchPerHost", "noCookiesReset",
            "insecureSkipTLSVerify", "tlsVersion", "tlsAuth", "tlsCipherSuites", "hosts",
            "blockHostnames", "blacklistIPs", "dns", "httpDebug",
        ] {
            let read = read_option(&mut Layer::default(), key, &json!(7));
            assert_ne!(read, Err(OptionsError::Unknown(key.to_owned())), "{key}");
        }
        assert_eq!(Layer::default().read("tls", &json!("tls1.3")), Ok(false));
    }

    /// As k6 1.8.1: `--config` with `full` and a script with an empty text show nothing; an empty variable over a
    /// script with `full` changes nothing.
    #[test]
    fn an_empty_http_debug_switches_off_that_of_a_lower_source_but_for_an_empty_variable() {
        let full = || {
            let mut layer = Layer::default();
            layer.read("httpDebug", &json!("full")).unwrap();
            layer
        };
        let mut empty = Layer::default();
        empty.read("httpDebug", &json!("")).unwrap();
        assert_eq!(client_config(&full().apply(empty.clone())).debug, None);
        assert_eq!(client_config(&empty.apply(full())).debug, Some(HttpDebug::Full));
        let variable = |name: &str| (name == "K6_HTTP_DEBUG").then(String::new);
        let environment = Layer::from_environment(variable).unwrap();
        assert_eq!(client_config(&full().apply(environment)).debug, Some(HttpDebug::Full));
    }

    #[test]
    fn wrong_names_and_addresses_are_reported() {
        for (key, value, expected) in [
            ("hosts", json!({"a.*": "127.0.0.1"}), "`a.*` is no host name"),
            ("hosts", json!({"a": "b"}), "option `hosts.a`: `b` is not an address"),
            ("blockHostnames", json!(["a b"]), "`a b` is no host name"),
            ("blacklistIPs", json!(["10.0.0.1"]), "`10.0.0.1` is not a range"),
            ("dns", json!({"select": "last"}), "option `dns.select`: `first`"),
            ("dns", json!({"server": "x"}), "unknown option `dns.server`"),
            ("dns", json!("first"), "`first` is not ttl=5m"),
        ] {
            let error = Layer::default().read(key, &value).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn later_sources_win_and_the_rest_is_as_in_k6() {
        let below = Layer { batch: Some(3), batch_per_host: Some(2), ..Layer::default() };
        let above = Layer { batch: Some(5), ..Layer::default() };
        let options = Options::resolve(below.apply(above)).unwrap();
        assert_eq!((options.batch, options.batch_per_host), (5, 2));
        let defaults = Options::resolve(Layer::default()).unwrap();
        assert_eq!((defaults.batch, defaults.batch_per_host), (20, 6));
        assert!(!defaults.no_cookies_reset && !defaults.client.tls.insecure);
    }
}
