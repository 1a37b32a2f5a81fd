//! Finished bodies: compressed once, with a strong ETag per encoding, answered 304 when the client has them.

use super::answers::SMALL;
use super::negotiate::Encodings;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use madang_cache::{Encoding, Value, ValueParts};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::time::SystemTime;

/// Below this size, compression saves no packet.
pub(super) const COMPRESS_FROM_BYTES: usize = 860;

/// Encodings to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compress {
    /// For a body that is kept and sent often: all encodings, thoroughly, as far as they fit into this many bytes
    /// with the body.
    kept_within: Option<usize>,
    /// For any other body: this encoding, quickly.
    pub(crate) once: Option<Encoding>,
}

impl Compress {
    pub(crate) const NO: Compress = Compress { kept_within: None, once: None };

    /// All encodings for a body that is kept within this many bytes, else the one that the client prefers.
    pub(crate) fn plan(enabled: bool, kept_within: Option<usize>, client: Encodings) -> Compress {
        if enabled {
            Compress { kept_within, once: client.by_preference().next() }
        } else {
            Compress::NO
        }
    }
}

/// Makes a finished body with its ETag and encodings. CPU-heavy: run it on the compute pool.
pub(crate) fn finish(identity: Vec<u8>, content_type: &'static str, compress: Compress) -> Value {
    let etag_base = base_tag(&identity);
    let encoded = encodings(&identity, compress);
    Value::from_parts(ValueParts {
        identity: Bytes::from(identity),
        encoded,
        content_type: content_type.into(),
        etag_base,
        created: SystemTime::now(),
    })
}

/// [`finish`] for one of several bodies of a resource, which share only its version.
pub(crate) fn finish_version(
    version: &str,
    identity: Vec<u8>,
    content_type: &'static str,
    compress: Compress,
) -> Value {
    let value = finish(identity, content_type, compress);
    let parts = value.parts().clone();
    let etag_base = format!("{version}.{}", parts.etag_base).into();
    Value::from_parts(ValueParts { etag_base, ..parts })
}

/// The version of a resource with a single body: the start of its ETags.
pub(crate) fn version(body: &impl Serialize) -> Box<str> {
    // Numbers and strings into memory: cannot fail.
    base_tag(&serde_json::to_vec(body).unwrap_or_default())
}

pub(super) fn base_tag(body: &[u8]) -> Box<str> {
    // 96 bits: a collision between two bodies of one resource is out of the question.
    crate::hex(&Sha256::digest(body)[..12]).into()
}

/// Size of a cache entry beyond its bodies (tags, key, structures), rounded up.
const ENTRY_OVERHEAD_BYTES: usize = 1024;

fn encodings(identity: &[u8], compress: Compress) -> Vec<(Encoding, Bytes)> {
    if identity.len() < COMPRESS_FROM_BYTES {
        return Vec::new();
    }
    let make = |encoding, kept| {
        let body = encode(encoding, identity, kept)?;
        (body.len() < identity.len()).then_some((encoding, body))
    };
    // A body too large for the cache is made again for each request: thorough compression would cost most there.
    let room = compress
        .kept_within
        .and_then(|limit| limit.checked_sub(identity.len() + ENTRY_OVERHEAD_BYTES));
    let Some(mut room) = room else {
        return compress.once.and_then(|encoding| make(encoding, false)).into_iter().collect();
    };
    let all = [Encoding::Br, Encoding::Zstd, Encoding::Gzip].into_iter();
    all.filter_map(|encoding| make(encoding, true))
        .filter(|(_, body)| room.checked_sub(body.len()).map(|left| room = left).is_some())
        .collect()
}

/// Levels: for a kept body those beyond which size falls little while time and memory rise (measured with the example
/// `compress_levels`: zstd 9 takes three times the memory of 6 for 4 % less size); for a passing one the quick ones.
fn encode(encoding: Encoding, body: &[u8], kept: bool) -> Option<Bytes> {
    let out = match encoding {
        Encoding::Gzip => {
            let level = flate2::Compression::new(if kept { 6 } else { 1 });
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::with_capacity(body.len() / 4), level);
            encoder.write_all(body).ok()?;
            encoder.finish().ok()?
        }
        Encoding::Br => {
            let mut out = Vec::with_capacity(body.len() / 4);
            let quality = if kept { 6 } else { 2 };
            let params =
                brotli::enc::BrotliEncoderParams { quality, lgwin: 22, ..Default::default() };
            brotli::BrotliCompress(&mut &body[..], &mut out, &params).ok()?;
            out
        }
        Encoding::Zstd => zstd::bulk::compress(body, if kept { 6 } else { 1 }).ok()?,
    };
    Some(Bytes::from(out.into_boxed_slice()))
}

