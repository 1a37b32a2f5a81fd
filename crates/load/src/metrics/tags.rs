//! Tags of values, for sub-metrics.

use std::borrow::Cow;

/// The tags of one value, looked at only when some sub-metric asks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleTags<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) group: &'a str,
    pub(crate) check: &'a str,
    /// Tags of the run, the scenario and the call; later ones win.
    pub(crate) custom: &'a [(String, String)],
    pub(crate) request: Option<RequestTags<'a>>,
}

/// The tags only requests have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTags<'a> {
    pub(crate) name: &'a str,
    pub(crate) url: &'a str,
    pub(crate) method: &'a str,
    pub(crate) proto: &'a str,
    pub(crate) status: u16,
    pub(crate) error_code: u16,
    pub(crate) error: &'a str,
    /// `None` when the script wants no such tag (`setResponseCallback(null)`).
    pub(crate) expected_response: Option<bool>,
    pub(crate) tls_version: &'a str,
}

impl SampleTags<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        if let Some((_, value)) = self.custom.iter().rev().find(|(found, _)| found == key) {
            return Some(value.as_str().into());
        }
        let text = |text: &'_ str| (!text.is_empty()).then(|| Cow::Owned(text.to_owned()));
        match key {
            "scenario" => return text(self.scenario),
            "group" => return Some(self.group.into()),
            "check" => return text(self.check),
            _ => {}
        }
        let request = self.request?;
        match key {
            "name" => text(request.name),
            "url" => text(request.url),
            "method" => text(request.method),
            "proto" => text(request.proto),
            "status" => Some(request.status.to_string().into()),
            "error" => text(request.error),
            "error_code" => {
                (request.error_code != 0).then(|| request.error_code.to_string().into())
            }
            "expected_response" => {
                request.expected_response.map(|expected| expected.to_string().into())
            }
            "tls_version" => text(request.tls_version),
            _ => None,
        }
    }
}
