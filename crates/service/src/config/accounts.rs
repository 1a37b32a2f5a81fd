//! `accounts.*` and `guard.*`: hashing, tokens, and limits on attempts.

use super::cache::{SERVERS, servers};
use super::keys::{Key, auto, choice, key, positive, switch};
use super::value::{duration, ranges, whole};
use crate::accounts::TokenKey;
use madang_guard::hash::Scheme;
use madang_guard::net::Cidr;
use madang_valkey::Url;
use std::time::Duration;

/// `accounts.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSettings {
    /// How new passwords are hashed.
    pub hash: Scheme,
    /// Where they are hashed.
    pub hash_pool: HashPoolKind,
    /// Hashing threads of the bounded pool; `None` = cores − 1, at least 1.
    pub hash_threads: Option<usize>,
    /// Hashes that may wait for a thread of the bounded pool; one more is answered 503.
    pub hash_queue: usize,
    /// Longest wait for a thread of the bounded pool; then 503.
    pub hash_wait: Duration,
    /// Key that signs tokens; `None` = the one in the data directory.
    pub token_key: Option<TokenKey>,
    /// How long a token is valid.
    pub token_ttl: Duration,
}

/// Where passwords are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashPoolKind {
    /// On a few threads of low priority behind a short queue.
    Bounded,
    /// As documented: every request on a thread of its own, at the priority of all others.
    Unbounded,
}

/// `accounts.guard` and `guard.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardSettings {
    /// `accounts.guard`: which way of limiting.
    pub mode: GuardMode,
    /// Where attempts of all nodes are counted: one server, or nodes of a cluster; empty = each node counts its own.
    pub url: Vec<Url>,
    /// Failures of one account from one address.
    pub pair: Rate,
    /// Failures of one account from anywhere, before each attempt has to wait longer.
    pub account: Rate,
    /// Failures of one address at any account.
    pub address: Rate,
    /// Distinct accounts that may fail from one address, in the time of `address`.
    pub address_accounts: u32,
    /// Sign-ups of one address.
    pub sign_up: Rate,
    /// Attempts of one address in mode `ip`, right or wrong.
    pub ip: Rate,
    /// How long mode `ip` blocks an address.
    pub ip_block: Duration,
    /// Addresses that are neither limited nor counted.
    pub exempt: Vec<Cidr>,
    /// Longest wait for attempts in flight.
    pub wait: Duration,
    /// Whether a proof of work lets a suspicious attempt through.
    pub proof: bool,
    /// Most hashes of the mildest proof of work.
    pub proof_work: u32,
    /// Whether a device that has logged in before is let through.
    pub device_marks: bool,
    /// Whether passwords that fail at many accounts raise suspicion.
    pub passwords: bool,
}

/// Which way of limiting log-in attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// None.
    Off,
    /// As documented: by address alone.
    Ip,
    /// By account and address together, by each alone, and by suspicion.
    On,
}

/// So many in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In any interval of this length.
    pub window: Duration,
}

impl Rate {
    /// `COUNT/DURATION`; an error says nothing more than what a key accepts does.
    pub(super) fn parse(value: &str, most: u32) -> Result<Self, String> {
        let (count, time) = value.split_once('/').ok_or_else(String::new)?;
        Ok(Self { count: number(count, most)?, window: window(time)? })
    }
}

impl AccountSettings {
    pub(super) fn blank() -> Self {
        Self {
            hash: Scheme::default(),
            hash_pool: HashPoolKind::Bounded,
            hash_threads: None,
            hash_queue: 0,
            hash_wait: Duration::ZERO,
            token_key: None,
            token_ttl: Duration::ZERO,
        }
    }

    pub(super) fn unsafe_values(&self) -> Vec<(&'static str, &'static str)> {
        let mut found = Vec::new();
        if self.hash.is_unsafe() {
            let gives_up = "stolen hashes can be guessed far faster than at OWASP's minimum";
            found.push(("accounts.hash", gives_up));
        }
        if self.hash_pool == HashPoolKind::Unbounded {
            let gives_up = "a flood of sign-ups takes all memory and CPU";
            found.push(("accounts.hash_pool", gives_up));
        }
        found
    }
}

