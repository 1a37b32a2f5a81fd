//! `permessage-deflate` without context takeover (RFC 7692 §7), the only mode that k6 offers.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::MAX_MESSAGE_BYTES;

/// Bytes that a sender omits at the end of a message, and a last block for the decoder.
const TAIL: [u8; 9] = [0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff];

/// Length of the omitted part of [`TAIL`].
const OMITTED_BYTES: usize = 4;

pub(super) fn compress(payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(payload)?;
    encoder.flush()?;
    let mut out = std::mem::take(encoder.get_mut());
    out.truncate(out.len().saturating_sub(OMITTED_BYTES));
    Ok(out)
}

/// Undoes [`compress`]; `None` if the message would exceed [`MAX_MESSAGE_BYTES`].
pub(super) fn decompress(payload: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let decoder = DeflateDecoder::new(payload.chain(TAIL.as_slice()));
    decoder.take(MAX_MESSAGE_BYTES as u64 + 1).read_to_end(&mut out)?;
    Ok((out.len() <= MAX_MESSAGE_BYTES).then_some(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_read() {
        // RFC 7692 §7.2.3.1.
        let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(decompress(&hello).unwrap().unwrap(), b"Hello");
    }

    #[test]
    fn compressed_payloads_are_restored() {
        for payload in [b"".as_slice(), b"a\0b", &[7; 100_000]] {
            let packed = compress(payload).unwrap();
            assert_eq!(decompress(&packed).unwrap().unwrap(), payload);
        }
    }

    #[test]
    fn a_message_that_would_become_too_large_is_refused() {
        let bomb = compress(&vec![0; MAX_MESSAGE_BYTES + 1]).unwrap();
        assert!(bomb.len() < MAX_MESSAGE_BYTES / 100);
        assert_eq!(decompress(&bomb).unwrap(), None);
    }
}
