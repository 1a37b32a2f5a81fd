//! The OCSP response stapled to a server's certificate (RFC 6960), for `response.ocsp`.
//!
//! It is reported, not enforced: as in k6 a revoked certificate does not fail a request. A response that k6's parser
//! rejects, such as one with a wrong signature, has the status `unknown`.

use der::asn1::{AnyRef, GeneralizedTime, ObjectIdentifier};
use der::{Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use rustls::pki_types::SignatureVerificationAlgorithm;

/// Go's zero time, the year 1, in seconds since 1970.
const NOT_SET: i64 = -62_135_596_800;

/// `id-pkix-ocsp-basic`, the only response type in use.
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");

/// SHA-1, SHA-256, SHA-384 and SHA-512, the hashes that identify an issuer.
const ISSUER_HASHES: [ObjectIdentifier; 4] = [
    ObjectIdentifier::new_unwrap("1.3.14.3.2.26"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3"),
];

/// k6's names of revocation reasons by number (RFC 5280 §5.3.1). 7 is unused.
const REASONS: [&str; 11] = [
    "unspecified", "key_compromise", "ca_compromise", "affiliation_changed", "superseded",
    "cessation_of_operation", "certificate_hold", "", "remove_from_crl", "privilege_withdrawn",
    "aa_compromise",
];

/// Status of a server's certificate. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ocsp {
    pub(crate) status: &'static str,
    /// `unspecified` when the certificate is not revoked; empty without a valid response.
    pub(crate) revocation_reason: &'static str,
    pub(crate) produced_at: i64,
    pub(crate) this_update: i64,
    pub(crate) next_update: i64,
    pub(crate) revoked_at: i64,
}

impl Ocsp {
    pub(crate) const NONE: Self = Self {
        status: "",
        revocation_reason: "",
        produced_at: 0,
        this_update: 0,
        next_update: 0,
        revoked_at: 0,
    };

    /// For a server without a stapled response, or with an invalid one.
    pub(super) const UNKNOWN: Self = Self { status: "unknown", ..Self::NONE };

    pub(super) fn parse(
        response: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Self {
        parse(response, algorithms).unwrap_or(Self::UNKNOWN)
    }
}

/// `OCSPResponse`; `None` for an error or an invalid response.
fn parse(response: &[u8], algorithms: &[&dyn SignatureVerificationAlgorithm]) -> Option<Ocsp> {
    const SUCCESSFUL: [u8; 1] = [0];
    let mut response = sequence(whole(response)?)?;
    if next(&mut response, Tag::Enumerated)?.value() != SUCCESSFUL {
        return None;
    }
    let bytes = whole(next(&mut response, explicit(0))?.value())?;
    let mut bytes = sequence(bytes)?;
    if bytes.decode::<ObjectIdentifier>().ok()? != BASIC {
        return None;
    }
    basic(next(&mut bytes, Tag::OctetString)?.value(), algorithms)
}

/// `BasicOCSPResponse`.
fn basic(response: &[u8], algorithms: &[&dyn SignatureVerificationAlgorithm]) -> Option<Ocsp> {
    let mut response = sequence(whole(response)?)?;
    let signed = response.tlv_bytes().ok()?;
    let algorithm = next(&mut response, Tag::Sequence)?.value();
    let signature = bits(next(&mut response, Tag::BitString)?)?;
    // As in k6 only the first certificate counts; without one the signature is not verified.
    if let Some(certificates) = optional(&mut response, explicit(0))? {
        let mut certificates = sequence(whole(certificates.value())?)?;
        if !certificates.is_finished() {
            let (key_algorithm, key) = public_key(certificates.decode().ok()?)?;
            let signed_by = |verifier: &&&dyn SignatureVerificationAlgorithm| {
                verifier.signature_alg_id().as_ref() == algorithm
                    && verifier.public_key_alg_id().as_ref() == key_algorithm
            };
            let verifier = algorithms.iter().find(signed_by)?;
            verifier.verify_signature(key, signed, signature).ok()?;
        }
    }
    data(whole(signed)?)
}

/// `ResponseData`.
fn data(data: AnyRef<'_>) -> Option<Ocsp> {
    let mut data = sequence(data)?;
    optional(&mut data, explicit(0))?; // The version.
    let responder: AnyRef<'_> = data.decode().ok()?;
    if ![explicit(1), explicit(2)].contains(&responder.tag()) {
        return None;
    }
    let produced_at = time(&mut data)?;
    let mut statuses = sequence(data.decode().ok()?)?;
    let status = statuses.decode().ok()?;
    // The meaning of several is undefined.
    if !statuses.is_finished() {
        return None;
    }
    Some(Ocsp { produced_at, ..single(status)? })
}

/// `SingleResponse`, with `produced_at` unset.
fn single(status: AnyRef<'_>) -> Option<Ocsp> {
    const GOOD: Tag = implicit(0, false);
    const REVOKED: Tag = implicit(1, true);
    const UNKNOWN: Tag = implicit(2, false);
    let mut single = sequence(status)?;
    let mut certificate = sequence(single.decode().ok()?)?;
    let mut hash = sequence(certificate.decode().ok()?)?;
    if !ISSUER_HASHES.contains(&hash.decode().ok()?) {
        return None;
    }
    let status: AnyRef<'_> = single.decode().ok()?;
    let (status, revoked_at, reason) = match status.tag() {
        GOOD => ("good", NOT_SET, 0),
        UNKNOWN => ("unknown", NOT_SET, 0),
        REVOKED => {
            let mut revoked = SliceReader::new(status.value()).ok()?;
            let at = time(&mut revoked)?;
            let reason = match optional(&mut revoked, explicit(0))? {
                None => 0,
                Some(reason) => match whole(reason.value())?.value() {
                    [number] => usize::from(*number),
                    _ => return None,
                },
            };
            ("revoked", at, reason)
        }
        _ => return None,
    };
    let this_update = time(&mut single)?;
    let next_update = match optional(&mut single, explicit(0))? {
        None => NOT_SET,
        Some(update) => time(&mut SliceReader::new(update.value()).ok()?)?,
    };
    if let Some(extensions) = optional(&mut single, explicit(1))? {
        refuse_critical(whole(extensions.value())?)?;
    }
    Some(Ocsp {
        status,
        revocation_reason: REASONS.get(reason).copied().unwrap_or_default(),
        produced_at: 0,
        this_update,
        next_update,
        revoked_at,
    })
}

/// `None` for a critical extension.
fn refuse_critical(extensions: AnyRef<'_>) -> Option<()> {
    let mut extensions = sequence(extensions)?;
    while !extensions.is_finished() {
        let mut extension = sequence(extensions.decode().ok()?)?;
        extension.decode::<ObjectIdentifier>().ok()?;
        if optional(&mut extension, Tag::Boolean)?.is_some_and(|critical| critical.value() != [0]) {
            return None;
        }
    }
    Some(())
}

fn public_key(certificate: AnyRef<'_>) -> Option<(&[u8], &[u8])> {
    let mut certificate = sequence(certificate)?;
    let mut signed = sequence(certificate.decode().ok()?)?;
    optional(&mut signed, explicit(0))?; // The version.
    next(&mut signed, Tag::Integer)?;
    // The algorithm of the signature, the issuer, the validity and the subject.
    for _ in 0..4 {
        next(&mut signed, Tag::Sequence)?;
    }
    let mut key = sequence(signed.decode().ok()?)?;
    let algorithm = next(&mut key, Tag::Sequence)?.value();
    Some((algorithm, bits(next(&mut key, Tag::BitString)?)?))
}

/// The single value that `bytes` consists of.
fn whole(bytes: &[u8]) -> Option<AnyRef<'_>> {
    let mut reader = SliceReader::new(bytes).ok()?;
    let value = reader.decode().ok()?;
    reader.is_finished().then_some(value)
}

fn sequence(value: AnyRef<'_>) -> Option<SliceReader<'_>> {
    (value.tag() == Tag::Sequence).then(|| SliceReader::new(value.value()).ok())?
}

/// The next member, if it has this tag.
fn next<'a>(members: &mut SliceReader<'a>, tag: Tag) -> Option<AnyRef<'a>> {
    members.decode().ok().filter(|value: &AnyRef<'_>| value.tag() == tag)
}

/// The next member if it has this tag, or `Some(None)`; `None` is an error.
fn optional<'a>(members: &mut SliceReader<'a>, tag: Tag) -> Option<Option<AnyRef<'a>>> {
    if members.is_finished() || Tag::peek(members).ok()? != tag {
        return Some(None);
    }
    members.decode().ok().map(Some)
}

