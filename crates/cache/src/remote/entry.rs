//! A body with its label as bytes.
//!
//! ```text
//! version (1 byte) | CRC-32 of what follows (u32) | label length (u16) | label | media type length (u16) | media type | tag length (u16) | tag
//! | made, ms since 1970 (u64) | codings (u8) | identity length (u32) | per coding: number (u8), length (u32) | bodies
//! ```
//! Numbers are little-endian. An entry of another version is treated as missing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::value::{Encoding, Value, ValueParts};

const VERSION: u8 = 1;
/// Bytes that the checksum does not cover.
const BEFORE: usize = 5;
const CODINGS: [Encoding; 3] = [Encoding::Gzip, Encoding::Br, Encoding::Zstd];

pub(crate) fn encode(label: &[u8], value: &Value) -> Vec<u8> {
    let ValueParts { identity, encoded, content_type, etag_base, created } = value.parts();
    let bodies: usize = identity.len() + encoded.iter().map(|(_, body)| body.len()).sum::<usize>();
    let mut bytes =
        Vec::with_capacity(bodies + label.len() + content_type.len() + etag_base.len() + 64);
    bytes.push(VERSION);
    bytes.extend([0; 4]);
    for text in [label, content_type.as_bytes(), etag_base.as_bytes()] {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        bytes.extend(length.to_le_bytes());
        bytes.extend(&text[..usize::from(length)]);
    }
    let made = created.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    bytes.extend(u64::try_from(made).unwrap_or(u64::MAX).to_le_bytes());
    bytes.push(u8::try_from(encoded.len()).unwrap_or(u8::MAX));
    bytes.extend(length(identity).to_le_bytes());
    for (coding, body) in encoded {
        let number = CODINGS.iter().position(|known| known == coding).unwrap_or_default();
        bytes.push(u8::try_from(number).unwrap_or(u8::MAX));
        bytes.extend(length(body).to_le_bytes());
    }
    bytes.extend_from_slice(identity);
    encoded.iter().for_each(|(_, body)| bytes.extend_from_slice(body));
    let checksum = crc32fast::hash(&bytes[BEFORE..]);
    bytes[1..BEFORE].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Bodies are bounded by the policies' `max_entry_bytes`.
fn length(body: &Bytes) -> u32 {
    u32::try_from(body.len()).unwrap_or(u32::MAX)
}

/// The label and the body; `None` if these are not such bytes.
pub(crate) fn decode(bytes: Vec<u8>) -> Option<(Vec<u8>, Value)> {
    let mut rest = Bytes::from(bytes);
    if take::<1>(&mut rest)? != [VERSION] {
        return None;
    }
    let checksum = u32::from_le_bytes(take(&mut rest)?);
    if checksum != crc32fast::hash(&rest) {
        return None;
    }
    let label = text(&mut rest)?.to_vec();
    let content_type = header(&text(&mut rest)?)?;
    let etag_base = header(&text(&mut rest)?)?;
    let made = Duration::from_millis(u64::from_le_bytes(take(&mut rest)?));
    let [codings] = take(&mut rest)?;
    let identity = u32::from_le_bytes(take(&mut rest)?);
    let mut lengths = Vec::new();
    for _ in 0..codings {
        let [number] = take(&mut rest)?;
        lengths.push((*CODINGS.get(usize::from(number))?, u32::from_le_bytes(take(&mut rest)?)));
    }
    let identity = body(&mut rest, identity)?;
    let mut encoded = Vec::with_capacity(lengths.len());
    for (coding, length) in lengths {
        encoded.push((coding, body(&mut rest, length)?));
    }
    let created = SystemTime::UNIX_EPOCH.checked_add(made)?;
    let parts = ValueParts {
        identity,
        encoded,
        content_type: content_type.into(),
        etag_base: etag_base.into(),
        created,
    };
    rest.is_empty().then(|| (label, Value::from_parts(parts)))
}

/// Text that is valid in a response header.
fn header(bytes: &[u8]) -> Option<String> {
    let is_visible = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'"';
    bytes.iter().all(is_visible).then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn take<const N: usize>(rest: &mut Bytes) -> Option<[u8; N]> {
    let taken = rest.get(..N)?.try_into().ok()?;
    let _ = rest.split_to(N);
    Some(taken)
}

fn text(rest: &mut Bytes) -> Option<Bytes> {
    let length = u16::from_le_bytes(take(rest)?);
    (rest.len() >= usize::from(length)).then(|| rest.split_to(usize::from(length)))
}

fn body(rest: &mut Bytes, length: u32) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    (rest.len() >= length).then(|| rest.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> Value {
        Value::from_parts(ValueParts {
            identity: Bytes::from_static(b"0123456789"),
            encoded: vec![
                (Encoding::Zstd, Bytes::from_static(b"zz")),
                (Encoding::Br, Bytes::from_static(b"")),
            ],
            content_type: "application/json".into(),
            etag_base: "a1".into(),
            created: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        })
    }

    #[test]
    fn what_was_written_is_read_again() {
        assert_eq!(decode(encode(b"label", &value())), Some((b"label".to_vec(), value())));
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_no_body(
            at in 0usize..80, byte: u8, length in 0usize..80,
        ) {
            let whole = encode(b"label", &value());
            let mut damaged = whole.clone();
            let at = at % whole.len();
            damaged[at] = byte;
            prop_assert_eq!(decode(damaged).is_some(), byte == whole[at]);
            let cut = whole[..length.min(whole.len() - 1)].to_vec();
            prop_assert_eq!(decode(cut), None);
        }

        /// Another program may write there, with a valid checksum.
        #[test]
        fn any_bytes_are_survived_and_headers_are_sound(rest: Vec<u8>, at in 0usize..80, byte: u8) {
            let mut whole = encode(b"label", &value());
            let at = BEFORE + at % (whole.len() - BEFORE);
            whole[at] = byte;
            for rest in [rest, whole.split_off(BEFORE)] {
                let mut bytes = vec![VERSION];
                bytes.extend(crc32fast::hash(&rest).to_le_bytes());
                bytes.extend(rest);
                if let Some((_, value)) = decode(bytes) {
                    let mut texts = value.content_type().bytes().chain(value.etag(None).unwrap().bytes());
                    prop_assert!(texts.all(|byte| (b' '..=b'~').contains(&byte)));
                }
            }
        }
    }
}
