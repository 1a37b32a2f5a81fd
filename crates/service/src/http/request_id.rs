//! A name for each request, in its answer, its problem and its log lines.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a request: the client's `X-Request-Id` when it is short and plain, else a fresh one.
#[derive(Clone, Debug)]
pub struct RequestId(pub(super) HeaderValue);

/// The header of it, in requests and answers. Made once: as text it would be checked and copied each time.
pub(super) static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id taken over from a client.
const LONGEST: usize = 64;

impl RequestId {
    /// The id for a request with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        match headers.get(&X_REQUEST_ID) {
            Some(given) if is_plain(given.as_bytes()) => RequestId(given.clone()),
            _ => RequestId::fresh(),
        }
    }

    /// Eight hex digits that differ between processes, then a count.
    fn fresh() -> Self {
        static PREFIX: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let prefix = *PREFIX.get_or_init(|| u64::from(fastrand::u32(..)) << 32);
        let number = prefix | (COUNT.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff);
        let mut text = [0u8; 16];
        for (i, digit) in text.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (60 - 4 * i) & 15) as usize];
        }
        RequestId(HeaderValue::from_bytes(&text).expect("hex digits are a valid header"))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or("")
    }
}

fn is_plain(id: &[u8]) -> bool {
    !id.is_empty()
        && id.len() <= LONGEST
        && id.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_id_of_the_client_is_kept_and_a_hostile_one_replaced() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-request-id", HeaderValue::from_str(value).unwrap());
            RequestId::of(&headers)
        };
        assert_eq!(with("abc-1").as_str(), "abc-1");
        for hostile in ["", "a b", "<script>", &"x".repeat(65)] {
            assert_ne!(with(hostile).as_str(), hostile);
        }
        assert_ne!(RequestId::fresh().as_str(), RequestId::fresh().as_str());
    }
}
