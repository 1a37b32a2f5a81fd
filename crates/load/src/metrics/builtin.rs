//! The metrics every run has (k6 `metrics/builtin.go`, without gRPC and browsers).

use super::{Contains, MetricId, MetricKind};

/// A metric that is always there; its discriminant is its [`MetricId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Builtin {
    Vus,
    VusMax,
    Iterations,
    IterationDuration,
    DroppedIterations,
    Checks,
    GroupDuration,
    HttpReqs,
    HttpReqFailed,
    HttpReqDuration,
    HttpReqBlocked,
    HttpReqConnecting,
    HttpReqTlsHandshaking,
    HttpReqSending,
    HttpReqWaiting,
    HttpReqReceiving,
    DataSent,
    DataReceived,
    WsSessions,
    WsMsgsSent,
    WsMsgsReceived,
    WsPing,
    WsSessionDuration,
    WsConnecting,
}

impl Builtin {
    /// Name, kind and content, in the order of the discriminants.
    pub(super) const ALL: [(Self, &'static str, MetricKind, Contains); 24] = {
        use Contains::{Data, Default, Time};
        use MetricKind::{Counter, Gauge, Rate, Trend};
        [
            (Self::Vus, "vus", Gauge, Default),
            (Self::VusMax, "vus_max", Gauge, Default),
            (Self::Iterations, "iterations", Counter, Default),
            (Self::IterationDuration, "iteration_duration", Trend, Time),
            (Self::DroppedIterations, "dropped_iterations", Counter, Default),
            (Self::Checks, "checks", Rate, Default),
            (Self::GroupDuration, "group_duration", Trend, Time),
            (Self::HttpReqs, "http_reqs", Counter, Default),
            (Self::HttpReqFailed, "http_req_failed", Rate, Default),
            (Self::HttpReqDuration, "http_req_duration", Trend, Time),
            (Self::HttpReqBlocked, "http_req_blocked", Trend, Time),
            (Self::HttpReqConnecting, "http_req_connecting", Trend, Time),
            (Self::HttpReqTlsHandshaking, "http_req_tls_handshaking", Trend, Time),
            (Self::HttpReqSending, "http_req_sending", Trend, Time),
            (Self::HttpReqWaiting, "http_req_waiting", Trend, Time),
            (Self::HttpReqReceiving, "http_req_receiving", Trend, Time),
            (Self::DataSent, "data_sent", Counter, Data),
            (Self::DataReceived, "data_received", Counter, Data),
            (Self::WsSessions, "ws_sessions", Counter, Default),
            (Self::WsMsgsSent, "ws_msgs_sent", Counter, Default),
            (Self::WsMsgsReceived, "ws_msgs_received", Counter, Default),
            (Self::WsPing, "ws_ping", Trend, Time),
            (Self::WsSessionDuration, "ws_session_duration", Trend, Time),
            (Self::WsConnecting, "ws_connecting", Trend, Time),
        ]
    };

    pub(crate) fn is_builtin(id: MetricId) -> bool {
        (id.0 as usize) < Self::ALL.len()
    }

    pub(crate) fn id(self) -> MetricId {
        MetricId(self as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_ids() {
        for (index, (builtin, ..)) in Builtin::ALL.iter().enumerate() {
            assert_eq!(*builtin as usize, index);
        }
    }
}
