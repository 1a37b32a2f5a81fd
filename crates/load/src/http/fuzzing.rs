//! Targets of the fuzzer that need what only this module sees.

use super::body::ChunkedDecoder;
use super::head::Head;
use super::ocsp::Ocsp;

/// The head of an answer: cut short it is none, and with more behind it the same.
pub(crate) fn head(data: &[u8]) {
    let Ok(Some((head, length))) = Head::parse(data) else { return };
    assert!(length <= data.len());
    assert!(!matches!(Head::parse(&data[..length - 1]), Ok(Some(_))));
    let alone = Head::parse(&data[..length]);
    assert!(matches!(alone, Ok(Some((_, found))) if found == length));
    let _ = (head.framing(false), head.framing(true), head.keeps_alive(), head.reason());
    for (name, value) in head.headers() {
        assert!(!name.is_empty() && !value.contains(&b'\n'));
        let _ = super::canonical(name);
    }
}

/// A body in chunks: however it is cut, the same comes out.
pub(crate) fn chunks(data: &[u8]) {
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut decoder, mut body, mut read) = (ChunkedDecoder::new(), Vec::new(), 0);
        for piece in pieces {
            let taken = decoder.decode(piece, |data| {
                body.extend_from_slice(data);
                Ok(())
            });
            match taken {
                Ok(taken) => read += taken,
                Err(_) => return None,
            }
        }
        Some((body, read, decoder.is_done()))
    };
    let whole = decode(&mut std::iter::once(data));
    assert_eq!(decode(&mut data.chunks(1)), whole);
    assert!(whole.is_none_or(|(body, read, _)| body.len() <= read && read <= data.len()));
}

/// A stapled OCSP response: cut short it is none, and its signature is looked at.
pub(crate) fn stapled_response(data: &[u8]) {
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let read = Ocsp::parse(data, algorithms.all);
    assert!(["good", "revoked", "unknown"].contains(&read.status));
    if read != Ocsp::UNKNOWN {
        assert_eq!(Ocsp::parse(&data[..data.len() - 1], algorithms.all), Ocsp::UNKNOWN);
    }
}
