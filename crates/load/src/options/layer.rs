//! The options of one source.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::executors::scenarios;
use super::http::{certificates, cipher_suites, debug, dns, hosts, names, ranges, tls_versions};
use super::script::{
    Result, boolean, count, duration, owned_text, positive, positive_duration, redirects, stages,
    system_tags, time_unit, trend_stats,
};
use super::threshold::thresholds;
use super::{MetricThresholds, Scenario, Stage};
use crate::http::{
    AddressRange, ClientCertificate, Dns, HttpDebug, Patterns, Proxies, Target, TlsVersion,
};
use crate::metrics::SystemTags;

/// Declares [`Layer`]. A row is an option: its field and type, k6's name for it, k6's variable for it (empty for
/// none), and the function that reads it.
macro_rules! options {
    ($($(#[$doc:meta])* $field:ident: $Type:ty = $name:literal, $env:literal, $read:expr;)*) => {
        /// The options of one source (script, environment, command line); `None` where it sets none.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Layer {
            $($(#[$doc])* pub $field: Option<$Type>,)*
            /// Tags of every value.
            pub tags: Vec<(String, String)>,
            /// Proxies; only the environment names them.
            pub proxies: Option<Proxies>,
            /// Unknown options, by name.
            pub unknown: Vec<String>,
        }

        /// The options by k6's names, each with k6's variable for it.
        pub(super) const OPTIONS: &[(&str, &str)] = &[("tags", "K6_TAGS"), $(($name, $env)),*];

        impl Layer {
            /// Reads the option `name`, unless it is `tags`; false for unknown options.
            pub(super) fn read(&mut self, name: &str, value: &Value) -> Result<bool> {
                match name {
                    $($name => self.$field = Some($read(name, value)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Puts `upper` on top of this layer. The options for the length of the run (duration, iterations,
            /// stages, scenarios) are replaced together, as in k6.
            #[must_use]
            pub fn apply(mut self, upper: Self) -> Self {
                if upper.says_how_long() {
                    (self.duration, self.iterations) = (None, None);
                    (self.stages, self.scenarios) = (None, None);
                }
                for (key, value) in upper.tags {
                    self.tags.retain(|(known, _)| *known != key);
                    self.tags.push((key, value));
                }
                self.unknown.extend(upper.unknown);
                $(self.$field = upper.$field.or(self.$field);)*
                self.proxies = upper.proxies.or(self.proxies);
                self
            }
        }
    };
}

options! {
    /// Number of virtual users of the implied scenario.
    vus: u32 = "vus", "K6_VUS", count;
    /// Length of the implied constant-vus scenario.
    duration: Duration = "duration", "K6_DURATION", positive_duration;
    /// Iterations shared by all virtual users of the implied scenario.
    iterations: u64 =
        "iterations", "K6_ITERATIONS", |key, value| positive(key, value).map(u64::from);
    /// Stages of the implied ramping-vus scenario.
    stages: Vec<Stage> = "stages", "K6_STAGES", stages;
    /// Scenarios, by name in the order given.
    scenarios: Vec<Scenario> = "scenarios", "", |_, value| scenarios(value);
    /// Columns of trends in the summary.
    summary_trend_stats: Vec<String> = "summaryTrendStats", "K6_SUMMARY_TREND_STATS", trend_stats;
    /// `s`, `ms` or `us`: one unit for all durations in the summary.
    summary_time_unit: String = "summaryTimeUnit", "K6_SUMMARY_TIME_UNIT", time_unit;
    /// The `User-Agent` header.
    user_agent: String = "userAgent", "K6_USER_AGENT", owned_text;
    /// Close the connection after every request.
    no_connection_reuse: bool = "noConnectionReuse", "K6_NO_CONNECTION_REUSE", boolean;
    /// Close the connections after every iteration.
    no_vu_connection_reuse: bool = "noVUConnectionReuse", "K6_NO_VU_CONNECTION_REUSE", boolean;
    /// Read response bodies but do not keep them.
    discard_response_bodies: bool = "discardResponseBodies", "K6_DISCARD_RESPONSE_BODIES", boolean;
    /// Failed requests throw.
    throw: bool = "throw", "K6_THROW", boolean;
    /// Redirects followed per request.
    max_redirects: u32 = "maxRedirects", "K6_MAX_REDIRECTS", redirects;
    /// Conditions at the end, by metric.
    thresholds: Vec<MetricThresholds> = "thresholds", "", |_, value| thresholds(value);
    /// `setup()` is not called.
    no_setup: bool = "noSetup", "K6_NO_SETUP", boolean;
    /// `teardown()` is not called.
    no_teardown: bool = "noTeardown", "K6_NO_TEARDOWN", boolean;
    /// Time limit of `setup()`.
    setup_timeout: Duration = "setupTimeout", "K6_SETUP_TIMEOUT", positive_duration;
    /// Time limit of `teardown()`.
    teardown_timeout: Duration = "teardownTimeout", "K6_TEARDOWN_TIMEOUT", duration;
    /// Time limit of `handleSummary()`.
    handle_summary_timeout: Duration = "handleSummaryTimeout", "", duration;
    /// The engine's own tags on values.
    system_tags: SystemTags = "systemTags", "K6_SYSTEM_TAGS", system_tags;
    /// Requests per second over all virtual users; 0 is no limit.
    rps: u32 = "rps", "K6_RPS", count;
    /// Least time of an iteration: a shorter one is followed by a pause.
    min_iteration_duration: Duration =
        "minIterationDuration", "K6_MIN_ITERATION_DURATION", duration;
    /// Concurrent requests of one `http.batch()`.
    batch: u32 = "batch", "K6_BATCH", positive;
    /// Concurrent requests of one `http.batch()` to one host; 0 is no limit.
    batch_per_host: u32 = "batchPerHost", "K6_BATCH_PER_HOST", count;
    /// Keep the cookies of a virtual user from one iteration to the next.
    no_cookies_reset: bool = "noCookiesReset", "K6_NO_COOKIES_RESET", boolean;
    /// Accept any certificate.
    insecure_skip_tls_verify: bool =
        "insecureSkipTLSVerify", "K6_INSECURE_SKIP_TLS_VERIFY", boolean;
    /// Lowest and highest version of TLS.
    tls_version: (TlsVersion, TlsVersion) = "tlsVersion", "", tls_versions;
    /// Certificates for servers that ask for one.
    tls_auth: Vec<Arc<ClientCertificate>> = "tlsAuth", "", certificates;
    /// Suites to offer for TLS 1.2.
    tls_cipher_suites: Vec<rustls::CipherSuite> = "tlsCipherSuites", "", cipher_suites;
    /// Addresses of host names.
    hosts: Patterns<Target> = "hosts", "", hosts;
    /// Host names to which no request may be sent.
    block_hostnames: Patterns<()> = "blockHostnames", "K6_BLOCK_HOSTNAMES", names;
    /// Addresses to which no request may be sent.
    blacklist_ips: Vec<AddressRange> = "blacklistIPs", "K6_BLACKLIST_IPS", ranges;
    /// Name resolution.
    dns: Dns = "dns", "K6_DNS", dns;
    /// Show requests and responses.
    http_debug: Option<HttpDebug> = "httpDebug", "K6_HTTP_DEBUG", debug;
}

impl Layer {
    /// True if it sets the length of the run.
    pub(crate) fn says_how_long(&self) -> bool {
        self.duration.is_some()
            || self.iterations.is_some()
            || self.stages.is_some()
            || self.scenarios.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_above_replaces_the_stages_below() {
        let stage = Stage { duration: Duration::from_secs(1), target: 5 };
        let below = Layer { vus: Some(3), stages: Some(vec![stage]), ..Layer::default() };
        let duration = Some(Duration::from_secs(9));
        let both = below.clone().apply(Layer { duration, ..Layer::default() });
        assert_eq!((both.vus, both.duration, both.stages), (Some(3), duration, None));
        let untouched = below.clone().apply(Layer { vus: Some(7), ..Layer::default() });
        assert_eq!((untouched.vus, untouched.stages), (Some(7), below.stages));
    }
}
