//! The guard at the HTTP boundary: its settings, refusals, challenges and device tokens.

use super::AccountsError;
use super::key::TokenKey;
use super::proofs::SqlProofs;
use crate::config::{GuardMode, GuardSettings, Rate};
use crate::http::Problem;
use http::{HeaderMap, HeaderValue, header};
use madang_guard::clock::SystemClock;
use madang_guard::config::{
    AccountLimit, AddressLimit, DeviceTokenConfig, FailureLimit, IpLimit, Mode, PasswordWatch,
    ProofConfig, Suspicion, Waiting,
};
use madang_guard::limit::{ProofStore, ValkeyStore};
use madang_guard::suspicion::DeviceToken;
use madang_guard::{Guard, GuardConfig, Key, Reason, Refused, Stores};
use std::sync::Arc;
use std::time::Duration;

/// Cookie with the device token of a device that has logged in.
const DEVICE_COOKIE: &str = "madang_device";
/// Path of the requests that carry it.
const DEVICE_PATH: &str = "/v1/auth";
/// Longest device token accepted, in bytes.
const LONGEST_DEVICE_TOKEN: usize = 512;

/// The guard, with its shared stores. Without `guard.url` nodes of one database still share used proofs.
pub(super) fn guard(
    settings: &GuardSettings,
    key: &TokenKey,
    proofs: Option<SqlProofs>,
) -> Result<Guard, AccountsError> {
    let config = guard_config(settings, key);
    let proofs = proofs.map(|proofs| Arc::new(proofs) as Arc<dyn ProofStore>);
    let mut stores = Stores { attempts: None, proofs };
    if !settings.url.is_empty() {
        let shared = Arc::new(ValkeyStore::new(&config, &settings.url)?);
        stores = Stores { attempts: Some(shared.clone()), proofs: Some(shared) };
    }
    let clock = Arc::new(SystemClock::default());
    Ok(Guard::with_stores(config, stores, clock)?)
}

/// The guard's configuration. Its key is derived from the token key: nodes that accept each other's tokens accept each
/// other's device tokens and challenges, and no key can stand in for the other.
fn guard_config(settings: &GuardSettings, key: &TokenKey) -> GuardConfig {
    let limit = |rate: Rate| FailureLimit { failures: rate.count, window: rate.window };
    let (account, address, ip) = (settings.account, settings.address, settings.ip);
    GuardConfig {
        mode: match settings.mode {
            GuardMode::Off => Mode::Off,
            GuardMode::Ip => Mode::Ip(IpLimit {
                attempts: ip.count,
                window: ip.window,
                block: settings.ip_block,
            }),
            GuardMode::On => Mode::On,
        },
        pair: limit(settings.pair),
        account: AccountLimit {
            failures: account.count,
            window: account.window,
            ..AccountLimit::default()
        },
        address: AddressLimit {
            failures: address.count,
            accounts: settings.address_accounts,
            window: address.window,
        },
        sign_up: limit(settings.sign_up),
        exempt: settings.exempt.clone(),
        waiting: Waiting { longest: settings.wait, ..Waiting::default() },
        suspicion: (settings.proof || settings.device_marks || settings.passwords).then(|| {
            Suspicion {
                proof: settings.proof.then_some(ProofConfig { work: settings.proof_work }),
                device_tokens: settings.device_marks.then(DeviceTokenConfig::default),
                passwords: settings.passwords.then(PasswordWatch::default),
                ..Suspicion::default()
            }
        }),
        ..GuardConfig::new(Key::new(key.derive("madang guard 1")))
    }
}

/// The response of a refusal: always a 429 with a time to retry after, independent of whether the account exists. With
/// a `challenge` the client may retry at once.
pub(super) fn refusal(refused: &Refused) -> Problem {
    let wait = seconds(refused.retry_after);
    let Some(challenge) = &refused.challenge else {
        let (slug, detail) = match refused.reason {
            Reason::SignUp => ("too-many-sign-ups", "too many sign-ups from your address"),
            Reason::InFlight => ("too-many-attempts", "earlier attempts are still being checked"),
            _ => ("too-many-attempts", "too many failed attempts; wait before the next one"),
        };
        return Problem::too_many_requests(slug, detail, wait);
    };
    let detail = match refused.proof_error {
        None => "solve the challenge and send the solution as altcha, or wait".to_owned(),
        Some(error) => format!("{error}; solve the new challenge"),
    };
    // Strings and a number always serialize.
    let challenge = serde_json::to_value(challenge).unwrap_or_default();
    Problem::too_many_requests("challenge-required", detail, wait)
        .with_member("challenge", challenge)
}

/// Whole seconds, rounded up so that a retry after them is not too early.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// The device token among the cookies.
pub(super) fn device_token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
    pairs
        .filter_map(|pair| pair.strip_prefix(DEVICE_COOKIE)?.strip_prefix('='))
        .find(|token| !token.is_empty() && token.len() <= LONGEST_DEVICE_TOKEN)
}

/// `Set-Cookie` with a device token. Scripts cannot read it, other sites cannot send it, and after a log-in over TLS
/// it is never sent without TLS.
pub(super) fn device_cookie(token: &DeviceToken, secure: bool) -> Option<HeaderValue> {
    let text = format!(
        "{DEVICE_COOKIE}={}; Path={DEVICE_PATH}; Max-Age={}; HttpOnly; SameSite=Strict{}",
        token.value,
        token.max_age.as_secs(),
        if secure { "; Secure" } else { "" }
    );
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
