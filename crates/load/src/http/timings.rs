//! Phases of a request.

use std::time::{Duration, Instant};

/// Durations of a request's phases, as k6 defines them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timings {
    /// From the call until a connection is ready, including look-up and connecting.
    pub(crate) blocked: Duration,
    /// Look-up of the host; zero for a literal or cached address.
    pub(crate) looking_up: Duration,
    /// TCP handshake; zero on a reused connection.
    pub(crate) connecting: Duration,
    /// TLS handshake; zero on a reused connection and without TLS.
    pub(crate) tls_handshaking: Duration,
    pub(crate) sending: Duration,
    /// From the last byte written to the first byte received.
    pub(crate) waiting: Duration,
    /// From the first byte received to the last.
    pub(crate) receiving: Duration,
}

impl Timings {
    /// Sending, waiting and receiving: without look-up and connecting.
    pub(crate) fn duration(&self) -> Duration {
        self.sending + self.waiting + self.receiving
    }
}

/// Instants of a request under way, so that a failed request still reports the phases it reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace {
    start: Instant,
    pub(super) timings: Timings,
    pub(super) connected: Option<Instant>,
    pub(super) sent: Option<Instant>,
    pub(super) first_byte: Option<Instant>,
}

impl Trace {
    pub(super) fn begin() -> Self {
        Self {
            start: Instant::now(),
            timings: Timings::default(),
            connected: None,
            sent: None,
            first_byte: None,
        }
    }

    /// The phases up to `end`: the phase under way ends there, later ones are zero.
    pub(super) fn finish(&self, end: Instant) -> Timings {
        let connected = self.connected.unwrap_or(end);
        let sent = self.sent.unwrap_or(end).max(connected);
        let first_byte = self.first_byte.unwrap_or(end).max(sent);
        Timings {
            blocked: connected.duration_since(self.start),
            sending: sent.duration_since(connected),
            waiting: first_byte.duration_since(sent),
            receiving: end.saturating_duration_since(first_byte),
            ..self.timings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_leaves_out_connecting() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let trace = Trace {
            start,
            timings: Timings {
                looking_up: Duration::from_millis(1),
                connecting: Duration::from_millis(3),
                ..Timings::default()
            },
            connected: Some(at(5)),
            sent: Some(at(6)),
            first_byte: Some(at(16)),
        };
        let timings = trace.finish(at(18));
        assert_eq!(timings.blocked, Duration::from_millis(5));
        assert_eq!(timings.sending, Duration::from_millis(1));
        assert_eq!(timings.waiting, Duration::from_millis(10));
        assert_eq!(timings.receiving, Duration::from_millis(2));
        assert_eq!(timings.duration(), Duration::from_millis(13));
    }

    #[test]
    fn a_request_that_never_connected_was_blocked_all_the_time() {
        let start = Instant::now();
        let trace = Trace { start, ..Trace::begin() };
        let timings = trace.finish(start + Duration::from_millis(7));
        assert_eq!(timings.blocked, Duration::from_millis(7));
        assert_eq!(timings.duration(), Duration::ZERO);
    }
}
