//! The key of a row in the progress of a copy: exact, with types, because SQLite compares text and bytes differently.

use crate::hex;

pub(crate) use rusqlite::types::Value as Part;

/// `i17 r3ff0000000000000 t616263 b00ff`.
pub(crate) fn encode(key: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Integer(number) => format!("i{number}"),
        Part::Real(number) => format!("r{}", hex(&number.to_bits().to_be_bytes())),
        Part::Text(text) => format!("t{}", hex(text.as_bytes())),
        Part::Blob(bytes) => format!("b{}", hex(bytes)),
        // Keys have no nulls.
        Part::Null => String::new(),
    };
    key.iter().map(part).collect::<Vec<_>>().join(" ")
}

/// Reads a key written by [`encode`].
pub(crate) fn decode(text: &str) -> Option<Vec<Part>> {
    text.split(' ').map(part).collect()
}

fn part(text: &str) -> Option<Part> {
    let (kind, rest) = text.split_at_checked(1)?;
    let bytes = || base16ct::lower::decode_vec(rest).ok();
    Some(match kind {
        "i" => Part::Integer(rest.parse().ok()?),
        "r" => Part::Real(f64::from_bits(u64::from_be_bytes(bytes()?.try_into().ok()?))),
        "t" => Part::Text(String::from_utf8(bytes()?).ok()?),
        "b" => Part::Blob(bytes()?),
        _ => return None,
    })
}

/// The key in messages, without bytes.
pub(super) fn shown(key: &[Part]) -> String {
    let parts: Vec<_> = key
        .iter()
        .map(|part| match part {
            Part::Integer(number) => number.to_string(),
            Part::Real(number) => number.to_string(),
            Part::Text(text) => text.clone(),
            Part::Blob(_) | Part::Null => "(bytes)".to_owned(),
        })
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let keys = [
            vec![Part::Integer(-1), Part::Text("서울 t".to_owned())],
            vec![Part::Real(0.1), Part::Real(-127.123_456_7), Part::Integer(i64::MAX)],
            vec![Part::Blob(vec![0, 255]), Part::Text(String::new())],
        ];
        for key in keys {
            assert_eq!(decode(&encode(&key)), Some(key.clone()), "{}", encode(&key));
        }
        for wrong in ["", "x1", "i", "r00", "b0", "tzz"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
