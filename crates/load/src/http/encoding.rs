//! `Content-Encoding` (RFC 9110 §8.4): gzip, deflate (zlib), br and zstd, both ways.

use std::io::{self, Read, Write as _};

use super::RequestError;

/// Size limit of a decoded body: a few kilobytes can decode to gigabytes, and every virtual user may have a body.
pub(crate) const MAX_DECODED_BYTES: usize = 64 * 1024 * 1024;

/// Limit of codings of a body; each multiplies the work that a small body causes.
const MAX_CODINGS: usize = 4;

/// Window limit of a zstd frame, 8 MiB, as RFC 8878 §3.1.1.1.2 recommends: the first bytes of a frame decide how much
/// is allocated.
const ZSTD_WINDOW_LOG: u32 = 23;

/// Brotli's quality for request bodies: k6's default.
const BROTLI_QUALITY: i32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    const ALL: [Self; 4] = [Self::Gzip, Self::Deflate, Self::Brotli, Self::Zstd];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|coding| coding.name().eq_ignore_ascii_case(name))
    }

    /// Name in `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) fn encode(self, body: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Brotli => {
                let mut out = Vec::new();
                let params = brotli::enc::BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    ..Default::default()
                };
                brotli::BrotliCompress(&mut &body[..], &mut out, &params)?;
                Ok(out)
            }
            Self::Zstd => zstd::encode_all(body, 0),
        }
    }

    fn decode(self, body: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(body)),
            Self::Deflate => read_bounded(flate2::read::ZlibDecoder::new(body)),
            Self::Brotli => read_bounded(brotli::Decompressor::new(body, 8 * 1024)),
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(body)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                read_bounded(decoder)
            }
        }
    }
}

fn read_bounded(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    decoder.take(MAX_DECODED_BYTES as u64 + 1).read_to_end(&mut out)?;
    if out.len() > MAX_DECODED_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_DECODED_BYTES} bytes")));
    }
    Ok(out)
}

/// Undoes the codings of a `Content-Encoding` header, the last one first. Codings unknown to k6 are ignored.
pub(crate) fn decode(content_encoding: &str, body: Vec<u8>) -> Result<Vec<u8>, RequestError> {
    let codings: Vec<Coding> =
        content_encoding.split(',').filter_map(|name| Coding::parse(name.trim())).collect();
    if codings.len() > MAX_CODINGS {
        return Err(RequestError::Decompression(format!("more than {MAX_CODINGS} codings")));
    }
    codings.iter().rev().try_fold(body, |body, coding| {
        coding
            .decode(&body)
            .map_err(|error| RequestError::Decompression(format!("{}: {error}", coding.name())))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn several_codings_are_undone_in_reverse() {
        let inner = Coding::Gzip.encode(b"body").unwrap();
        let outer = Coding::Brotli.encode(&inner).unwrap();
        assert_eq!(decode("gzip, identity, BR", outer).unwrap(), b"body");
        assert_eq!(decode("unknown", b"body".to_vec()).unwrap(), b"body");
    }

    #[test]
    fn a_body_that_would_become_too_large_is_refused() {
        let zeros = vec![0; MAX_DECODED_BYTES + 1];
        for coding in Coding::ALL {
            let bomb = coding.encode(&zeros).unwrap();
            assert!(bomb.len() < zeros.len() / 100, "{coding:?}");
            assert_eq!(decode(coding.name(), bomb).unwrap_err().code().0, 1701, "{coding:?}");
        }
        let nested = ["gzip"; MAX_CODINGS + 1].join(",");
        assert!(decode(&nested, Vec::new()).is_err());
    }

    #[test]
    fn a_zstd_frame_with_a_huge_window_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[1; 1000]).unwrap();
        let frame = encoder.finish().unwrap();
        assert!(decode("zstd", frame).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_encoded_decodes_to_itself(body in prop::collection::vec(any::<u8>(), 0..2000)) {
            for coding in Coding::ALL {
                let encoded = coding.encode(&body).unwrap();
                prop_assert_eq!(&decode(coding.name(), encoded).unwrap(), &body);
            }
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for coding in Coding::ALL {
                let _ = decode(coding.name(), bytes.clone());
            }
        }
    }
}
