//! Status line and headers of a response.

use std::mem::MaybeUninit;
use std::ops::Range;

use http::{HeaderMap, StatusCode};

use super::{RequestError, Result};

pub(super) const MAX_HEAD_BYTES: usize = 256 * 1024;

/// Headers parsed without an allocation; a response with more is parsed again.
const USUAL_HEADERS: usize = 48;

const MAX_HEADERS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0: a connection is closed after each response unless the server sends otherwise.
    Http10,
    Http11,
    Http2,
}

impl Version {
    /// Name in `response.proto` and in the tag `proto`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

/// A parsed head. It keeps the received bytes; names and values are looked up on demand, because most scripts read
/// none.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    bytes: Box<[u8]>,
    headers: Box<[(Range<u32>, Range<u32>)]>,
    reason: Range<u32>,
    pub(crate) status: u16,
    pub(crate) version: Version,
}

/// Framing of a body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

impl Head {
    /// Parses the head at the beginning of `bytes` and returns it with its length; `None` while it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>> {
        let mut usual = [const { MaybeUninit::uninit() }; USUAL_HEADERS];
        match parse_into(bytes, &mut usual) {
            Err(httparse::Error::TooManyHeaders) => {
                let mut many = vec![MaybeUninit::uninit(); MAX_HEADERS];
                parse_into(bytes, &mut many)
            }
            other => other,
        }
        .map_err(|error| match error {
            httparse::Error::TooManyHeaders => RequestError::Malformed("more than 1024 headers"),
            httparse::Error::Version => RequestError::Malformed("not HTTP/1.0 or HTTP/1.1"),
            httparse::Error::Status => RequestError::Malformed("the status code"),
            httparse::Error::HeaderName => RequestError::Malformed("a header name"),
            httparse::Error::HeaderValue => RequestError::Malformed("a header value"),
            httparse::Error::NewLine => RequestError::Malformed("a line end"),
            httparse::Error::Token => RequestError::Malformed("the reason phrase"),
        })
        .and_then(|parsed| {
            let too_large = match &parsed {
                Some((_, length)) => *length > MAX_HEAD_BYTES,
                None => bytes.len() >= MAX_HEAD_BYTES,
            };
            if too_large { Err(RequestError::HeadTooLarge(MAX_HEAD_BYTES)) } else { Ok(parsed) }
        })
    }

    /// The head of an HTTP/2 response, with Go's reason phrase: HTTP/2 sends none.
    pub(super) fn of_http2(status: StatusCode, fields: &HeaderMap) -> Result<Self> {
        if fields.len() > MAX_HEADERS {
            return Err(RequestError::Malformed("more than 1024 headers"));
        }
        let mut bytes = Vec::new();
        let mut add = |part: &[u8]| {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(part);
            start..bytes.len() as u32
        };
        let headers = fields
            .iter()
            .map(|(name, value)| (add(name.as_str().as_bytes()), add(value.as_bytes())))
            .collect();
        let reason = add(reason_of(status).as_bytes());
        let (bytes, status, version) = (bytes.into(), status.as_u16(), Version::Http2);
        Ok(Self { bytes, headers, reason, status, version })
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers.iter().map(|(name, value)| {
            let name = std::str::from_utf8(self.slice(name)).unwrap_or_default();
            (name, self.slice(value))
        })
    }

    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn reason(&self) -> String {
        String::from_utf8_lossy(self.slice(&self.reason)).into_owned()
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    /// Framing of this response's body.
    ///
    /// # Errors
    /// `Malformed` for contradicting lengths: a guess could read the next response from the wrong place.
    pub(super) fn framing(&self, to_head_request: bool) -> Result<Framing> {
        if to_head_request || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::None);
        }
        if let Some(last) = self.items("transfer-encoding").last() {
            let is_chunked = last.eq_ignore_ascii_case(b"chunked");
            return Ok(if is_chunked { Framing::Chunked } else { Framing::UntilClose });
        }
        let mut length = None;
        for value in self.items("content-length") {
            let parsed = parse_length(value)?;
            if length.replace(parsed).is_some_and(|before| before != parsed) {
                return Err(RequestError::Malformed("two different Content-Length"));
            }
        }
        Ok(length.map_or(Framing::UntilClose, Framing::Length))
    }

    /// True if the server keeps the connection open for another request.
    pub(super) fn keeps_alive(&self) -> bool {
        match self.version {
            Version::Http10 => self.has_item("connection", "keep-alive"),
            _ => !self.has_item("connection", "close"),
        }
    }

    fn items<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let values = self.values(name).flat_map(|value| value.split(|byte| *byte == b','));
        values.map(<[u8]>::trim_ascii)
    }

    pub(crate) fn has_item(&self, name: &str, item: &str) -> bool {
        self.items(name).any(|found| found.eq_ignore_ascii_case(item.as_bytes()))
    }
}

/// Go's phrase for a status, as in k6. Four differ from the `http` crate.
fn reason_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        203 => "Non-Authoritative Information",
        413 => "Request Entity Too Large",
        414 => "Request URI Too Long",
        416 => "Requested Range Not Satisfiable",
        _ => status.canonical_reason().unwrap_or_default(),
    }
}

fn parse_length(digits: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RequestError::Malformed("Content-Length is not a number"));
    }
    text.parse().map_err(|_| RequestError::Malformed("Content-Length is too large"))
}

