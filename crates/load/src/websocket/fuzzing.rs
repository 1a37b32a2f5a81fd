//! A target of the fuzzer that needs what only this module sees.

use super::deflate;
use super::frame::{Decoder, End, Incoming};

/// Frames of a server, whole and byte by byte; the same bytes as a compressed payload.
pub(crate) fn frames(data: &[u8]) {
    for inflates in [false, true] {
        let whole = decode(&mut std::iter::once(data), inflates);
        assert_eq!(decode(&mut data.chunks(1), inflates), whole);
    }
    let packed = deflate::compress(data).expect("bytes in memory");
    assert_eq!(deflate::decompress(&packed).ok().flatten().as_deref(), Some(data));
    let _ = deflate::decompress(data);
}

fn decode(pieces: &mut dyn Iterator<Item = &[u8]>, inflates: bool) -> (Vec<Incoming>, Option<End>) {
    let (mut decoder, mut found) = (Decoder::new(inflates), Vec::new());
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(end) => return (found, Some(end)),
            }
        }
    }
    (found, None)
}
