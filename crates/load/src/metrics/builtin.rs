//! Built-in metrics (k6 `metrics/builtin.go`, without gRPC and browsers).

use super::{Contains, MetricId, MetricKind};

/// Declares [`Builtin`]; a row is the variant, name, kind and content of a metric.
macro_rules! metrics {
    ($($Metric:ident = $name:literal, $Kind:ident, $Contains:ident;)*) => {
        /// A built-in metric; its discriminant is its [`MetricId`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Builtin {
            $($Metric,)*
        }

        impl Builtin {
            /// Name, kind and content, in the order of the discriminants.
            pub(super) const ALL: &[(&str, MetricKind, Contains)] =
                &[$(($name, MetricKind::$Kind, Contains::$Contains),)*];
        }
    };
}

metrics! {
    Vus = "vus", Gauge, Default;
    VusMax = "vus_max", Gauge, Default;
    Iterations = "iterations", Counter, Default;
    IterationDuration = "iteration_duration", Trend, Time;
    DroppedIterations = "dropped_iterations", Counter, Default;
    Checks = "checks", Rate, Default;
    GroupDuration = "group_duration", Trend, Time;
    HttpReqs = "http_reqs", Counter, Default;
    HttpReqFailed = "http_req_failed", Rate, Default;
    HttpReqDuration = "http_req_duration", Trend, Time;
    HttpReqBlocked = "http_req_blocked", Trend, Time;
    HttpReqConnecting = "http_req_connecting", Trend, Time;
    HttpReqTlsHandshaking = "http_req_tls_handshaking", Trend, Time;
    HttpReqSending = "http_req_sending", Trend, Time;
    HttpReqWaiting = "http_req_waiting", Trend, Time;
    HttpReqReceiving = "http_req_receiving", Trend, Time;
    DataSent = "data_sent", Counter, Data;
    DataReceived = "data_received", Counter, Data;
    WsSessions = "ws_sessions", Counter, Default;
    WsMsgsSent = "ws_msgs_sent", Counter, Default;
    WsMsgsReceived = "ws_msgs_received", Counter, Default;
    WsPing = "ws_ping", Trend, Time;
    WsSessionDuration = "ws_session_duration", Trend, Time;
    WsConnecting = "ws_connecting", Trend, Time;
}

impl Builtin {
    pub(crate) fn is_builtin(id: MetricId) -> bool {
        (id.0 as usize) < Self::ALL.len()
    }

    pub(crate) fn id(self) -> MetricId {
        MetricId(self as u32)
    }
}
