//! `accounts.*` and `guard.*`: hashing, tokens, and limits on attempts.

use super::Rate;
use super::cache::servers;
use super::keys::settings;
use super::value::{
    Kind, addresses, auto, duration, kind, optional, positive, switch, time, time_or_0, up_to,
    whole, word,
};
use crate::accounts::TokenKey;
use madang_guard::hash::Scheme;
use madang_guard::net::Cidr;
use madang_valkey::Url;
use serde::Deserialize;
use std::time::Duration;

settings! {
    /// `accounts.*`: hashing and tokens.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AccountSettings {
        hash: Scheme = "accounts.hash", "argon2id:m=19456,t=2,p=1",
            kind("argon2id:m=KiB,t=PASSES,p=LANES or bcrypt:COST; below OWASP's minimum it is unsafe",
                |v| v.parse().ok()),
            "Hash of new passwords (documented system: bcrypt:10, then bcrypt:4); older hashes remain valid and are replaced at the next log-in";
        hash_pool: HashPoolKind = "accounts.hash_pool", "bounded",
            word("bounded, or unbounded (unsafe)"),
            "Threads that hash passwords; bounded = a few at low priority with a short queue, then 503; unbounded = one per hash (documented system)";
        hash_threads: Option<usize> = "accounts.hash_threads", "auto", auto(256),
            "Number of threads of the bounded pool; auto = cores - 1, at least 1";
        hash_queue: usize = "accounts.hash_queue", "256", up_to(100_000),
            "Maximum number of hashes waiting for a thread; sign-ups can use half of it; further ones are answered 503";
        hash_wait: Duration = "accounts.hash_wait", "2s", time(),
            "Maximum wait for a thread; a hash that cannot start by then is answered 503 at once";
        token_key: Option<TokenKey> = secret "accounts.token_key", "",
            optional("at least 32 bytes as hex or Base64 (openssl rand -hex 32)", TokenKey::parse),
            "Key that signs tokens, device tokens and challenges; unset = generated once, as token.key in the data directory. Set it in a file or the environment: other users can see flags";
        token_ttl: Duration = "accounts.token_ttl", "1d",
            kind("a duration: 15min, 12h, 1d, at most 400d", token_ttl),
            "Lifetime of a token after log-in";
    }
}

settings! {
    /// `accounts.guard` and `guard.*`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GuardSettings {
        mode: GuardMode = "accounts.guard", "on", word("off, ip or on"),
            "Limits on log-in attempts; ip = count attempts per address and block the address (documented system)";
        url: Vec<Url> = secret "guard.url", "", servers(),
            "Valkey or Redis (7.0 or newer) that counts attempts, and requests that have a limit (limits.*), for all nodes; unset, or while it does not answer, each node counts its own";
        pair: Rate = "guard.pair", "10/15min", rate(),
            "Maximum number of failed attempts at one account from one address; then 429";
        account: Rate = "guard.account", "20/1h", rate(),
            "Maximum number of failed attempts at one account from all addresses; then one attempt at a time after a delay that doubles from 1 s to 60 s (1 s with a proof of work); never a lock";
        address: Rate = "guard.address", "300/10min", rate(),
            "Maximum number of failed attempts from one address (IPv6: one /64); then a challenge until they have expired";
        address_accounts: u32 = "guard.address_accounts", "50", up_to(256),
            "Maximum number of accounts with failed attempts from one address within the window of guard.address; then a challenge";
        sign_up: Rate = "guard.sign_up", "1000/1h", rate(),
            "Maximum number of sign-ups from one address; then 429";
        ip: Rate = "guard.ip", "100/60s", rate(),
            "Maximum number of attempts from one address, successful or not, with accounts.guard = ip";
        ip_block: Duration = "guard.ip_block", "180s", kind("a duration of at least 1s", window),
            "Time for which that address is then blocked";
        exempt: Vec<Cidr> = "guard.exempt", "", addresses(),
            "Addresses that are neither limited nor counted; for load tests";
        wait: Duration = "guard.wait", "2s", time_or_0(),
            "Maximum time an attempt over a limit waits for attempts in flight, which may succeed; 0 = no wait";
        proof: bool = "guard.proof", "on", switch(),
            "Proof of work (ALTCHA) that admits a suspicious attempt; off = such attempts are refused";
        proof_work: u32 = "guard.proof_work", "50000", up_to(1_000_000),
            "Maximum number of hashes to solve the easiest challenge; doubled up to four times as failures increase";
        device_marks: bool = "guard.device_marks", "on", switch(),
            "Signed cookie that admits a device from which the account logged in before";
        passwords: bool = "guard.passwords", "on", switch(),
            "Challenges for a password that fails at many accounts (only a keyed hash is kept, in memory)";
    }
}

/// Threads that hash passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashPoolKind {
    /// A few of low priority, behind a short queue.
    Bounded,
    /// One per request, at normal priority, as in the documented system.
    Unbounded,
}

/// Limits on log-in attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardMode {
    Off,
    /// By address alone, as in the documented system.
    Ip,
    /// By account and address together, by each alone, and by suspicion.
    On,
}

/// Whole seconds, as in the expiry of a token.
fn token_ttl(value: &str) -> Option<Duration> {
    let longest = Duration::from_secs(400 * 86_400);
    positive(value).filter(|ttl| *ttl <= longest && ttl.subsec_nanos() == 0)
}

/// Longest window of the guard.
const LONGEST_WINDOW: Duration = Duration::from_secs(31 * 86_400);

/// 1 s to 31 days, as the guard keeps its windows.
fn window(value: &str) -> Option<Duration> {
    duration(value).filter(|time| (Duration::from_secs(1)..=LONGEST_WINDOW).contains(time))
}

fn rate() -> Kind<Rate> {
    count_per(10_000)
}

pub(super) fn count_per(most: u32) -> Kind<Rate> {
    kind(format!("COUNT/DURATION: 10/15min; 1 to {most}"), move |value| {
        let (count, time) = value.split_once('/')?;
        let count = u32::try_from(whole(count, 1, most as usize)?).ok()?;
        Some(Rate { count, window: window(time)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_taken_is_one_that_the_guard_keeps() {
        for good in ["1/1s", "10/15min", "10000/31d"] {
            assert!((rate().parse)(good).is_some(), "{good}");
        }
        // 31 days and half a second among them.
        for wrong in ["1/999ms", "1/2678400500ms", "1/32d", "0/1s", "10001/1s", "1", "/1s"] {
            assert!((rate().parse)(wrong).is_none(), "{wrong}");
        }
    }
}
