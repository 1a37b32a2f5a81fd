//! Why a request got no response, with k6's error codes.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// k6's numbers for failed requests (k6 `lib/netext/httpext/error_codes.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorCode(pub(crate) u16);

impl ErrorCode {
    /// Anything without a number of its own.
    pub(crate) const GENERIC: Self = Self(1000);
    /// The address could not be parsed.
    pub(crate) const INVALID_URL: Self = Self(1020);
    /// The request took longer than its `timeout`.
    pub(crate) const REQUEST_TIMEOUT: Self = Self(1050);
    /// A look-up failed for a reason other than an unknown name.
    pub(crate) const DNS: Self = Self(1100);
    /// The name has no address.
    pub(crate) const DNS_NO_SUCH_HOST: Self = Self(1101);
    /// The address is one of `blacklistIPs`.
    pub(crate) const BLACKLISTED_IP: Self = Self(1110);
    /// The name is one of `blockHostnames`.
    pub(crate) const BLOCKED_HOSTNAME: Self = Self(1111);
    /// TCP failed in a way without a number of its own.
    pub(crate) const TCP: Self = Self(1200);
    /// The peer had closed while the request was written.
    pub(crate) const TCP_BROKEN_PIPE: Self = Self(1201);
    /// Connecting took too long.
    pub(crate) const TCP_DIAL_TIMEOUT: Self = Self(1211);
    /// Nobody listens there.
    pub(crate) const TCP_DIAL_REFUSED: Self = Self(1212);
    /// Connecting failed with another error of the operating system.
    pub(crate) const TCP_DIAL_UNKNOWN: Self = Self(1213);
    /// The peer reset the connection.
    pub(crate) const TCP_RESET: Self = Self(1220);

    /// TLS failed in a way without a number of its own.
    pub(crate) const TLS: Self = Self(1300);
    /// Nobody the system trusts has signed the server's certificate.
    pub(crate) const X509_UNKNOWN_AUTHORITY: Self = Self(1310);
    /// The server's certificate is for another host.
    pub(crate) const X509_HOSTNAME: Self = Self(1311);
    /// The body is not what its `Content-Encoding` says.
    pub(crate) const DECOMPRESSION: Self = Self(1701);

    /// The code of a response by its status: k6 numbers 4xx as 1400 + x, 5xx as 1500 + x.
    pub(crate) fn of_status(status: u16) -> Option<Self> {
        (400..600).contains(&status).then_some(Self(1000 + status))
    }
}

/// A request that got no usable response.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("invalid URL: {0}")]
    InvalidUrl(&'static str),
    /// Neither `http` nor `https`; empty when the address has none.
    #[error("unsupported protocol scheme \"{0}\"")]
    UnsupportedScheme(String),
    #[error("invalid header `{0}`: names are tokens and values may not contain control characters")]
    InvalidHeader(String),
    #[error("request timeout")]
    Timeout,
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
    #[error("tls: {message}")]
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
    #[error("response headers exceed {0} bytes")]
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
    /// Whether it was this machine that had nothing left to connect with: file descriptors, ports, or
    /// memory for sockets.
    pub(crate) fn is_exhaustion(&self) -> bool {
        use rustix::io::Errno;
        let of_ours =
            [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
        let Self::Connect(error) = self else { return false };
        error
            .raw_os_error()
            .is_some_and(|code| of_ours.iter().any(|one| one.raw_os_error() == code))
    }

    /// k6's number for this error.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidUrl(_) => ErrorCode::INVALID_URL,
            Self::Timeout => ErrorCode::REQUEST_TIMEOUT,
            Self::NoSuchHost => ErrorCode::DNS_NO_SUCH_HOST,
            Self::Lookup(_) => ErrorCode::DNS,
            Self::BlacklistedIp => ErrorCode::BLACKLISTED_IP,
            Self::BlockedHostname => ErrorCode::BLOCKED_HOSTNAME,
            Self::ConnectTimeout => ErrorCode::TCP_DIAL_TIMEOUT,
            Self::Connect(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => ErrorCode::TCP_DIAL_REFUSED,
                io::ErrorKind::ConnectionReset => ErrorCode::TCP_RESET,
                _ => ErrorCode::TCP_DIAL_UNKNOWN,
            },
            Self::Write(error) | Self::Read(error) => match error.kind() {
                io::ErrorKind::ConnectionReset => ErrorCode::TCP_RESET,
                io::ErrorKind::BrokenPipe => ErrorCode::TCP_BROKEN_PIPE,
                _ => ErrorCode::TCP,
            },
            Self::Tls { code, .. } => *code,
            Self::Decompression(_) => ErrorCode::DECOMPRESSION,
            Self::UnsupportedScheme(_)
            | Self::InvalidHeader(_)
            | Self::ClosedBeforeResponse
            | Self::ClosedInsideResponse
            | Self::Malformed(_)
            | Self::HeadTooLarge(_)
            | Self::BodyTooLarge(_) => ErrorCode::GENERIC,
        }
    }

    /// Whether a kept connection may simply have been closed by the server between two requests, if
    /// nothing of an answer had arrived.
    pub(super) fn is_of_a_closed_connection(&self) -> bool {
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

/// How long a TCP handshake may take; k6's dialer has the same limit.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
