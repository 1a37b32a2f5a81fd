//! Fuzz targets for private items of this module.

use super::body::decode;
use super::head::Head;
use super::ocsp::Ocsp;

/// Parses a response head: a prefix is no head, and bytes after it change nothing.
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

/// Decodes a chunked body, with the same result however the input is split.
pub(crate) fn chunks(data: &[u8]) {
    let whole = decode([data]).ok();
    assert_eq!(decode(data.chunks(1)).ok(), whole);
    assert!(whole.is_none_or(|(body, _, read)| body.len() <= read && read <= data.len()));
}

/// Parses a stapled OCSP response; a prefix is none.
pub(crate) fn stapled_response(data: &[u8]) {
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let read = Ocsp::parse(data, algorithms.all);
    assert!(["good", "revoked", "unknown"].contains(&read.status));
    if read != Ocsp::UNKNOWN {
        assert_eq!(Ocsp::parse(&data[..data.len() - 1], algorithms.all), Ocsp::UNKNOWN);
    }
}
