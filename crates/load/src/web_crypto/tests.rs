use super::*;

fn bytes(outcome: Result<CryptoResult, Failure>) -> Vec<Vec<u8>> {
    match outcome.unwrap() {
        CryptoResult::Bytes(bytes) => bytes,
        CryptoResult::Verified(_) => panic!("no bytes"),
    }
}

#[test]
fn a_signature_of_any_curve_and_hash_is_verified() {
    for name in ["P-256", "P-384", "P-521"] {
        let name = name.to_owned();
        let arguments = Arguments { name, ..Arguments::default() };
        let [private, public] = bytes(run("generateCurve", &arguments)).try_into().unwrap();
        for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            let signing = || Arguments {
                hash: Some(hash),
                key: private.clone(),
                data: b"text".to_vec(),
                ..Arguments::default()
            };
            let other = bytes(run("signCurve", &signing())).remove(0);
            let verifying = Arguments { key: public.clone(), other, ..signing() };
            let verified = run("verifyCurve", &verifying);
            assert_eq!(verified, Ok(CryptoResult::Verified(true)), "{hash:?}");
            let changed = Arguments { data: b"texT".to_vec(), ..verifying };
            assert_eq!(run("verifyCurve", &changed), Ok(CryptoResult::Verified(false)), "{hash:?}");
        }
    }
}

/// The first case of RFC 6070, and the eleventh of McGrew and Viega for GCM, whose key has 192 bits.
#[test]
fn results_are_those_of_the_documents() {
    let password = Arguments {
        hash: Some(Hash::Sha1),
        key: b"password".to_vec(),
        other: b"salt".to_vec(),
        number: 1,
        length: 20,
        ..Arguments::default()
    };
    let derived = bytes(run("deriveBits", &password)).remove(0);
    assert_eq!(derived[..4], [0x0c, 0x60, 0xc8, 0x0f]);
    let empty = Arguments {
        name: "AES-GCM".to_owned(),
        key: vec![0; 24],
        other: vec![0; 12],
        data: vec![0; 16],
        length: 128,
        ..Arguments::default()
    };
    let encrypted = bytes(run("encryptAes", &empty)).remove(0);
    assert_eq!(encrypted[..4], [0x98, 0xe7, 0x24, 0x7c]);
    assert_eq!(encrypted[16..20], [0x2f, 0xf5, 0x8d, 0x80]);
}

#[test]
fn operations_that_would_not_end_are_refused() {
    let number = |number| Arguments { number, ..Arguments::default() };
    assert_eq!(run("random", &number(usize::MAX)), Err(Failure::Parameters));
    assert_eq!(run("generateRsa", &number(1 << 20)), Err(Failure::Parameters));
    let rounds = Arguments { hash: Some(Hash::Sha1), length: 1, ..number(usize::MAX) };
    assert_eq!(run("deriveBits", &rounds), Err(Failure::Parameters));
    let long = Arguments { hash: Some(Hash::Sha1), length: usize::MAX, ..number(1) };
    assert_eq!(run("deriveBits", &long), Err(Failure::Parameters));
}

proptest::proptest! {
    #[test]
    fn no_key_or_data_makes_it_panic(
        operation in proptest::sample::select(vec![
            "encryptAes", "decryptAes", "encryptRsa", "decryptRsa", "signRsa", "verifyRsa", "partsOfRsa", "rsaOfParts",
            "signCurve", "verifyCurve", "agreeCurve", "rawOfCurve", "curveOfRaw", "partsOfCurve", "curveOfParts",
        ]),
        name in proptest::sample::select(vec!["AES-CBC", "AES-CTR", "AES-GCM", "RSA-PSS", "P-256", "P-521", ""]),
        key in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        other in proptest::collection::vec(proptest::num::u8::ANY, 0..20),
        data in proptest::collection::vec(proptest::num::u8::ANY, 0..70),
        length in 0_usize..200,
        count in 0_usize..6,
    ) {
        let parts = vec![key.clone(); count];
        let (name, hash) = (name.to_owned(), Some(Hash::Sha256));
        let _ = run(operation, &Arguments { name, hash, key, data, other, parts, length, ..Arguments::default() });
    }
}
