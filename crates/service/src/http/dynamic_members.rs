//! Cached objects with uncached members, such as counts (docs/decisions/0012-appended-members.md).
//!
//! The cached body of a [`DynamicObject`] is a JSON object up to its last member, and the same compressed. A response
//! appends the members and the closing brace. Compressed, it is one gzip stream (RFC 1952): deflate blocks (RFC 1951)
//! with the prefix up to a byte boundary, one stored block with the rest, and the checksum, continued from that of
//! the prefix. The ETag is made of that of the prefix and of the members.

use super::body::{COMPRESS_FROM_BYTES, Compress, base_tag, send};
use super::negotiate::Encodings;
use axum::response::Response;
use bytes::Bytes;
use flate2::{Compress as Deflater, Compression, FlushCompress, Status};
use http::HeaderMap;
use madang_cache::{Encoding, Value, ValueParts};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::SystemTime;

/// Magic, deflate, no flags, no time, no hint, unknown system (RFC 1952, 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The checksum of the prefix follows its compressed form.
const CHECKSUM_BYTES: usize = 4;

/// Value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Number(i64),
    Flag(bool),
    Null,
}

impl From<i64> for Member {
    fn from(number: i64) -> Self {
        Member::Number(number)
    }
}

impl From<bool> for Member {
    fn from(flag: bool) -> Self {
        Member::Flag(flag)
    }
}

impl<T: Into<Member>> From<Option<T>> for Member {
    fn from(value: Option<T>) -> Self {
        value.map_or(Member::Null, Into::into)
    }
}

impl std::fmt::Display for Member {
    /// As in JSON.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Member::Number(number) => number.fmt(f),
            Member::Flag(flag) => flag.fmt(f),
            Member::Null => f.write_str("null"),
        }
    }
}

/// A JSON object that is sent with further members.
///
/// Its value is incomplete as a body: only [`respond`](Self::respond) sends it.
#[derive(Clone, Debug)]
pub(crate) struct DynamicObject(Value);

impl DynamicObject {
    /// The cache value of a JSON object; `None` for any other text. CPU-heavy when it compresses: run it on the
    /// compute pool.
    pub(crate) fn value(mut object: Vec<u8>, compress: Compress) -> Option<Value> {
        if object.first() != Some(&b'{') || object.pop() != Some(b'}') {
            return None;
        }
        let gzip = (compress != Compress::NO && object.len() >= COMPRESS_FROM_BYTES)
            .then(|| open_gzip(&object))
            .flatten();
        let etag_base = base_tag(&object);
        Some(Value::from_parts(ValueParts {
            identity: Bytes::from(object),
            encoded: gzip.map(|gzip| (Encoding::Gzip, gzip)).into_iter().collect(),
            content_type: "application/json".into(),
            etag_base,
            created: SystemTime::now(),
        }))
    }

    /// The version of a resource with this representation: the start of its ETags.
    pub(crate) fn version(object: &impl Serialize) -> Box<str> {
        // Numbers and strings into memory: cannot fail.
        let mut object = serde_json::to_vec(object).unwrap_or_default();
        object.pop();
        base_tag(&object)
    }

    pub(crate) fn new(value: Value) -> Self {
        Self(value)
    }