/// The response with `value`: 304 when the client has it, else the best encoding.
pub(crate) fn respond(value: &Value, request: &HeaderMap) -> Response {
    let encoding =
        Encodings::accepted(request).by_preference().find(|e| value.body(Some(*e)).is_some());
    let etag = value.etag(encoding).unwrap_or_default();
    let mut response = send(etag, value.content_type(), encoding, request, || {
        value.body(encoding).cloned().unwrap_or_default()
    });
    if value.weight() > SMALL as u64 {
        // The response is counted as the value, so that concurrent requests share its room.
        response.extensions_mut().insert(value.clone());
    }
    response
}

/// The response with the body of this ETag, which is made only for a client that does not have it.
pub(super) fn send(
    etag: &str,
    content_type: &str,
    encoding: Option<Encoding>,
    request: &HeaderMap,
    body: impl FnOnce() -> Bytes,
) -> Response {
    let mut response = if has_already(request, etag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let mut response = Response::new(Body::from(body()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, plain(content_type));
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
        }
        response
    };
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(header::ETAG, plain(etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    // Any cache may keep it but must revalidate each use: that costs a 304 and is never stale.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// ETags and media types are plain ASCII made here.
fn plain(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// `If-None-Match` by weak comparison (RFC 9110, 13.1.2): a proxy that recompressed may have weakened the ETag.
fn has_already(request: &HeaderMap, etag: &str) -> bool {
    request
        .get_all(header::IF_NONE_MATCH)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    const ALL: Compress = Compress { kept_within: Some(1 << 20), once: None };

    fn body() -> Vec<u8> {
        (0..2000).flat_map(|i| format!("[37.{i},126.{i}],").into_bytes()).collect()
    }

    #[test]
    fn every_encoding_decodes_to_the_same_bytes() {
        let once = |encoding| Compress { once: Some(encoding), ..Compress::NO };
        for compress in [ALL, once(Encoding::Br), once(Encoding::Zstd), once(Encoding::Gzip)] {
            let value = finish(body(), "application/json", compress);
            assert!(!value.parts().encoded.is_empty());
            for (encoding, bytes) in &value.parts().encoded {
                let mut out = Vec::new();
                match encoding {
                    Encoding::Gzip => {
                        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut out).map(drop)
                    }
                    Encoding::Br => brotli::BrotliDecompress(&mut &bytes[..], &mut out),
                    Encoding::Zstd => zstd::stream::copy_decode(&bytes[..], &mut out),
                }
                .unwrap();
                assert_eq!(out, body());
            }
        }
        assert!(finish(b"short".to_vec(), "text/plain", ALL).parts().encoded.is_empty());
    }

    #[test]
    fn a_body_too_large_to_keep_is_compressed_for_its_client_alone() {
        let made = |kept_within, once| {
            let value = finish(body(), "application/json", Compress { kept_within, once });
            value.parts().encoded.iter().map(|(encoding, _)| *encoding).collect::<Vec<_>>()
        };
        assert_eq!(made(Some(body().len()), Some(Encoding::Gzip)), [Encoding::Gzip]);
        assert_eq!(made(Some(body().len()), None), []);
        assert_eq!(made(Some(1 << 20), None).len(), 3);
        let one = finish(body(), "application/json", ALL).body(Some(Encoding::Br)).unwrap().len();
        assert_eq!(
            made(Some(body().len() + ENTRY_OVERHEAD_BYTES + one), None),
            [Encoding::Br],
            "what fits"
        );
    }

    #[test]
    fn a_known_tag_is_answered_304_whatever_its_strength() {
        let value = finish(body(), "application/json", ALL);
        let answer = |accept: &str, tag: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(accept).unwrap());
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(tag).unwrap());
            respond(&value, &headers).status()
        };
        let identity = value.etag(None).unwrap();
        let gzip = value.etag(Some(Encoding::Gzip)).unwrap();
        assert_eq!(answer("identity", identity), StatusCode::NOT_MODIFIED);
        assert_eq!(answer("gzip", &format!("\"x\", W/{gzip}")), StatusCode::NOT_MODIFIED);
        assert_eq!(answer("gzip", identity), StatusCode::OK, "another encoding is another body");
        assert_eq!(answer("gzip", "*"), StatusCode::NOT_MODIFIED);
    }
}
