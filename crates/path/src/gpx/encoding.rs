//! Decodes the bytes of an XML file to text.

use std::borrow::Cow;

use crate::error::{ReadError, TextPosition, excerpt};

/// The text of an XML file, without byte-order mark.
///
/// UTF-8 is borrowed. UTF-16 is decoded if the file begins with its byte-order mark or with `<` in it
/// (XML 1.0, appendix F), ISO-8859-1 if it is declared. Any other declared encoding is accepted only in
/// a pure ASCII file: a guess would corrupt names silently.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, ReadError> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => return utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xFE, 0xFF, rest @ ..] => return utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        [b'<', 0, ..] => return utf16(bytes, u16::from_le_bytes).map(Cow::Owned),
        [0, b'<', ..] => return utf16(bytes, u16::from_be_bytes).map(Cow::Owned),
        [0xEF, 0xBB, 0xBF, rest @ ..] => return utf8(rest).map(Cow::Borrowed),
        _ => {}
    }
    match declared_encoding(bytes) {
        Some(label) if is(label, &["iso-8859-1", "iso8859-1", "iso_8859-1", "latin1"]) => {
            Ok(Cow::Owned(bytes.iter().copied().map(char::from).collect()))
        }
        Some(label) if !is(label, &["utf-8", "utf8", "us-ascii", "ascii"]) && !bytes.is_ascii() => {
            Err(ReadError::Encoding(excerpt(&String::from_utf8_lossy(label))))
        }
        _ => utf8(bytes).map(Cow::Borrowed),
    }
}

fn is(label: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| label.eq_ignore_ascii_case(name.as_bytes()))
}

fn utf8(bytes: &[u8]) -> Result<&str, ReadError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        ReadError::NotText { encoding: "UTF-8", place: TextPosition::of(&valid, valid.len()) }
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, ReadError> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len() / 2);
    let refused = |text: &str| ReadError::NotText {
        encoding: "UTF-16",
        place: TextPosition::of(text, text.len()),
    };
    for decoded in char::decode_utf16(pairs.iter().map(|&pair| unit(pair))) {
        match decoded {
            Ok(c) => text.push(c),
            Err(_) => return Err(refused(&text)),
        }
    }
    if odd.is_empty() { Ok(text) } else { Err(refused(&text)) }
}

/// The label in `<?xml … encoding="label"?>`, if the file begins with one.
fn declared_encoding(bytes: &[u8]) -> Option<&[u8]> {
    /// A declaration has at most three short attributes.
    const LONGEST_DECLARATION: usize = 256;
    const KEY: &[u8] = b"encoding";
    let bytes = bytes.trim_ascii_start().strip_prefix(b"<?xml")?;
    let declaration = &bytes[..bytes.len().min(LONGEST_DECLARATION)];
    let declaration = &declaration[..declaration.iter().position(|&b| b == b'>')?];
    let key = declaration.windows(KEY.len()).position(|window| window == KEY)?;
    let value = declaration[key + KEY.len()..].trim_ascii_start().strip_prefix(b"=")?;
    let (&quote, value) = value.trim_ascii_start().split_first()?;
    let end = value.iter().position(|&b| b == quote)?;
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_encoding_is_found_in_every_spelling() {
        let label = |text: &'static str| declared_encoding(text.as_bytes());
        assert_eq!(label("<?xml version='1.0' encoding = 'EUC-KR' ?>"), Some(&b"EUC-KR"[..]));
        assert_eq!(label("\n<?xml encoding=\"utf-8\"?>"), Some(&b"utf-8"[..]));
        assert_eq!(label("<?xml version=\"1.0\"?><a encoding='x'>"), None);
        assert_eq!(label("<gpx encoding='x'>"), None);
        assert_eq!(label("<?xml encoding="), None);
        assert_eq!(label("<?xml encoding='x>"), None);
    }

    #[test]
    fn utf16_of_both_byte_orders_and_latin1_are_decoded() {
        let text = "<?xml version='1.0' encoding='utf-16'?><gpx>올레😀</gpx>";
        let units: Vec<u16> = text.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|u| u.to_be_bytes()).collect();
        assert_eq!(decode(&little).unwrap(), text);
        assert_eq!(decode(&big).unwrap(), text);
        assert_eq!(decode(&[b"\xFF\xFE", &little[..]].concat()).unwrap(), text);
        assert_eq!(decode(&[b"\xFE\xFF", &big[..]].concat()).unwrap(), text);
        let latin1 = b"<?xml version='1.0' encoding='ISO-8859-1'?><gpx>caf\xE9</gpx>";
        assert!(decode(latin1).unwrap().ends_with("<gpx>café</gpx>"));
    }

    #[test]
    fn text_that_is_not_in_its_encoding_is_refused_with_the_place() {
        let place = TextPosition { line: 2, column: 3 };
        assert_eq!(decode(b"<a>\nbc\xFF"), Err(ReadError::NotText { encoding: "UTF-8", place }));
        let place = TextPosition { line: 1, column: 2 };
        let odd = decode(b"\xFF\xFE<\0a");
        assert_eq!(odd, Err(ReadError::NotText { encoding: "UTF-16", place }));
        let lone_surrogate = decode(b"\xFF\xFE<\0\x00\xD8a\0");
        assert_eq!(lone_surrogate, Err(ReadError::NotText { encoding: "UTF-16", place }));
        let korean = b"<?xml version='1.0' encoding='EUC-KR'?><gpx>\xBF\xC3</gpx>";
        assert_eq!(decode(korean), Err(ReadError::Encoding("EUC-KR".into())));
        assert!(decode(b"<?xml version='1.0' encoding='EUC-KR'?><gpx/>").is_ok());
    }
}
