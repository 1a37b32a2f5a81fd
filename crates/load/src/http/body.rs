//! Chunked bodies (RFC 9112 §7.1), decoded as they arrive.

use super::{RequestError, Result};

/// Limit of a chunk-size line with its extensions, and of the trailer section.
const MAX_LINE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    TrailerStart,
    TrailerLine,
    TrailerEnd,
    Done,
}

#[derive(Debug)]
pub(super) struct ChunkedDecoder {
    state: ChunkState,
    remaining: u64,
    digits: u8,
    line_bytes: usize,
}

impl ChunkedDecoder {
    pub(super) fn new() -> Self {
        Self { state: ChunkState::Size, remaining: 0, digits: 0, line_bytes: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Passes decoded bytes to `sink` and returns the number of bytes read: all of `input` unless the body is complete.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<usize> {
        let mut at = 0;
        while at < input.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let take =
                    usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.len() - at);
                sink(&input[at..at + take])?;
                at += take;
                self.remaining -= take as u64;
                if self.remaining == 0 {
                    self.state = ChunkState::DataCarriageReturn;
                }
            } else {
                self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<()> {
        self.line_bytes += 1;
        if self.line_bytes > MAX_LINE_BYTES {
            return Err(RequestError::Malformed("a chunk's line or the trailer is too long"));
        }
        self.state = match (self.state, byte) {
            (ChunkState::Size, _) if byte.is_ascii_hexdigit() => {
                self.digits += 1;
                if self.digits > 15 {
                    return Err(RequestError::Malformed("a chunk is too large"));
                }
                let digit = u64::from((byte as char).to_digit(16).unwrap_or_default());
                self.remaining = self.remaining * 16 + digit;
                ChunkState::Size
            }
            (ChunkState::Size, _) if self.digits == 0 => {
                return Err(RequestError::Malformed("a chunk without a size"));
            }
            (ChunkState::Size | ChunkState::Extension, b'\r') => ChunkState::SizeLineFeed,
            (ChunkState::Size, b';' | b' ' | b'\t') => ChunkState::Extension,
            (ChunkState::Extension, _) if byte != b'\n' => ChunkState::Extension,
            (ChunkState::SizeLineFeed, b'\n') => {
                self.line_bytes = 0;
                self.digits = 0;
                if self.remaining == 0 { ChunkState::TrailerStart } else { ChunkState::Data }
            }
            (ChunkState::DataCarriageReturn, b'\r') => ChunkState::DataLineFeed,
            (ChunkState::DataLineFeed, b'\n') => {
                self.line_bytes = 0;
                ChunkState::Size
            }
            (ChunkState::TrailerStart, b'\r') => ChunkState::TrailerEnd,
            (ChunkState::TrailerStart | ChunkState::TrailerLine, _) if byte != b'\n' => {
                ChunkState::TrailerLine
            }
            (ChunkState::TrailerLine, b'\n') => ChunkState::TrailerStart,
            (ChunkState::TrailerEnd, b'\n') => ChunkState::Done,
            _ => return Err(RequestError::Malformed("a chunk's framing")),
        };
        Ok(())
    }
}

/// The body, whether it is complete, and the number of bytes read.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn decode<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<(Vec<u8>, bool, usize)> {
    let (mut decoder, mut body, mut read) = (ChunkedDecoder::new(), Vec::new(), 0);
    for piece in pieces {
        read += decoder.decode(piece, |data| {
            body.extend_from_slice(data);
            Ok(())
        })?;
    }
    Ok((body, decoder.is_done(), read))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chunks_extensions_and_trailers_are_read() {
        let text = b"5;a=b\r\nhello\r\n1 \r\n!\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.1 next";
        let (body, done, read) = decode([&text[..]]).unwrap();
        assert_eq!((body.as_slice(), done), (&b"hello!"[..], true));
        assert_eq!(&text[read..], b"HTTP/1.1 next");
    }

    #[test]
    fn broken_framing_is_refused() {
        for text in [
            "x\r\n", "\r\n", "5\nhello", "5\r\nhelloX\r\n", "1111111111111111\r\n",
            "5\r\nhello\r\r",
        ] {
            assert!(decode([text.as_bytes()]).is_err(), "{text:?}");
        }
        let endless = format!("5;{}", "x".repeat(MAX_LINE_BYTES));
        assert!(decode([endless.as_bytes()]).is_err());
        let trailers = format!("0\r\n{}", "A: b\r\n".repeat(MAX_LINE_BYTES));
        assert!(decode([trailers.as_bytes()]).is_err());
    }

    proptest! {
        #[test]
        fn the_body_does_not_depend_on_where_the_pieces_are_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            cut in 1usize..20,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend(format!("{:x}\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let (body, done, read) = decode(wire.chunks(cut)).unwrap();
            prop_assert!(done);
            prop_assert_eq!(read, wire.len());
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode([&bytes[..]]);
        }
    }
}
