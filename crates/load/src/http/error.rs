//! Errors of requests, with k6's error codes.

use std::borrow::Cow;
use std::io;

use thiserror::Error;

/// k6's numbers for failed requests (k6 `lib/netext/httpext/error_codes.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorCode(pub(crate) u16);

impl ErrorCode {
    /// Errors without a number of their own.
    pub(super) const GENERIC: Self = Self(1000);
    /// The server ended the connection with a TLS alert.
    pub(super) const NET: Self = Self(1010);
    pub(super) const TCP_RESET: Self = Self(1220);
    /// TLS errors without a number of their own.
    pub(super) const TLS: Self = Self(1300);
    pub(super) const X509_UNKNOWN_AUTHORITY: Self = Self(1310);
    pub(super) const X509_HOSTNAME: Self = Self(1311);

    /// 1000 + `status` for 4xx and 5xx.
    pub(crate) fn of_status(status: u16) -> Option<Self> {
        (400..600).contains(&status).then_some(Self(1000 + status))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Http2Scope {
    /// RST_STREAM for one request.
    Stream,
    /// Invalid frames from the server.
    Connection,
    /// GOAWAY, then the end of the connection before the response.
    GoAway,
    /// GOAWAY before the server processed this request.
    Unseen,
    /// GOAWAY with an error code for the first request of a connection.
    FirstRefused,
    /// The connection closed before the request was sent.
    Unusable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}", self.message())]
pub(crate) struct Http2Error {
    pub(super) scope: Http2Scope,
    /// Error code (RFC 9113 §7).
    pub(super) code: u32,
    /// The server has not processed the request: it may be sent again whatever its method.
    pub(super) unprocessed: bool,
}

impl Http2Error {
    pub(super) fn unusable(unprocessed: bool) -> Self {
        Self { scope: Http2Scope::Unusable, code: 0, unprocessed }
    }

    fn message(self) -> String {
        let code = http2_code_name(self.code);
        match self.scope {
            Http2Scope::Stream => format!("http2: stream error with http2 ErrCode {code}"),
            Http2Scope::Connection => format!("http2: connection error with http2 ErrCode {code}"),
            Http2Scope::GoAway => format!("http2: received GoAway with http2 ErrCode {code}"),
            Http2Scope::Unseen => {
                "http2: Transport received Server's graceful shutdown GOAWAY".to_owned()
            }
            Http2Scope::FirstRefused => {
                format!("http2: Transport received GOAWAY from server ErrCode:{code}")
            }
            Http2Scope::Unusable => "http2: client conn not usable".to_owned(),
        }
    }

    /// k6 has a number for each code of RFC 9113, and the first of the range for any other.
    fn number(self) -> ErrorCode {
        let first = match self.scope {
            Http2Scope::GoAway => ErrorCode(1610),
            Http2Scope::Stream => ErrorCode(1630),
            Http2Scope::Connection => ErrorCode(1650),
            Http2Scope::Unseen | Http2Scope::FirstRefused | Http2Scope::Unusable => {
                return ErrorCode::GENERIC;
            }
        };
        let known = (self.code as usize) < HTTP2_CODES.len();
        if known { ErrorCode(first.0 + 1 + self.code as u16) } else { first }
    }
}

/// Names of the codes of RFC 9113 §7, by number.
const HTTP2_CODES: [&str; 14] = [
    "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
    "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
    "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
];

fn http2_code_name(code: u32) -> Cow<'static, str> {
    match HTTP2_CODES.get(code as usize) {
        Some(name) => (*name).into(),
        None => format!("unknown error code 0x{code:x}").into(),
    }
}

pub(crate) type Result<T, E = RequestError> = std::result::Result<T, E>;

#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("invalid URL: {0}")]
    InvalidUrl(&'static str),
    #[error("{0}")]
    Parameter(String),
    /// The scheme; empty when the address has none.
    #[error("unsupported protocol scheme \"{0}\"")]
    UnsupportedScheme(String),
    #[error("invalid header `{0}`: names are tokens and values may not contain control characters")]
    InvalidHeader(String),
    /// Connection-specific header (RFC 9113 §8.2.2).
    #[error("invalid {name} request header: [\"{value}\"]")]
    NotForHttp2 { name: String, value: String },
    #[error(transparent)]
    Http2(#[from] Http2Error),
    #[error("request timeout")]
    Timeout,
    #[error("{0}")]
    Proxy(String),
    #[error("lookup: no such host")]
    NoSuchHost,
    #[error("lookup: {0}")]
    Lookup(io::Error),
    #[error("ip is blacklisted")]
    BlacklistedIp,
    #[error("hostname is blocked")]
    BlockedHostname,
    #[error("dial: i/o timeout")]
    ConnectTimeout,
    #[error("dial: {}", describe(.0))]
    Connect(io::Error),
    #[error("{message}")]
    Tls { message: String, code: ErrorCode },
    #[error("write: {}", describe(.0))]
    Write(io::Error),
    #[error("read: {}", describe(.0))]
    Read(io::Error),
    #[error("EOF: the server closed the connection before it answered")]
    ClosedBeforeResponse,
    #[error("unexpected EOF: the server closed the connection inside its answer")]
    ClosedInsideResponse,
    #[error("malformed HTTP response: {0}")]
    Malformed(&'static str),
    #[error("net/http: server response headers exceeded {0} bytes; aborted")]
    HeadTooLarge(usize),
    #[error("response body exceeds {0} bytes")]
    BodyTooLarge(usize),
    #[error("error decompressing response body: {0}")]
    Decompression(String),
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        _ => error.to_string(),
    }
}

impl RequestError {
    /// True if this machine had no file descriptor, port or socket memory left.
    pub(crate) fn is_exhaustion(&self) -> bool {
        use rustix::io::Errno;
        let local = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
        matches!(self, Self::Connect(error)
            if Errno::from_io_error(error).is_some_and(|errno| local.contains(&errno)))
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Parameter(_) => ErrorCode(0),
            Self::InvalidUrl(_) => ErrorCode(1020),
            Self::Timeout => ErrorCode(1050),
            Self::Lookup(_) => ErrorCode(1100),
            Self::NoSuchHost => ErrorCode(1101),
            Self::BlacklistedIp => ErrorCode(1110),
            Self::BlockedHostname => ErrorCode(1111),
            Self::ConnectTimeout => ErrorCode(1211),
            Self::Connect(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => ErrorCode(1212),
                io::ErrorKind::ConnectionReset => ErrorCode::TCP_RESET,
                _ => ErrorCode(1213),
            },
            Self::Write(error) | Self::Read(error) => match error.kind() {
                io::ErrorKind::ConnectionReset => ErrorCode::TCP_RESET,
                io::ErrorKind::BrokenPipe => ErrorCode(1201),
                _ => ErrorCode(1200),
            },
            Self::Tls { code, .. } => *code,
            Self::Http2(error) => error.number(),
            Self::Decompression(_) => ErrorCode(1701),
            _ => ErrorCode::GENERIC,
        }
    }

    pub(super) fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Http2(error) if error.unprocessed)
    }

    /// True if the server may have closed an idle connection between two requests, provided that no byte of the
    /// response has arrived.
    pub(super) fn may_be_idle_close(&self) -> bool {
        match self {
            Self::ClosedBeforeResponse | Self::Write(_) => true,
            Self::Read(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            ),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_http2_have_the_numbers_and_messages_of_k6() {
        let reported = |scope, code| {
            let error = RequestError::from(Http2Error { scope, code, unprocessed: false });
            (error.code().0, error.to_string())
        };
        let stream = "http2: stream error with http2 ErrCode";
        assert_eq!(reported(Http2Scope::Stream, 8), (1639, format!("{stream} CANCEL")));
        assert_eq!(
            reported(Http2Scope::Stream, 14),
            (1630, format!("{stream} unknown error code 0xe"))
        );
        assert_eq!(reported(Http2Scope::GoAway, 0).0, 1611);
        assert_eq!(reported(Http2Scope::Connection, 13).0, 1664);
        assert_eq!(reported(Http2Scope::Unseen, 0).0, 1000);
    }
}