impl GuardSettings {
    pub(super) fn blank() -> Self {
        let none = Rate { count: 0, window: Duration::ZERO };
        Self {
            mode: GuardMode::On,
            url: Vec::new(),
            pair: none,
            account: none,
            address: none,
            address_accounts: 0,
            sign_up: none,
            ip: none,
            ip_block: Duration::ZERO,
            exempt: Vec::new(),
            wait: Duration::ZERO,
            proof: true,
            proof_work: 0,
            device_marks: true,
            passwords: true,
        }
    }
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "accounts.hash" = "argon2id:m=19456,t=2,p=1",
        "argon2id:m=KiB,t=PASSES,p=LANES or bcrypt:COST; below OWASP's minimum it is unsafe",
        "Hash of new passwords (documented system: bcrypt:10, then bcrypt:4); older hashes remain valid and are replaced at the next log-in",
        |s, v| s.accounts.hash = v.parse().map_err(|_| String::new())?
    ),
    key!(
        "accounts.hash_pool" = "bounded",
        "bounded, or unbounded (unsafe)",
        "Threads that hash passwords; bounded = a few at low priority with a short queue, then 503; unbounded = one per hash (documented system)",
        |s, v| s.accounts.hash_pool = choice(
            v,
            &[("bounded", HashPoolKind::Bounded), ("unbounded", HashPoolKind::Unbounded)]
        )?
    ),
    key!(
        "accounts.hash_threads" = "auto",
        "auto or 1 to 256",
        "Number of threads of the bounded pool; auto = cores - 1, at least 1",
        |s, v| s.accounts.hash_threads = auto(v, 256)?
    ),
    key!(
        "accounts.hash_queue" = "256",
        "1 to 100000",
        "Maximum number of hashes waiting for a thread; sign-ups can use half of it; further ones are answered 503",
        |s, v| s.accounts.hash_queue = whole(v, 1, 100_000)?
    ),
    key!(
        "accounts.hash_wait" = "2s",
        "a duration: 250ms, 5s",
        "Maximum wait for a thread; a hash that cannot start by then is answered 503 at once",
        |s, v| s.accounts.hash_wait = positive(v)?
    ),
    key!(
        "accounts.guard" = "on",
        "off, ip or on",
        "Limits on log-in attempts; ip = count attempts per address and block the address (documented system)",
        |s, v| s.guard.mode =
            choice(v, &[("off", GuardMode::Off), ("ip", GuardMode::Ip), ("on", GuardMode::On)])?
    ),
    Key {
        secret: true,
        ..key!(
            "accounts.token_key" = "",
            "at least 32 bytes as hex or Base64 (openssl rand -hex 32)",
            "Key that signs tokens, device marks and challenges; unset = generated once, as token.key in the data directory. Set it in a file or the environment: other users can see flags",
            |s, v| s.accounts.token_key = match v {
                "" => None,
                key => Some(TokenKey::parse(key).ok_or_else(String::new)?),
            }
        )
    },
    key!(
        "accounts.token_ttl" = "1d",
        "a duration: 15min, 12h, 1d, at most 400d",
        "Lifetime of a token after log-in",
        |s, v| s.accounts.token_ttl = match positive(v)? {
            ttl if ttl <= Duration::from_secs(400 * 86_400) && ttl.subsec_nanos() == 0 => ttl,
            _ => return Err(String::new()),
        }
    ),
    Key {
        // It may hold a password.
        secret: true,
        ..key!(
            "guard.url" = "",
            SERVERS,
            "Valkey or Redis (7.0 or newer) that counts attempts, and requests that have a limit (limits.*), for all nodes; unset, or while it does not answer, each node counts its own",
            |s, v| s.guard.url = servers(v)?
        )
    },
    key!(
        "guard.pair" = "10/15min",
        "COUNT/DURATION: 10/15min; 1 to 10000",
        "Maximum number of failed attempts at one account from one address; then 429",
        |s, v| s.guard.pair = rate(v)?
    ),
    key!(
        "guard.account" = "20/1h",
        "COUNT/DURATION: 20/1h; 1 to 10000",
        "Maximum number of failed attempts at one account from all addresses; then one attempt at a time after a delay that doubles from 1 s to 60 s (1 s with a proof of work); never a lock",
        |s, v| s.guard.account = rate(v)?
    ),
    key!(
        "guard.address" = "300/10min",
        "COUNT/DURATION: 300/10min; 1 to 10000",
        "Maximum number of failed attempts from one address (IPv6: one /64); then a challenge until they have expired",
        |s, v| s.guard.address = rate(v)?
    ),
    key!(
        "guard.address_accounts" = "50",
        "1 to 256",
        "Maximum number of accounts with failed attempts from one address within the window of guard.address; then a challenge",
        |s, v| s.guard.address_accounts = number(v, 256)?
    ),
    key!(
        "guard.sign_up" = "1000/1h",
        "COUNT/DURATION: 1000/1h; 1 to 10000",
        "Maximum number of sign-ups from one address; then 429",
        |s, v| s.guard.sign_up = rate(v)?
    ),
    key!(
        "guard.ip" = "100/60s",
        "COUNT/DURATION: 100/60s; 1 to 10000",
        "Maximum number of attempts from one address, successful or not, with accounts.guard = ip",
        |s, v| s.guard.ip = rate(v)?
    ),
    key!(
        "guard.ip_block" = "180s",
        "a duration of at least 1s",
        "Time for which that address is then blocked",
        |s, v| s.guard.ip_block = window(v)?
    ),
    key!(
        "guard.exempt" = "",
        "addresses or ranges, separated by commas: 127.0.0.1, 10.0.0.0/8, 2001:db8::/32; empty = none",
        "Addresses that are neither limited nor counted; for load tests",
        |s, v| s.guard.exempt = ranges(v)?
    ),
    key!(
        "guard.wait" = "2s",
        "a duration: 0, 2s",
        "Maximum time an attempt over a limit waits for attempts in flight, which may succeed; 0 = no wait",
        |s, v| s.guard.wait = duration(v)?
    ),
    key!(
        "guard.proof" = "on",
        "on or off",
        "Proof of work (ALTCHA) that admits a suspicious attempt; off = such attempts are refused",
        |s, v| s.guard.proof = switch(v)?
    ),
    key!(
        "guard.proof_work" = "50000",
        "1 to 1000000",
        "Maximum number of hashes to solve the easiest challenge; doubled up to four times as failures increase",
        |s, v| s.guard.proof_work = number(v, 1_000_000)?
    ),
    key!(
        "guard.device_marks" = "on",
        "on or off",
        "Signed cookie that admits a device from which the account logged in before",
        |s, v| s.guard.device_marks = switch(v)?
    ),
    key!(
        "guard.passwords" = "on",
        "on or off",
        "Challenges for a password that fails at many accounts (only a keyed hash is kept, in memory)",
        |s, v| s.guard.passwords = switch(v)?
    ),
];

fn number(value: &str, most: u32) -> Result<u32, String> {
    u32::try_from(whole(value, 1, most as usize)?).map_err(|_| String::new())
}

/// The guard keeps no longer windows.
const LONGEST_WINDOW: Duration = Duration::from_secs(31 * 86_400);

/// 1 s to 31 days, as the guard keeps its windows.
fn window(value: &str) -> Result<Duration, String> {
    match duration(value)? {
        time if (Duration::from_secs(1)..=LONGEST_WINDOW).contains(&time) => Ok(time),
        _ => Err(String::new()),
    }
}

fn rate(value: &str) -> Result<Rate, String> {
    Rate::parse(value, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_taken_is_one_that_the_guard_keeps() {
        for good in ["1/1s", "10/15min", "10000/31d"] {
            assert!(rate(good).is_ok(), "{good}");
        }
        // 31 days and half a second among them.
        for wrong in ["1/999ms", "1/2678400500ms", "1/32d", "0/1s", "10001/1s", "1", "/1s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
