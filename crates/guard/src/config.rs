//! Settings of the guard, with their defaults.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::net::Cidr;

const MINUTE: Duration = Duration::from_secs(60);

/// Limits in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No limits.
    Off,
    /// By address alone, with a block, as in the reproduced system.
    Ip(IpLimit),
    /// By pair, account and address, and by suspicion.
    On,
}

/// All settings of the guard.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Default: [`Mode::On`].
    pub mode: Mode,
    /// Wrong guesses at one account from one address. Default: 10 per 15 min.
    pub pair: FailureLimit,
    /// Wrong guesses at one account from anywhere.
    pub account: AccountLimit,
    /// Wrong guesses from one address at any account.
    pub address: AddressLimit,
    /// Sign-ups from one address, whether or not they succeeded. Default: 1,000 per hour.
    pub sign_up: FailureLimit,
    /// Addresses whose attempts are neither limited nor counted. Default: none.
    pub exempt: Vec<Cidr>,
    /// Waiting of attempts beyond the remaining allowance for those in flight.
    pub waiting: Waiting,
    /// `None`: attempts over a limit are refused for as long as they are.
    pub suspicion: Option<Suspicion>,
    /// Used proofs remembered until they expire. Default: 32,768.
    pub used_proofs: usize,
    /// Key that signs challenges and device tokens. Nodes that accept each other's share it; device tokens outlive the
    /// process only if it does.
    pub key: Key,
}

impl GuardConfig {
    /// The defaults with this key.
    pub fn new(key: Key) -> Self {
        Self {
            mode: Mode::On,
            pair: FailureLimit { failures: 10, window: 15 * MINUTE },
            account: AccountLimit::default(),
            address: AddressLimit::default(),
            sign_up: FailureLimit { failures: 1_000, window: 60 * MINUTE },
            exempt: Vec::new(),
            waiting: Waiting::default(),
            suspicion: Some(Suspicion::default()),
            used_proofs: 32_768,
            key,
        }
    }

    /// Checks the range of each setting.
    ///
    /// # Errors
    /// Names the first setting that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut windows = vec![
            ("pair.window", self.pair.window),
            ("account.window", self.account.window),
            ("address.window", self.address.window),
            ("sign_up.window", self.sign_up.window),
        ];
        let mut counts = vec![
            ("pair.failures", self.pair.failures, MAX_FAILURES),
            ("account.failures", self.account.failures, MAX_FAILURES),
            ("address.failures", self.address.failures, MAX_FAILURES),
            ("address.accounts", self.address.accounts, MAX_DISTINCT),
            ("sign_up.failures", self.sign_up.failures, MAX_FAILURES),
        ];
        if let Mode::Ip(ip) = self.mode {
            windows.extend([("ip.window", ip.window), ("ip.block", ip.block)]);
            counts.push(("ip.attempts", ip.attempts, u32::MAX));
        }
        let suspicion = self.suspicion.as_ref();
        windows.extend(suspicion.map(|suspicion| ("suspicion.remember", suspicion.remember)));
        if let Some(proof) = suspicion.and_then(|suspicion| suspicion.proof) {
            counts.push(("proof.work", proof.work, MAX_WORK >> PROOF_DOUBLINGS));
        }
        if let Some(tokens) = suspicion.and_then(|suspicion| suspicion.device_tokens) {
            windows.push(("device_tokens.window", tokens.window));
            counts.push(("device_tokens.failures", tokens.failures, MAX_FAILURES));
            counts.push(("device_tokens.account_failures", tokens.account_failures, MAX_FAILURES));
        }
        if let Some(passwords) = suspicion.and_then(|suspicion| suspicion.passwords) {
            windows.push(("passwords.window", passwords.window));
            counts.push(("passwords.accounts", passwords.accounts, MAX_DISTINCT));
        }
        for (setting, window) in windows {
            within(setting, window, Duration::from_secs(1), MAX_WINDOW)?;
        }
        for (setting, value, most) in counts {
            if !(1..=most).contains(&value) {
                return Err(ConfigError { setting, accepted: format!("from 1 to {most}") });
            }
        }
        let (first, longest) = (self.account.first_delay, self.account.longest_delay);
        within("account.longest_delay", longest, Duration::from_millis(1), MAX_WINDOW)?;
        within("account.first_delay", first, Duration::from_millis(1), longest)
    }
}

/// Limit of failures in any interval of the length of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureLimit {
    /// 1 to 10,000.
    pub failures: u32,
    /// 1 s to 31 days. Counted in eighths: a failure expires between one and nine eighths of the window after it was
    /// counted, so no interval of this length ever holds more than `failures`.
    pub window: Duration,
}

/// Wrong guesses at one account from anywhere: a growing delay, never a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountLimit {
    /// From this many failures on, attempts are admitted one at a time and delayed; with a proof of work, by at most
    /// 1 s. Default: 20.
    pub failures: u32,
    /// Time for which a failure counts. Default: 1 h.
    pub window: Duration,
    /// Delay after the failure that reached the limit; it doubles with each further one. Default: 1 s.
    pub first_delay: Duration,
    /// Upper bound of the delay. Default: 60 s.
    pub longest_delay: Duration,
}

impl Default for AccountLimit {
    fn default() -> Self {
        Self {
            failures: 20,
            window: 60 * MINUTE,
            first_delay: Duration::from_secs(1),
            longest_delay: MINUTE,
        }
    }
}

/// Wrong guesses from one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLimit {
    /// Failures per window. Default: 300.
    pub failures: u32,
    /// Distinct accounts that failed per window, at most 256. Default: 50.
    pub accounts: u32,
    /// Default: 10 min.
    pub window: Duration,
}

impl Default for AddressLimit {
    fn default() -> Self {
        Self { failures: 300, accounts: 50, window: 10 * MINUTE }
    }
}

