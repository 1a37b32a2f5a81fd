//! Addresses and ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The address as the guard counts it: IPv4-mapped IPv6 as IPv4, IPv6 cut to its /64, because the
/// client chooses the lower half (RFC 4291, 2.5.1; RFC 8981).
pub fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// A range of addresses, such as `10.0.0.0/8` or `2001:db8::/32`; a single address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u32,
}

impl Cidr {
    /// Returns true for an address within the range. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(address.to_canonical(), self.prefix) == Some(self.network)
    }
}

/// The address with all but its first `prefix` bits cleared; `None` if it has fewer bits.
fn masked(address: IpAddr, prefix: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => {
            let host = 32u32.checked_sub(prefix)?;
            let mask = u32::MAX.checked_shl(host).unwrap_or(0);
            Some(IpAddr::V4((v4.to_bits() & mask).into()))
        }
        IpAddr::V6(v6) => {
            let host = 128u32.checked_sub(prefix)?;
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            Some(IpAddr::V6((v6.to_bits() & mask).into()))
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = || CidrError { text: text.to_owned() };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| error())?
            }
            Some(_) => return Err(error()),
            None => bits,
        };
        // A range of IPv4-mapped addresses becomes the IPv4 range.
        let (address, prefix) = match address.to_canonical() {
            v4 @ IpAddr::V4(_) if bits == 128 && (96..=128).contains(&prefix) => (v4, prefix - 96),
            IpAddr::V4(_) if bits == 128 => (address, prefix),
            same => (same, prefix),
        };
        let network = masked(address, prefix).ok_or_else(error)?;
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// The text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address or a range such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct CidrError {
    /// The text given.
    pub text: String,
}