    /// The response of the object with these members behind its own, or 304. Names are letters and digits, and differ
    /// from those of the object.
    ///
    /// A response with data of its caller must be [marked](crate::response_cache::make_private).
    pub(crate) fn respond(
        &self,
        members: &[(&'static str, Member)],
        request: &HeaderMap,
    ) -> Response {
        let gzip = self.0.body(Some(Encoding::Gzip)).filter(|_| {
            Encodings::accepted(request).by_preference().any(|encoding| encoding == Encoding::Gzip)
        });
        let prefix = self.0.identity();
        let tail = tail(prefix.len() > 1, members);
        let (etag, encoding) = (self.etag(members, gzip.is_some()), gzip.map(|_| Encoding::Gzip));
        send(&etag, self.0.content_type(), encoding, request, || match gzip {
            Some(gzip) => close_gzip(gzip, prefix.len(), &tail),
            None => [prefix, &tail[..]].concat().into(),
        })
    }

    /// The strong tag of the object with these members.
    fn etag(&self, members: &[(&'static str, Member)], gzip: bool) -> String {
        let mut tag = format!("\"{}", self.0.parts().etag_base);
        for (name, member) in members {
            // No comma: lists of ETags are split at commas.
            let _ = write!(tag, ".{name}:{member}");
        }
        tag.push_str(if gzip { "-gzip\"" } else { "\"" });
        tag
    }
}

/// The members and the closing brace.
fn tail(mut comma: bool, members: &[(&'static str, Member)]) -> Vec<u8> {
    let mut tail = String::with_capacity(32 * members.len() + 1);
    for (name, member) in members {
        debug_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "{name} is to be escaped");
        let _ = write!(tail, "{}\"{name}\":{member}", if comma { "," } else { "" });
        comma = true;
    }
    tail.push('}');
    tail.into_bytes()
}

/// Header, deflate blocks of the prefix up to a byte boundary, and its checksum; `None` when that is not shorter.
fn open_gzip(prefix: &[u8]) -> Option<Bytes> {
    let mut out = Vec::with_capacity(prefix.len() + prefix.len() / 8 + 64);
    out.extend_from_slice(&GZIP_HEADER);
    let mut deflater = Deflater::new(Compression::new(6), false);
    // A sync flush ends with an empty stored block, which ends at a byte boundary (RFC 1951, 3.2.4).
    let status = deflater.compress_vec(prefix, &mut out, FlushCompress::Sync).ok()?;
    // Room left means that all output was written.
    let whole = deflater.total_in() == prefix.len() as u64 && out.len() < out.capacity();
    if status != Status::Ok || !whole || out.len() >= prefix.len() {
        return None;
    }
    out.extend_from_slice(&crc32fast::hash(prefix).to_le_bytes());
    Some(Bytes::from(out.into_boxed_slice()))
}

fn close_gzip(open: &[u8], prefix_bytes: usize, tail: &[u8]) -> Bytes {
    let (blocks, checksum) = open.split_at(open.len() - CHECKSUM_BYTES);
    let checksum = checksum.try_into().map_or(0, u32::from_le_bytes);
    let mut checksum = crc32fast::Hasher::new_with_initial(checksum);
    checksum.update(tail);
    // A stored block holds at most 65,535 bytes; the members have some hundred.
    let mut chunks = tail.chunks(usize::from(u16::MAX)).peekable();
    let mut out = Vec::with_capacity(blocks.len() + tail.len() + 32);
    out.extend_from_slice(blocks);
    while let Some(chunk) = chunks.next() {
        let bytes = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
        out.push(u8::from(chunks.peek().is_none()));
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(&(!bytes).to_le_bytes());
        out.extend_from_slice(chunk);
    }
    out.extend_from_slice(&checksum.finalize().to_le_bytes());
    // Modulo 2^32 by definition (RFC 1952, 2.3.1).
    #[allow(clippy::cast_possible_truncation, reason = "the format's own modulus")]
    let size = (prefix_bytes + tail.len()) as u32;
    out.extend_from_slice(&size.to_le_bytes());
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, StatusCode, header};
    use proptest::prelude::*;
    use std::io::Read as _;

    const MEMBERS: &[(&str, Member)] =
        &[("viewCount", Member::Number(17)), ("liked", Member::Null), ("new", Member::Flag(true))];

    fn kept() -> Compress {
        Compress::plan(true, Some(1 << 20), Encodings::default())
    }

    fn dynamic(object: &str) -> DynamicObject {
        DynamicObject::new(DynamicObject::value(object.as_bytes().to_vec(), kept()).unwrap())
    }

    fn long() -> String {
        let filler: String = (0..500).map(|i| format!("시장 {i} ")).collect();
        serde_json::json!({ "id": 7, "name": filler }).to_string()
    }

    /// Status, ETag and decoded body for a client that accepts `accept` and has `known`.
    fn ask(
        dynamic: &DynamicObject,
        members: &[(&'static str, Member)],
        accept: &'static str,
        known: Option<&str>,
    ) -> (StatusCode, String, Option<String>, Vec<u8>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
        if let Some(known) = known {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
        }
        let (head, body) = dynamic.respond(members, &headers).into_parts();
        let text = |name| head.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(axum::body::to_bytes(body, usize::MAX)).unwrap();
        (head.status, text(header::ETAG).unwrap(), text(header::CONTENT_ENCODING), body.to_vec())
    }

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let (mut reader, mut out) = (flate2::bufread::GzDecoder::new(bytes), Vec::new());
        reader.read_to_end(&mut out).unwrap();
        assert!(reader.into_inner().is_empty(), "one stream, and nothing behind it");
        out
    }

    #[test]
    fn members_stand_behind_those_of_the_object() {
        let (_, _, encoding, body) = ask(&dynamic(r#"{"id":7}"#), MEMBERS, "gzip", None);
        assert_eq!(encoding, None, "too short to compress");
        assert_eq!(body, br#"{"id":7,"viewCount":17,"liked":null,"new":true}"#);
        let (.., body) = ask(&dynamic("{}"), MEMBERS, "", None);
        assert_eq!(body, br#"{"viewCount":17,"liked":null,"new":true}"#);
        let (.., body) = ask(&dynamic(r#"{"id":7}"#), &[], "", None);
        assert_eq!(body, br#"{"id":7}"#);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "}", "{", "[]", "7", "{]"] {
            assert!(DynamicObject::value(text.as_bytes().to_vec(), kept()).is_none(), "{text}");
        }
    }

    #[test]
    fn the_tag_follows_the_members_and_the_coding() {
        let dynamic = dynamic(&long());
        let tag = |members, accept| ask(&dynamic, members, accept, None).1;
        let seven: &[(&str, Member)] = &[("n", Member::Number(7))];
        let eight: &[(&str, Member)] = &[("n", Member::Number(8))];
        let tags = [tag(seven, ""), tag(eight, ""), tag(seven, "gzip"), tag(eight, "gzip")];
        for (i, tag) in tags.iter().enumerate() {
            assert!(!tags[..i].contains(tag), "{tags:?}");
        }
        assert_eq!(ask(&dynamic, seven, "", Some(&tags[0])).0, StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&dynamic, seven, "br, gzip", Some(&tags[2])).0, StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&dynamic, eight, "", Some(&tags[0])).0, StatusCode::OK);
        assert_eq!(ask(&dynamic, seven, "gzip", Some(&tags[0])).0, StatusCode::OK);
        let list = format!("\"x\", W/{}", tags[1]);
        assert_eq!(ask(&dynamic, eight, "", Some(&list)).0, StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn clients_without_gzip_get_the_object_as_it_is() {
        let dynamic = dynamic(&long());
        for accept in ["", "identity", "br", "gzip;q=0", "zstd"] {
            assert_eq!(ask(&dynamic, MEMBERS, accept, None).2, None, "{accept}");
        }
        let plain =
            DynamicObject::new(DynamicObject::value(long().into_bytes(), Compress::NO).unwrap());
        assert_eq!(ask(&plain, MEMBERS, "gzip", None).2, None, "compression is off");
        let (_, _, encoding, body) = ask(&dynamic, MEMBERS, "br, zstd, gzip", None);
        assert_eq!(encoding.as_deref(), Some("gzip"));
        assert!(body.len() < long().len() / 2, "{}", body.len());
    }

    proptest! {
        #[test]
        fn a_stream_decodes_to_the_object_and_its_members(
            text in "[ -~가-힣]{0,9000}", repeat in 1usize..8, number: i64, flag: Option<bool>,
        ) {
            let object = serde_json::json!({ "text": text.repeat(repeat) }).to_string();
            let members: &[(&str, Member)] = &[("n", number.into()), ("flag", flag.into())];
            let dynamic = dynamic(&object);
            let (_, _, encoding, body) = ask(&dynamic, members, "gzip", None);
            let body = if encoding.is_some() { gunzip(&body) } else { body };
            let wanted = format!("{},\"n\":{number},\"flag\":{}}}", &object[..object.len() - 1],
                flag.map_or("null".to_owned(), |flag| flag.to_string()));
            prop_assert_eq!(String::from_utf8(body).unwrap(), wanted);
        }

        #[test]
        fn any_bytes_and_any_tail_make_one_stream(prefix in prop::collection::vec(any::<u8>(), 0..4000), repeat in 1usize..40, tail in prop::collection::vec(any::<u8>(), 1..70_000)) {
            let prefix = prefix.repeat(repeat);
            if let Some(open) = open_gzip(&prefix) {
                let body = close_gzip(&open, prefix.len(), &tail);
                prop_assert_eq!(gunzip(&body), [prefix, tail].concat());
            }
        }
    }
}