/// Mode `ip`: attempts of an address, right or wrong, and a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpLimit {
    /// Attempts per window; the next one is refused and starts the block. Default: 100; the
    /// reproduced system does not document its limit.
    pub attempts: u32,
    /// Length of the window, which begins with the first attempt. Default: 60 s.
    pub window: Duration,
    /// Length of the block, which begins with the refused attempt. Default: 180 s.
    pub block: Duration,
}

impl Default for IpLimit {
    fn default() -> Self {
        Self { attempts: 100, window: MINUTE, block: 3 * MINUTE }
    }
}

/// Bounds of waiting for attempts in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Longest wait. Default: 2 s. Zero: no attempt waits.
    pub longest: Duration,
    /// Waiters for the allowance of one pair, account, address, device token or password. Default: 256, for
    /// clients that log in at the same moment from behind one address.
    pub per_key: usize,
    /// Waiters in all, each a request in flight. Default: 4,096: the full queue of one allowance is a sixteenth.
    pub total: usize,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { longest: Duration::from_secs(2), per_key: 256, total: 4_096 }
    }
}

/// Proofs and device tokens, with which suspicious attempts are admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Time for which a password stays suspicious after it was last over its limit, and an address, though at most for
    /// its window. An account over its limit stays in memory for so long, but asks for a proof only until its growing
    /// delay is over. Default: 1 h.
    pub remember: Duration,
    /// `None`: proofs are neither asked for nor accepted.
    pub proof: Option<ProofConfig>,
    /// `None`: device tokens are neither issued nor accepted.
    pub device_tokens: Option<DeviceTokenConfig>,
    /// `None`: passwords are not watched.
    pub passwords: Option<PasswordWatch>,
}

impl Default for Suspicion {
    fn default() -> Self {
        Self {
            remember: 60 * MINUTE,
            proof: Some(ProofConfig::default()),
            device_tokens: Some(DeviceTokenConfig::default()),
            passwords: Some(PasswordWatch::default()),
        }
    }
}

/// Work of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofConfig {
    /// Hashes in the worst case (`maxnumber`) at severity 0; half of it on average. Default: 50,000, well under a
    /// second in a current browser.
    pub work: u32,
}

/// Most doublings of the work.
pub(crate) const PROOF_DOUBLINGS: u32 = 4;
/// Time for which a challenge is valid.
pub(crate) const PROOF_EXPIRY: Duration = Duration::from_secs(5 * 60);
/// Delay of attempts with a proof at one account after a failure, instead of the growing delay.
pub(crate) const PROOF_ACCOUNT_PACE: Duration = Duration::from_secs(1);

impl Default for ProofConfig {
    fn default() -> Self {
        Self { work: 50_000 }
    }
}

/// Time for which a device token is valid.
pub(crate) const DEVICE_TOKEN_EXPIRY: Duration = Duration::from_secs(90 * 24 * 3600);

/// Limits of device tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTokenConfig {
    /// Failures with one device token per window, after which it is ignored for the rest of it. Default: 10.
    pub failures: u32,
    /// The same of all device tokens of one account together: each log-in issues one, so a client that logged in often
    /// holds many. Default: 100.
    pub account_failures: u32,
    /// Default: 15 min.
    pub window: Duration,
}

impl Default for DeviceTokenConfig {
    fn default() -> Self {
        Self { failures: 10, account_failures: 100, window: 15 * MINUTE }
    }
}

/// Passwords tried at many accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordWatch {
    /// Distinct accounts at which one password may fail per window, at most 256. Default: 20.
    pub accounts: u32,
    /// Default: 10 min.
    pub window: Duration,
}

impl Default for PasswordWatch {
    fn default() -> Self {
        Self { accounts: 20, window: 10 * MINUTE }
    }
}

// Capacities. Memory is allocated on demand and never freed.

/// Pairs of account and address; half as many device tokens.
pub(crate) const PAIRS: usize = 65_536;
/// Accounts; half as many counters of all device tokens of an account.
pub(crate) const ACCOUNTS: usize = 32_768;
/// Addresses; as many counters of sign-ups.
pub(crate) const ADDRESSES: usize = 8_192;
pub(crate) const PASSWORDS: usize = 16_384;

/// 32 secret bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub(crate) [u8; 32]);

impl Key {
    /// An existing key. Its bytes must come from a cryptographic random generator.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key from the operating system's random generator.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A signer for one purpose; cloning it saves the key set-up.
    pub(crate) fn signer(&self, purpose: &[u8]) -> Hmac<Sha256> {
        keyed(&self.derive(purpose))
    }

    /// A key of 16 bytes for one purpose.
    pub(crate) fn half(&self, purpose: &[u8]) -> [u8; 16] {
        let key = self.derive(purpose);
        std::array::from_fn(|i| key[i])
    }

    /// A key for one purpose: HKDF-Expand of RFC 5869, one block.
    fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        keyed(&self.0).chain_update(purpose).chain_update([1]).finalize().into_bytes().into()
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A setting is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("guard setting {setting} must be {accepted}")]
pub struct ConfigError {
    /// Dotted name within [`GuardConfig`].
    pub setting: &'static str,
    /// Accepted values.
    pub accepted: String,
}

const MAX_WINDOW: Duration = Duration::from_secs(31 * 24 * 3600);
/// Counters are 16 bits wide.
const MAX_FAILURES: u32 = 10_000;
/// Each distinct account takes 12 bytes in every entry of an address or password.
const MAX_DISTINCT: u32 = 256;
/// About a minute in a browser.
const MAX_WORK: u32 = 50_000_000;

fn within(
    setting: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError { setting, accepted: format!("from {least:?} to {most:?}") })
}
