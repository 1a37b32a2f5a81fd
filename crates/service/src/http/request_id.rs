//! The id of a request, in its response, its problem and its log lines.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The client's `X-Request-Id` if it is short and plain, else a new id.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(super) HeaderValue);

/// Made once: a text would be checked and copied each time.
pub(super) static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a client's id.
const LONGEST: usize = 64;

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match headers.get(&X_REQUEST_ID) {
            Some(given) if is_plain(given.as_bytes()) => RequestId(given.clone()),
            _ => RequestId::fresh(),
        }
    }

    /// Eight hex digits that differ between processes, then a counter.
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

    pub(crate) fn as_str(&self) -> &str {
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