fn parse_into<'b>(
    bytes: &'b [u8],
    headers: &mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<(Head, usize)>, httparse::Error> {
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, bytes, headers)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let range = |part: &[u8]| {
        // Slices of `bytes`, whose head is far shorter than 4 GiB.
        let start = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
        if start > length || part.is_empty() {
            0..0
        } else {
            start as u32..(start + part.len()) as u32
        }
    };
    let headers = response
        .headers
        .iter()
        .map(|header| (range(header.name.as_bytes()), range(header.value)))
        .collect();
    let head = Head {
        bytes: bytes[..length].into(),
        headers,
        reason: range(response.reason.unwrap_or_default().as_bytes()),
        status: response.code.unwrap_or_default(),
        version: if response.version == Some(0) { Version::Http10 } else { Version::Http11 },
    };
    Ok(Some((head, length)))
}

/// `content-type` → `Content-Type`, as Go's `CanonicalMIMEHeaderKey`.
pub(crate) fn canonical(name: &str) -> String {
    let mut upper = true;
    name.chars()
        .map(|c| {
            let c = if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            upper = c == '-';
            c
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn header_names_become_canonical() {
        assert_eq!(canonical("content-type"), "Content-Type");
        assert_eq!(canonical("X-REQUEST-id"), "X-Request-Id");
        assert_eq!(canonical("etag"), "Etag");
    }

    #[test]
    fn a_head_is_only_complete_with_its_empty_line() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        let (head, length) = Head::parse(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").unwrap().unwrap();
        assert_eq!((head.status, head.reason().as_str(), length), (200, "OK", 25));
        assert_eq!(head.headers().collect::<Vec<_>>(), [("A", &b"b"[..])]);
    }

    #[test]
    fn a_head_may_have_many_headers_but_not_endlessly_many() {
        let many = |n: usize| {
            let lines: String = (0..n).map(|i| format!("X-{i}: {i}\r\n")).collect();
            Head::parse(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes())
        };
        assert_eq!(many(1000).unwrap().unwrap().0.headers().count(), 1000);
        assert!(matches!(many(2000), Err(RequestError::Malformed(_))));
    }

    #[test]
    fn a_head_beyond_the_limit_is_refused_complete_or_not() {
        let value = "v".repeat(MAX_HEAD_BYTES);
        for end in ["", "\r\n\r\n"] {
            let text = format!("HTTP/1.1 200 OK\r\nA: {value}{end}");
            assert!(matches!(Head::parse(text.as_bytes()), Err(RequestError::HeadTooLarge(_))));
        }
    }

    #[test]
    fn framing_follows_rfc_9112() {
        let framing = |text: &str| head(text).framing(false).unwrap();
        let coded = "Transfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n";
        assert_eq!(framing("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n"), Framing::None);
        assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), Framing::Length(5));
        assert_eq!(framing(&format!("HTTP/1.1 200 OK\r\n{coded}\r\n")), Framing::Chunked);
        assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n"), Framing::UntilClose);
        let to_head = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").framing(true).unwrap();
        assert_eq!(to_head, Framing::None);
    }

    #[test]
    fn contradicting_lengths_are_refused() {
        for lengths in [
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5, 6",
            "Content-Length: -1",
            "Content-Length: ",
            "Content-Length: 99999999999999999999999",
        ] {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n"));
            assert!(matches!(head.framing(false), Err(RequestError::Malformed(_))), "{lengths}");
        }
        let same = head("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n");
        assert_eq!(same.framing(false).unwrap(), Framing::Length(5));
    }

    #[test]
    fn keeping_alive_depends_on_version_and_header() {
        let keeps = |text: &str| head(text).keeps_alive();
        assert!(keeps("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn a_head_of_http2_has_the_reason_phrases_of_go() {
        let mut fields = HeaderMap::new();
        fields.insert("content-type", "text/plain".parse().unwrap());
        fields.append("set-cookie", "a=1".parse().unwrap());
        fields.append("set-cookie", "b=2".parse().unwrap());
        let head = |status| Head::of_http2(StatusCode::from_u16(status).unwrap(), &fields).unwrap();
        assert_eq!(head(200).values("Set-Cookie").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!(head(200).headers().next(), Some(("content-type", &b"text/plain"[..])));
        assert_eq!((head(200).reason().as_str(), head(200).version.name()), ("OK", "HTTP/2.0"));
        assert_eq!(head(413).reason(), "Request Entity Too Large");
        assert_eq!(head(599).reason(), "");
    }

    #[test]
    fn a_head_of_http2_may_not_have_endlessly_many_headers() {
        let mut fields = HeaderMap::new();
        for _ in 0..=MAX_HEADERS {
            fields.append("x", "1".parse().unwrap());
        }
        assert!(matches!(Head::of_http2(StatusCode::OK, &fields), Err(RequestError::Malformed(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Head::parse(&bytes);
            let mut text = b"HTTP/1.1 200 OK\r\n".to_vec();
            text.extend(&bytes);
            if let Ok(Some((head, length))) = Head::parse(&text) {
                prop_assert!(length <= text.len());
                let _ = (head.framing(false), head.keeps_alive(), head.reason());
            }
        }

        #[test]
        fn a_prefix_of_a_head_is_never_a_head(cut in 0usize..60) {
            let text = b"HTTP/1.1 301 Moved Permanently\r\nLocation: /x\r\nA:  b \r\n\r\n";
            let cut = cut.min(text.len() - 1);
            prop_assert!(Head::parse(&text[..cut]).unwrap().is_none());
        }
    }
}