fn time(members: &mut SliceReader<'_>) -> Option<i64> {
    let time: GeneralizedTime = members.decode().ok()?;
    i64::try_from(time.to_unix_duration().as_secs()).ok()
}

/// The bytes of a bit string of whole bytes.
fn bits(value: AnyRef<'_>) -> Option<&[u8]> {
    match value.value() {
        [0, bytes @ ..] => Some(bytes),
        _ => None,
    }
}

/// `[number]` around a value with a tag of its own.
fn explicit(number: u32) -> Tag {
    implicit(number, true)
}

/// `[number]` in place of a value's own tag.
const fn implicit(number: u32, constructed: bool) -> Tag {
    Tag::ContextSpecific { constructed, number: TagNumber(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(response: &[u8]) -> Option<Ocsp> {
        parse(
            response,
            rustls::crypto::ring::default_provider().signature_verification_algorithms.all,
        )
    }

    /// Written by OpenSSL, as the other seeds in this directory.
    const REVOKED: &[u8] = include_bytes!("../../../../fuzz/seeds/stapled_responses/revoked");

    /// 2026-11-28T10:53:23Z.
    const PRODUCED: i64 = 1_795_863_203;

    #[test]
    fn a_response_is_read_as_openssl_has_written_it() {
        let expected = Ocsp {
            status: "revoked",
            revocation_reason: "key_compromise",
            produced_at: PRODUCED,
            this_update: PRODUCED,
            next_update: PRODUCED + 86_400,
            revoked_at: 1_767_225_600,
        };
        assert_eq!(parsed(REVOKED), Some(expected));
    }

    #[test]
    fn a_changed_or_incomplete_response_is_rejected() {
        for at in 0..REVOKED.len() {
            assert_eq!(parsed(&REVOKED[..at]), None, "cut at {at}");
        }
        let twice = [REVOKED, REVOKED].concat();
        assert_eq!(parsed(&twice), None);
        let time = REVOKED.windows(4).position(|window| window == b"2026").expect("a year");
        let mut changed = REVOKED.to_vec();
        changed[time + 3] = b'7';
        assert_eq!(parsed(&changed), None, "the signature is another one's");
    }
}
