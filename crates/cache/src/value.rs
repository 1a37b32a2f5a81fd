//! A cached value: one finished body, ready to be written to a socket.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use bytes::Bytes;

/// A content coding other than identity (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// gzip, RFC 1952.
    Gzip,
    /// Brotli, RFC 7932.
    Br,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Encoding {
    /// The name in `Accept-Encoding` and `Content-Encoding`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Br => "br",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The plain data of a [`Value`], as another tier stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueParts {
    /// The body without a content coding.
    pub identity: Bytes,
    /// The same body in further content codings; of two with the same coding the first counts.
    pub encoded: Vec<(Encoding, Bytes)>,
    /// The media type, as sent in `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// An opaque tag that changes whenever `identity` changes, without quotes (RFC 9110, section
    /// 8.8.3). It must be the same on every node for the same bytes.
    pub etag_base: Box<str>,
    /// Creation time of the body, by the wall clock.
    pub created: SystemTime,
}

/// One finished body in one or more content codings, with the data for its response headers.
///
/// Cloning copies a pointer. The buffers should be the value's own: a [`Bytes`] cut out of a
/// larger buffer keeps all of that buffer alive, but weighs only its own length.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    inner: Arc<Inner>,
}

#[derive(PartialEq, Eq)]
struct Inner {
    parts: ValueParts,
    /// Quoted entity tags: identity first, then one for each of `parts.encoded`.
    etags: Box<[Box<str>]>,
}

/// A value that lives as long as somebody else holds it.
#[derive(Clone, Debug)]
pub(crate) struct WeakValue {
    inner: Weak<Inner>,
}

impl WeakValue {
    pub(crate) fn upgrade(&self) -> Option<Value> {
        self.inner.upgrade().map(|inner| Value { inner })
    }
}

impl Value {
    /// A body without further codings, made now.
    pub fn new(
        identity: Bytes,
        content_type: impl Into<Cow<'static, str>>,
        etag_base: impl Into<Box<str>>,
    ) -> Self {
        Self::from_parts(ValueParts {
            identity,
            encoded: Vec::new(),
            content_type: content_type.into(),
            etag_base: etag_base.into(),
            created: SystemTime::now(),
        })
    }

    /// A value from its plain data.
    pub fn from_parts(mut parts: ValueParts) -> Self {
        parts.encoded.shrink_to_fit();
        let base = &parts.etag_base;
        let identity = format!("\"{base}\"").into_boxed_str();
        let encoded = parts.encoded.iter().map(|(e, _)| format!("\"{base}-{e}\"").into_boxed_str());
        let etags = std::iter::once(identity).chain(encoded).collect();
        Self { inner: Arc::new(Inner { parts, etags }) }
    }

    pub(crate) fn downgrade(&self) -> WeakValue {
        WeakValue { inner: Arc::downgrade(&self.inner) }
    }

    /// The plain data.
    pub fn parts(&self) -> &ValueParts {
        &self.inner.parts
    }

    /// The body without a content coding.
    pub fn identity(&self) -> &Bytes {
        &self.inner.parts.identity
    }

    /// The body in `encoding` (`None`: identity), if it was made in that coding.
    pub fn body(&self, encoding: Option<Encoding>) -> Option<&Bytes> {
        match self.position(encoding)? {
            0 => Some(&self.inner.parts.identity),
            n => Some(&self.inner.parts.encoded[n - 1].1),
        }
    }

    /// The strong entity tag of the body in `encoding` (`None`: identity), in quotes as it stands
    /// in the header. Every coding has its own: a strong tag names bytes, not meaning.
    pub fn etag(&self, encoding: Option<Encoding>) -> Option<&str> {
        Some(&self.inner.etags[self.position(encoding)?])
    }

    /// The media type.
    pub fn content_type(&self) -> &str {
        &self.inner.parts.content_type
    }

    /// Bytes this value occupies: all bodies, tags, media type and the structures around them,
    /// without the key and the cache's own bookkeeping (see [`entry_weight`](crate::entry_weight)).
    pub fn weight(&self) -> u64 {
        let Inner { parts, etags } = &*self.inner;
        let bodies: usize = parts.encoded.iter().map(|(_, body)| body.len()).sum();
        let tags: usize = etags.iter().map(|tag| tag.len() + size_of::<Box<str>>()).sum();
        let table = parts.encoded.len() * size_of::<(Encoding, Bytes)>();
        let fixed = size_of::<Inner>() + 2 * size_of::<usize>();
        (parts.identity.len()
            + bodies
            + tags
            + table
            + fixed
            + parts.etag_base.len()
            + parts.content_type.len()) as u64
    }

    /// Index into `etags`: 0 is identity.
    fn position(&self, encoding: Option<Encoding>) -> Option<usize> {
        let Some(encoding) = encoding else { return Some(0) };
        self.inner.parts.encoded.iter().position(|(e, _)| *e == encoding).map(|n| n + 1)
    }
}

impl fmt::Debug for Value {
    /// Lengths, not bodies: a log line must not carry a page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.inner.parts;
        let mut out = f.debug_struct("Value");
        out.field("identity_bytes", &parts.identity.len());
        for (encoding, body) in &parts.encoded {
            out.field(encoding.as_str(), &body.len());
        }
        out.field("content_type", &parts.content_type).field("etag_base", &parts.etag_base);
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        Value::from_parts(ValueParts {
            identity: Bytes::from_static(b"0123456789"),
            encoded: vec![(Encoding::Gzip, Bytes::from_static(b"0123"))],
            content_type: "application/json".into(),
            etag_base: "a1".into(),
            created: SystemTime::UNIX_EPOCH,
        })
    }

    #[test]
    fn every_coding_has_its_own_strong_tag() {
        let value = sample();
        assert_eq!(value.etag(None), Some("\"a1\""));
        assert_eq!(value.etag(Some(Encoding::Gzip)), Some("\"a1-gzip\""));
        assert_eq!(value.etag(Some(Encoding::Br)), None);
        assert_eq!(value.body(Some(Encoding::Gzip)).map(Bytes::len), Some(4));
        assert_eq!(value.body(Some(Encoding::Zstd)), None);
    }

    #[test]
    fn plain_data_makes_the_same_value_again() {
        let value = sample();
        assert_eq!(Value::from_parts(value.parts().clone()), value);
    }

    #[test]
    fn weight_counts_every_body() {
        let plain = Value::new(Bytes::from_static(b"0123456789"), "text/plain", "a1");
        let mut parts = plain.parts().clone();
        parts.encoded.push((Encoding::Zstd, Bytes::from(vec![0; 1000])));
        let both = Value::from_parts(parts);
        assert!(plain.weight() > 10, "{}", plain.weight());
        assert!(both.weight() >= plain.weight() + 1000, "{}", both.weight());
    }
}
