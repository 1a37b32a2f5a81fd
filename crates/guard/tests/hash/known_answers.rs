//! Published hashes, and those of other implementations.

use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};
use madang_guard::hash::{Password, StoredHash};

fn matches(stored: &str, password: &[u8]) -> bool {
    let stored: StoredHash = stored.parse().unwrap();
    stored.verify(&Password::new(password.to_vec())).unwrap()
}

fn is_hash_of(stored: &str, password: &[u8]) {
    assert!(matches(stored, password), "{stored}");
    let mut other = password.to_vec();
    match other.first_mut() {
        Some(byte) => *byte ^= 1,
        None => other.push(b'x'),
    }
    assert!(!matches(stored, &other), "{stored} also matches another password");
}

/// RFC 9106 section 5.3. Password hashes have no secret and no associated data, so this tests the library directly.
#[test]
fn argon2id_gives_the_answer_of_rfc_9106() {
    let params = ParamsBuilder::new()
        .m_cost(32)
        .t_cost(3)
        .p_cost(4)
        .data(AssociatedData::new(&[4; 12]).unwrap())
        .build()
        .unwrap();
    let argon2 =
        Argon2::new_with_secret(&[3; 8], Algorithm::Argon2id, Version::V0x13, params).unwrap();
    let mut tag = [0; 32];
    argon2.hash_password_into(&[1; 32], &[2; 16], &mut tag).unwrap();
    let expected = [
        0x0d, 0x64, 0x0d, 0xf5, 0x8d, 0x78, 0x76, 0x6c, 0x08, 0xc0, 0x37, 0xa3, 0x4a, 0x8b, 0x53,
        0xc9, 0xd0, 0x1e, 0xf0, 0x45, 0x2d, 0x75, 0xb6, 0x5e, 0xb5, 0x25, 0x20, 0xe9, 0x6b, 0x01,
        0xe6, 0x59,
    ];
    assert_eq!(tag, expected);
}

/// The first two are in the reference implementation (P-H-C/phc-winner-argon2, src/test.c); the others were
/// made with its command `argon2`.
#[test]
fn argon2id_hashes_of_the_reference_implementation_verify() {
    for hash in [
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
    ] {
        is_hash_of(hash, b"password");
    }
    for hash in [
        "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$gy5SuVm5Z7Vw7keB9se9p87QGcomaseB/S2U1OhTsM0",
        "$argon2id$v=19$m=7168,t=5,p=1$MDEyMzQ1Njc4OWFiY2RlZg$iFYFbd6+YgSpBS95zKSeCiqMI6RfgwXfibpMk5AbxQY",
    ] {
        is_hash_of(hash, b"correct horse battery staple");
    }
}

/// Openwall crypt_blowfish, wrapper.c, and jBCrypt, TestBCrypt.java; libxcrypt agrees with each.
#[test]
fn bcrypt_hashes_of_others_verify() {
    is_hash_of("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", b"U*U");
    is_hash_of("$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK", b"U*U*");
    is_hash_of("$2a$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a", b"U*U*U");
    is_hash_of("$2y$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a", b"U*U*U");
    is_hash_of("$2b$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a", b"U*U*U");
    is_hash_of("$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e", b"\xff\xff\xa3");
    is_hash_of("$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.", b"");
    is_hash_of("$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe", b"a");
}

/// The same sources: what follows the 72nd byte counts for nothing.
#[test]
fn plain_bcrypt_hashes_verify_by_their_first_72_bytes() {
    let stored = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    let first = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    assert_eq!(first.len(), 72);
    assert!(matches(stored, first));
    assert!(matches(stored, &[&first[..], b"chars after 72 are ignored"].concat()));
    assert!(!matches(stored, &first[..71]));
}

/// The first is the example of passlib's documentation; the others were made with Python's `hmac` and
/// `bcrypt` after its rule.
#[test]
fn prehashed_bcrypt_hashes_of_passlib_verify() {
    is_hash_of(
        "$bcrypt-sha256$v=2,t=2b,r=12$n79VH.0Q2TMWmt3Oqt9uku$Kq4Noyk3094Y2QlB8NdRT8SvGiI4ft2",
        b"password",
    );
    is_hash_of(
        "$bcrypt-sha256$v=2,t=2b,r=5$n79VH.0Q2TMWmt3Oqt9uku$6yQAvBIqDr2MAO2Y7LkC.rd/IjFEaP6",
        &[b'x'; 200],
    );
    is_hash_of(
        "$bcrypt-sha256$v=2,t=2b,r=5$n79VH.0Q2TMWmt3Oqt9uku$OcYdPFGrbsiZlcLsAOZ8swB6ePfwjrm",
        b"a\0b",
    );
}
