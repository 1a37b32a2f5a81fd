//! `accounts.*` and `guard.*`: hashing, tokens, and limits on attempts.

use super::keys::{Key, auto, choice, key, positive, switch};
use super::value::{duration, ranges, whole};
use crate::accounts::TokenKey;
use madang_guard::hash::Scheme;
use madang_guard::net::Cidr;
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
            let gives_up = "stolen hashes could be guessed far faster than OWASP's minimum allows";
            found.push(("accounts.hash", gives_up));
        }
        if self.hash_pool == HashPoolKind::Unbounded {
            let gives_up = "a flood of sign-ups takes all memory and starves everything else";
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
        "how new passwords are hashed (as documented: bcrypt:10, then bcrypt:4); older hashes still work and are renewed at the next log-in",
        |s, v| s.accounts.hash = v.parse().map_err(|_| String::new())?
    ),
    key!(
        "accounts.hash_pool" = "bounded",
        "bounded, or unbounded (unsafe)",
        "bounded = few threads of low priority and a short queue, then 503; unbounded = a thread for each (as documented)",
        |s, v| s.accounts.hash_pool = choice(
            v,
            &[("bounded", HashPoolKind::Bounded), ("unbounded", HashPoolKind::Unbounded)]
        )?
    ),
    key!(
        "accounts.hash_threads" = "auto",
        "auto or 1 to 256",
        "threads of the bounded pool; auto = one per core less one, at least 1",
        |s, v| s.accounts.hash_threads = auto(v, 256)?
    ),
    key!(
        "accounts.hash_queue" = "256",
        "1 to 100000",
        "hashes that may wait for a thread, those of sign-ups in half of it; one more is answered 503",
        |s, v| s.accounts.hash_queue = whole(v, 1, 100_000)?
    ),
    key!(
        "accounts.hash_wait" = "2s",
        "a duration: 250ms, 5s",
        "longest wait for a thread; what cannot begin by then is answered 503 at once",
        |s, v| s.accounts.hash_wait = positive(v)?
    ),
    key!(
        "accounts.guard" = "on",
        "off, ip or on",
        "limits on log-in attempts; ip = attempts of an address alone, with a block (as documented)",
        |s, v| s.guard.mode =
            choice(v, &[("off", GuardMode::Off), ("ip", GuardMode::Ip), ("on", GuardMode::On)])?
    ),
    Key {
        secret: true,
        ..key!(
            "accounts.token_key" = "",
            "at least 32 bytes as hex or Base64 (openssl rand -hex 32)",
            "signs tokens, device marks and challenges; the same on all nodes; unset = made once, in token.key of the data directory. Give it by file or environment: flags can be seen by other users",
            |s, v| s.accounts.token_key = match v {
                "" => None,
                key => Some(TokenKey::parse(key).ok_or_else(String::new)?),
            }
        )
    },
    key!(
        "accounts.token_ttl" = "1d",
        "a duration: 15min, 12h, 1d, at most 400d",
        "how long a token is valid after log-in",
        |s, v| s.accounts.token_ttl = match positive(v)? {
            ttl if ttl <= Duration::from_secs(400 * 86_400) && ttl.subsec_nanos() == 0 => ttl,
            _ => return Err(String::new()),
        }
    ),
    key!(
        "guard.pair" = "10/15min",
        "COUNT/DURATION: 10/15min; 1 to 10000",
        "wrong guesses at one account from one address, then 429",
        |s, v| s.guard.pair = rate(v)?
    ),
    key!(
        "guard.account" = "20/1h",
        "COUNT/DURATION: 20/1h; 1 to 10000",
        "wrong guesses at one account from anywhere, then one attempt at a time after a growing wait (1 s doubling, at most 60 s; 1 s with a proof of work), never a lock",
        |s, v| s.guard.account = rate(v)?
    ),
    key!(
        "guard.address" = "300/10min",
        "COUNT/DURATION: 300/10min; 1 to 10000",
        "wrong guesses from one address (IPv6: one /64) at any account, then 429 until they no longer count",
        |s, v| s.guard.address = rate(v)?
    ),
    key!(
        "guard.address_accounts" = "50",
        "1 to 256",
        "distinct accounts that may fail from one address in the time of guard.address",
        |s, v| s.guard.address_accounts = number(v, 256)?
    ),
    key!(
        "guard.sign_up" = "1000/1h",
        "COUNT/DURATION: 1000/1h; 1 to 10000",
        "sign-ups from one address, then 429",
        |s, v| s.guard.sign_up = rate(v)?
    ),
    key!(
        "guard.ip" = "100/60s",
        "COUNT/DURATION: 100/60s; 1 to 10000",
        "with accounts.guard = ip: attempts of one address, right or wrong",
        |s, v| s.guard.ip = rate(v)?
    ),
    key!(
        "guard.ip_block" = "180s",
        "a duration of at least 1s",
        "with accounts.guard = ip: how long the address is then blocked",
        |s, v| s.guard.ip_block = window(v)?
    ),
    key!(
        "guard.exempt" = "",
        "addresses and ranges with commas between: 127.0.0.1, 10.0.0.0/8, 2001:db8::/32",
        "who is neither limited nor counted (load tests)",
        |s, v| s.guard.exempt = ranges(v)?
    ),
    key!(
        "guard.wait" = "2s",
        "a duration: 0, 2s",
        "how long attempts beyond the allowance wait for those in flight, which may turn out right; 0 = not at all",
        |s, v| s.guard.wait = duration(v)?
    ),
    key!(
        "guard.proof" = "on",
        "on or off",
        "whether a proof of work (ALTCHA) lets a suspicious attempt through; off = it is refused",
        |s, v| s.guard.proof = switch(v)?
    ),
    key!(
        "guard.proof_work" = "50000",
        "1 to 1000000",
        "hashes of the mildest proof in the worst case; it doubles up to four times as things get worse",
        |s, v| s.guard.proof_work = number(v, 1_000_000)?
    ),
    key!(
        "guard.device_marks" = "on",
        "on or off",
        "whether a device that has logged in to the account before is let through (a signed cookie)",
        |s, v| s.guard.device_marks = switch(v)?
    ),
    key!(
        "guard.passwords" = "on",
        "on or off",
        "whether passwords that fail at many accounts raise suspicion (only a keyed hash is kept, in memory)",
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
    let (count, time) = value.split_once('/').ok_or_else(String::new)?;
    Ok(Rate { count: number(count, 10_000)?, window: window(time)? })
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
