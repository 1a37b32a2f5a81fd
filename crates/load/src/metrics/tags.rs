//! Tags of values, for sub-metrics and for outputs of single values.

use std::borrow::Cow;
use std::net::IpAddr;

use super::SystemTags;

/// Tags of a value, evaluated only for sub-metrics and outputs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleTags<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) group: &'a str,
    pub(crate) check: &'a str,
    /// Tags of run, scenario and call; later ones win, but not over those of the check or request.
    pub(crate) custom: &'a [(String, String)],
    pub(crate) request: Option<RequestTags<'a>>,
    /// `vu.metrics.metadata`, for outputs.
    pub(crate) metadata: &'a [(String, String)],
    /// Virtual user and iteration, for outputs.
    pub(crate) vu: (u32, u64),
    /// Enabled tags, besides the custom ones.
    pub(crate) enabled: SystemTags,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTags<'a> {
    pub(crate) name: &'a str,
    pub(crate) url: &'a str,
    pub(crate) method: &'a str,
    pub(crate) proto: &'a str,
    pub(crate) status: u16,
    pub(crate) error_code: u16,
    pub(crate) error: &'a str,
    /// `None` after `setResponseCallback(null)`.
    pub(crate) expected_response: Option<bool>,
    pub(crate) tls_version: &'a str,
    /// Empty without TLS.
    pub(crate) ocsp_status: &'a str,
    pub(crate) ip: Option<IpAddr>,
}

/// Tags besides the custom ones.
const KEYS: [&str; 14] = [
    "check", "error", "error_code", "expected_response", "group", "ip", "method", "name",
    "ocsp_status", "proto", "scenario", "status", "tls_version", "url",
];

impl SampleTags<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        // As in k6 a tag of the script does not replace those of a check or request.
        if self.enabled.allows(key)
            && let Some(own) = self.own(key)
        {
            return Some(own);
        }
        if let Some((_, value)) = self.custom.iter().rev().find(|(found, _)| found == key) {
            return Some(value.as_str().into());
        }
        match key {
            _ if !self.enabled.allows(key) => None,
            "scenario" => (!self.scenario.is_empty()).then(|| self.scenario.into()),
            "group" => Some(self.group.into()),
            _ => None,
        }
    }

    /// Tags of the check or request.
    fn own(&self, key: &str) -> Option<Cow<'_, str>> {
        let text = |text: &'_ str| (!text.is_empty()).then(|| Cow::Owned(text.to_owned()));
        if key == "check" {
            return text(self.check);
        }
        let request = self.request?;
        match key {
            "name" => text(request.name),
            "url" => text(request.url),
            "method" => text(request.method),
            "proto" => text(request.proto),
            "status" => Some(request.status.to_string().into()),
            "error" => text(request.error),
            "error_code" if request.error_code == 0 => None,
            "error_code" => Some(request.error_code.to_string().into()),
            "expected_response" => {
                request.expected_response.map(|expected| expected.to_string().into())
            }
            "tls_version" => text(request.tls_version),
            "ocsp_status" if self.enabled.has("ocsp_status") => text(request.ocsp_status),
            "ip" if self.enabled.has("ip") => request.ip.map(|ip| ip.to_string().into()),
            _ => None,
        }
    }

    /// All tags, sorted, in a form that can leave the thread.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let own = self.custom.iter().map(|(key, _)| key.as_str());
        let mut keys: Vec<&str> = own.chain(KEYS).collect();
        keys.sort_unstable();
        keys.dedup();
        let pair = |key: &str| Some((key.to_owned(), self.get(key)?.into_owned()));
        keys.into_iter().filter_map(pair).collect()
    }

    /// Sorted metadata.
    pub(crate) fn metadata_pairs(&self) -> Vec<(String, String)> {
        let mut pairs = self.metadata.to_vec();
        for (key, value) in [("vu", u64::from(self.vu.0)), ("iter", self.vu.1)] {
            if self.enabled.has(key) {
                pairs.retain(|(known, _)| known != key);
                pairs.push((key.to_owned(), value.to_string()));
            }
        }
        pairs.sort();
        pairs
    }
}
