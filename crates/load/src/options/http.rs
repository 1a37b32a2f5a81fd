//! Options of requests: how many at once, cookies, TLS.

use serde_json::Value;

use super::OptionsError;
use super::script::{Result, boolean, count, object, positive, text};
use crate::http::{TlsSettings, TlsVersion};

/// What one source says of requests; `None` where it says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpLayer {
    /// Requests one `http.batch()` has under way at a time.
    pub batch: Option<u32>,
    /// The same to one host; 0 is no limit.
    pub batch_per_host: Option<u32>,
    /// Keep the cookies of a virtual user from one iteration to the next.
    pub no_cookies_reset: Option<bool>,
    /// Accept any certificate.
    pub insecure_skip_tls_verify: Option<bool>,
    /// Lowest and highest version of TLS.
    pub tls_version: Option<(TlsVersion, TlsVersion)>,
}

/// The same with the defaults filled in; they are k6's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HttpOptions {
    pub(crate) batch: u32,
    pub(crate) batch_per_host: u32,
    pub(crate) no_cookies_reset: bool,
    pub(crate) tls: TlsSettings,
}

impl HttpLayer {
    /// Names of the options read here.
    pub(super) const KEYS: &[&str] =
        &["batch", "batchPerHost", "insecureSkipTLSVerify", "noCookiesReset", "tlsVersion"];

    /// Reads the option `key`, one of [`Self::KEYS`].
    pub(super) fn read(&mut self, key: &str, value: &Value) -> Result<()> {
        match key {
            "batch" => self.batch = Some(positive(key, value)?),
            "batchPerHost" => self.batch_per_host = Some(count(key, value)?),
            "insecureSkipTLSVerify" => self.insecure_skip_tls_verify = Some(boolean(key, value)?),
            "noCookiesReset" => self.no_cookies_reset = Some(boolean(key, value)?),
            _ => self.tls_version = Some(tls_versions(key, value)?),
        }
        Ok(())
    }

    pub(super) fn apply(self, upper: Self) -> Self {
        Self {
            batch: upper.batch.or(self.batch),
            batch_per_host: upper.batch_per_host.or(self.batch_per_host),
            no_cookies_reset: upper.no_cookies_reset.or(self.no_cookies_reset),
            insecure_skip_tls_verify: upper
                .insecure_skip_tls_verify
                .or(self.insecure_skip_tls_verify),
            tls_version: upper.tls_version.or(self.tls_version),
        }
    }

    pub(super) fn resolve(self) -> HttpOptions {
        let default = TlsSettings::default();
        let (min, max) = self.tls_version.unwrap_or((default.min, default.max));
        let insecure = self.insecure_skip_tls_verify.unwrap_or(default.insecure);
        HttpOptions {
            batch: self.batch.unwrap_or(20),
            batch_per_host: self.batch_per_host.unwrap_or(6),
            no_cookies_reset: self.no_cookies_reset.unwrap_or(false),
            tls: TlsSettings { insecure, min, max },
        }
    }
}

/// `'tls1.3'`, or `{ min, max }`.
fn tls_versions(key: &str, value: &Value) -> Result<(TlsVersion, TlsVersion)> {
    if value.is_string() {
        let version = tls_version(key, value)?;
        return Ok((version, version));
    }
    let fields = object(key, value)?;
    if let Some(unknown) = fields.keys().find(|name| !matches!(name.as_str(), "min" | "max")) {
        return Err(OptionsError::Unknown(format!("{key}.{unknown}")));
    }
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

    fn tls(
        value: impl std::borrow::Borrow<Value>,
    ) -> std::result::Result<(TlsVersion, TlsVersion), String> {
        tls_versions("tlsVersion", value.borrow()).map_err(|error| error.to_string())
    }

    #[test]
    fn tls_versions_are_one_or_a_range() {
        use TlsVersion::{Tls12, Tls13};
        assert_eq!(tls(json!("tls1.2")), Ok((Tls12, Tls12)));
        assert_eq!(tls(json!({"min": "tls1.3"})), Ok((Tls13, Tls13)));
        assert_eq!(tls(json!({"max": "tls1.3"})), Ok((Tls12, Tls13)));
        let error = |value| tls(value).unwrap_err();
        assert_eq!(
            error(json!({"min": "tls1.0"})),
            "option `tlsVersion.min` with `tls1.0` is not supported yet"
        );
        assert!(error(json!({"min": "tls1.3", "max": "tls1.2"})).contains("above"));
        assert!(error(json!({"low": "tls1.3"})).contains("tlsVersion.low"));
    }

    #[test]
    fn later_sources_win_and_the_rest_is_as_in_k6() {
        let below = HttpLayer { batch: Some(3), batch_per_host: Some(2), ..HttpLayer::default() };
        let above = HttpLayer { batch: Some(5), ..HttpLayer::default() };
        let options = below.apply(above).resolve();
        assert_eq!((options.batch, options.batch_per_host), (5, 2));
        let defaults = HttpLayer::default().resolve();
        assert_eq!((defaults.batch, defaults.batch_per_host), (20, 6));
        assert!(!defaults.no_cookies_reset && !defaults.tls.insecure);
    }
}
