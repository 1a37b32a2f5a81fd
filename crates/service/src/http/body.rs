//! Finished bodies: compressed once, told apart by a strong ETag for each encoding, answered with
//! 304 when the client has them already.

use super::negotiate::Encodings;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use madang_cache::{Encoding, Value, ValueParts};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::time::SystemTime;

/// Below this a compressed body saves no packet.
const COMPRESS_FROM_BYTES: usize = 860;

/// Which encodings to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// None.
    No,
    /// All, for a body that is kept and sent many times.
    All,
    /// One, quickly, for a body that is sent once.
    Once(Encoding),
}

impl Compress {
    /// What to make for a body: everything when it is kept, else what this client prefers.
    pub fn plan(enabled: bool, kept: bool, client: Encodings) -> Compress {
        match (enabled, kept, client.by_preference().next()) {
            (false, ..) | (true, false, None) => Compress::No,
            (true, true, _) => Compress::All,
            (true, false, Some(encoding)) => Compress::Once(encoding),
        }
    }
}

/// Makes a finished body with its ETag and encodings. CPU-heavy: belongs on the compute pool.
pub fn finish(identity: Vec<u8>, content_type: &'static str, compress: Compress) -> Value {
    let digest = Sha256::digest(&identity);
    // 96 bits: a collision between two bodies of one resource is out of the question.
    let etag_base: String = digest.iter().take(12).map(|b| format!("{b:02x}")).collect();
    let wanted: &[Encoding] = match &compress {
        _ if identity.len() < COMPRESS_FROM_BYTES => &[],
        Compress::No => &[],
        Compress::All => &[Encoding::Br, Encoding::Zstd, Encoding::Gzip],
        Compress::Once(encoding) => std::slice::from_ref(encoding),
    };
    let kept = compress == Compress::All;
    let encoded = wanted
        .iter()
        .filter_map(|encoding| Some((*encoding, encode(*encoding, &identity, kept)?)))
        .filter(|(_, body)| body.len() < identity.len())
        .collect();
    Value::from_parts(ValueParts {
        identity: Bytes::from(identity),
        encoded,
        content_type: content_type.into(),
        etag_base: etag_base.into(),
        created: SystemTime::now(),
    })
}

/// Levels: for a kept body those after which size falls little while time and memory rise (measured
/// with the example `compress_levels`: zstd 9 takes three times the memory of 6 for 4 % less size);
/// for a passing one the quick ones.
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

/// The answer that carries `value` to a client with these headers: 304 when it has it, else the
/// best encoding there is of it.
pub fn respond(value: &Value, request: &HeaderMap) -> Response {
    let encoding =
        Encodings::accepted(request).by_preference().find(|e| value.body(Some(*e)).is_some());
    let etag = value.etag(encoding).unwrap_or_default();
    let mut response = if has_already(request, etag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let body = value.body(encoding).cloned().unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, plain(value.content_type()));
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.as_str()));
        }
        response
    };
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(header::ETAG, plain(etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    // Anyone may keep it, but must ask before each use: that costs a 304 and is never stale.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Tags and media types are made here from plain ASCII; anything else would be a bug, not a panic.
fn plain(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// `If-None-Match` by weak comparison (RFC 9110, 13.1.2): a proxy that recompressed may have
/// weakened the tag.
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

    fn body() -> Vec<u8> {
        (0..2000).flat_map(|i| format!("[37.{i},126.{i}],").into_bytes()).collect()
    }

    #[test]
    fn every_encoding_decodes_to_the_same_bytes() {
        for compress in [
            Compress::All,
            Compress::Once(Encoding::Br),
            Compress::Once(Encoding::Zstd),
            Compress::Once(Encoding::Gzip),
        ] {
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
        assert!(finish(b"short".to_vec(), "text/plain", Compress::All).parts().encoded.is_empty());
    }

    #[test]
    fn a_known_tag_is_answered_304_whatever_its_strength() {
        let value = finish(body(), "application/json", Compress::All);
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
