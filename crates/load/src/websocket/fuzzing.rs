//! Fuzz target for private parts of this module.

use super::deflate;
use super::frame::{Decoder, End, Incoming};

/// Frames of a server, whole and byte by byte; the same bytes as a compressed payload.
pub(crate) fn frames(data: &[u8]) {
    for inflates in [false, true] {
        let decode = |pieces| decode(&mut Decoder::new(inflates), pieces);
        assert_eq!(decode(data.chunks(1)), decode(data.chunks(data.len().max(1))));
    }
    let packed = deflate::compress(data).expect("bytes in memory");
    assert_eq!(deflate::decompress(&packed).ok().flatten().as_deref(), Some(data));
    let _ = deflate::decompress(data);
}

/// Feeds the pieces to a decoder until its end.
pub(super) fn decode<'d>(
    decoder: &mut Decoder,
    pieces: impl Iterator<Item = &'d [u8]>,
) -> (Vec<Incoming>, Option<End>) {
    let mut messages = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(end) => return (messages, Some(end)),
            }
        }
    }
    (messages, None)
}
