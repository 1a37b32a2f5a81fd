//! Keyed hashes of names, addresses and passwords: the guard stores nothing else of them.

use std::hash::Hasher;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// A keyed hash. Without the key nobody can find its input or aim at the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64);

/// SipHash-2-4 (Aumasson and Bernstein, 2012) under a secret key.
///
/// Two inputs share a 64-bit value by chance once in 2⁶⁴; an attacker cannot search for such pairs without the key.
pub(crate) struct Hashing(SipHasher24);

impl Hashing {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key)?;
        Ok(Self::with_key(&key))
    }

    pub(crate) fn with_key(key: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(key))
    }

    /// The domain is the first byte, so that equal bytes of different kinds hash differently.
    fn hashed(&self, domain: u8, parts: &[&[u8]]) -> Id {
        let mut hasher = self.0;
        hasher.write(&[domain]);
        for part in parts {
            hasher.write(part);
        }
        Id(hasher.finish())
    }

    pub(crate) fn account(&self, name: &[u8]) -> Id {
        self.hashed(b'a', &[name])
    }

    pub(crate) fn address(&self, counted: IpAddr) -> Id {
        match counted {
            IpAddr::V4(v4) => self.hashed(b'4', &[&v4.octets()]),
            IpAddr::V6(v6) => self.hashed(b'6', &[&v6.octets()]),
        }
    }

    pub(crate) fn pair(&self, account: Id, address: Id) -> Id {
        self.hashed(b'p', &[&account.0.to_le_bytes(), &address.0.to_le_bytes()])
    }

    pub(crate) fn token(&self, account: Id, nonce: &[u8]) -> Id {
        self.hashed(b'm', &[&account.0.to_le_bytes(), nonce])
    }

    pub(crate) fn password(&self, password: &[u8]) -> Id {
        self.hashed(b'w', &[password])
    }

    /// The bucket of a user or an address (`kind`) for a class of requests.
    pub(crate) fn rate(&self, class: u8, kind: u8, who: &[u8]) -> Id {
        self.hashed(b'r', &[&[class, kind], who])
    }

    pub(crate) fn text(&self, text: &[u8]) -> Id {
        self.hashed(b't', &[text])
    }
}
