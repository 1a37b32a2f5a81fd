//! A record of the log: the state of pairs of article and user after a batch.
//!
//! ```text
//! 1                              the format
//! number of pairs that are liked
//! pairs that are liked           each by article, then by user
//! pairs that are not             likewise, to the end
//! ```
//!
//! A pair is its article, as the difference from the one before, and its user. Numbers are written seven
//! bits a byte, the lowest first (LEB128, as in DWARF 5, 7.6); differences wrap around and have their sign
//! in the lowest bit. A like spread over many articles takes three or four bytes.

use super::Pair;

const FORMAT: u8 = 1;

/// A record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    /// Written by a newer program, or by another one.
    #[error("unknown format")]
    Format,
    /// It ends within a number, or before its number of pairs is reached.
    #[error("the record is cut off")]
    CutOff,
    /// A number has more than 64 bits.
    #[error("a number is too large")]
    TooLarge,
}

/// Encodes pairs and their states; sorted pairs are shortest.
pub(crate) fn write(pairs: &[(Pair, bool)]) -> Vec<u8> {
    let liked = pairs.iter().filter(|(_, liked)| *liked).count();
    let mut bytes = Vec::with_capacity(8 + 5 * pairs.len());
    bytes.push(FORMAT);
    write_number(&mut bytes, liked as u64);
    for which in [true, false] {
        let mut before = 0i64;
        for ((article, user), _) in pairs.iter().filter(|(_, liked)| *liked == which) {
            let step = article.wrapping_sub(before);
            write_number(&mut bytes, ((step << 1) ^ (step >> 63)).cast_unsigned());
            write_number(&mut bytes, user.cast_unsigned());
            before = *article;
        }
    }
    bytes
}

/// Reads what [`write`] has written.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<(Pair, bool)>, RecordError> {
    let (&FORMAT, mut rest) = bytes.split_first().ok_or(RecordError::CutOff)? else {
        return Err(RecordError::Format);
    };
    let liked = read_number(&mut rest)?;
    let mut pairs = Vec::new();
    let mut article = 0i64;
    // A pair takes two bytes at least, so a wrong number is bounded by the bytes.
    for _ in 0..liked {
        pairs.push((read_pair(&mut rest, &mut article)?, true));
    }
    article = 0;
    while !rest.is_empty() {
        pairs.push((read_pair(&mut rest, &mut article)?, false));
    }
    Ok(pairs)
}

fn read_pair(rest: &mut &[u8], article: &mut i64) -> Result<Pair, RecordError> {
    let step = read_number(rest)?;
    let step = (step >> 1).cast_signed() ^ -(step & 1).cast_signed();
    *article = article.wrapping_add(step);
    Ok((*article, read_number(rest)?.cast_signed()))
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(rest: &mut &[u8]) -> Result<u64, RecordError> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(RecordError::CutOff)?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        number |= bits << shift;
        if number >> shift != bits {
            return Err(RecordError::TooLarge);
        }
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(RecordError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn id() -> impl Strategy<Value = i64> {
        prop_oneof![0i64..1000, any::<i64>(), Just(i64::MAX), Just(i64::MIN)]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pairs in prop::collection::btree_map((id(), id()), any::<bool>(), 0..60)) {
            let pairs: Vec<_> = pairs.into_iter().collect();
            let read: BTreeMap<_, _> = read(&write(&pairs)).unwrap().into_iter().collect();
            prop_assert_eq!(read.into_iter().collect::<Vec<_>>(), pairs);
        }

        #[test]
        fn anything_else_is_refused_or_read_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes);
            let mut known = vec![FORMAT];
            known.extend(&bytes);
            let _ = read(&known);
        }
    }

    #[test]
    fn a_spread_like_takes_four_bytes_and_what_is_damaged_is_named() {
        let pairs: Vec<_> = (0..37).map(|n| ((7 + 1351 * n, 40 + n), true)).collect();
        let bytes = write(&pairs);
        assert!(bytes.len() <= 2 + 4 * 37, "{}", bytes.len());
        assert_eq!(read(&[]), Err(RecordError::CutOff));
        assert_eq!(read(&bytes[..bytes.len() - 1]), Err(RecordError::CutOff));
        assert_eq!(read(&[2, 0]), Err(RecordError::Format));
        assert_eq!(read(&[FORMAT, 255]), Err(RecordError::CutOff));
        assert_eq!(read(&[[FORMAT].as_slice(), &[255; 10]].concat()), Err(RecordError::TooLarge));
        assert_eq!(
            read(&[FORMAT, 2, 2, 9]),
            Err(RecordError::CutOff),
            "it says that there are two"
        );
    }
}
