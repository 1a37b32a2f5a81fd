//! The guard on the wire: settings in, refusals, challenges and device tokens out.

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
/// Requests that carry it: no other needs it.
const DEVICE_PATH: &str = "/v1/auth";
/// Longest device token that is looked at.
const LONGEST_DEVICE_TOKEN: usize = 512;

/// The guard, with what it shares with other nodes.
///
/// Without `guard.url` nodes of one database still know together which proofs were used.
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

/// The guard's own settings. Its key comes from the token key, by a name of its own: nodes that accept
/// each other's tokens accept each other's device tokens and challenges, and neither passes for the other.
fn guard_config(settings: &GuardSettings, key: &TokenKey) -> GuardConfig {
    let limit = |rate: Rate| FailureLimit { failures: rate.count, window: rate.window };
    let mut config = GuardConfig::new(Key::new(key.derive("madang guard 1")));
    config.mode = match settings.mode {
        GuardMode::Off => Mode::Off,
        GuardMode::Ip => Mode::Ip(IpLimit {
            attempts: settings.ip.count,
            window: settings.ip.window,
            block: settings.ip_block,
        }),
        GuardMode::On => Mode::On,
    };
    config.pair = limit(settings.pair);
    config.account = AccountLimit {
        failures: settings.account.count,
        window: settings.account.window,
        ..AccountLimit::default()
    };
    config.address = AddressLimit {
        failures: settings.address.count,
        accounts: settings.address_accounts,
        window: settings.address.window,
    };
    config.sign_up = limit(settings.sign_up);
    config.exempt.clone_from(&settings.exempt);
    config.waiting = Waiting { longest: settings.wait, ..Waiting::default() };
    config.suspicion =
        (settings.proof || settings.device_marks || settings.passwords).then(|| Suspicion {
            proof: settings.proof.then_some(ProofConfig { work: settings.proof_work }),
            device_tokens: settings.device_marks.then(DeviceTokenConfig::default),
            passwords: settings.passwords.then(PasswordWatch::default),
            ..Suspicion::default()
        });
    config
}

/// A refusal as an answer.
///
/// Whatever stood in the way, the answer is a 429 that says when to come back; none depends on
/// whether there is such an account. With a `challenge` the client may come back at once.
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
    // Texts and a number: there is nothing in it that cannot be written.
    let challenge = serde_json::to_value(challenge).unwrap_or_default();
    Problem::too_many_requests("challenge-required", detail, wait)
        .with_member("challenge", challenge)
}

/// Whole seconds, rounded up: who comes back after them is not too early.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// The device token among the cookies, if there is one.
pub(super) fn device_token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).map(str::trim);
    pairs
        .filter_map(|pair| pair.strip_prefix(DEVICE_COOKIE)?.strip_prefix('='))
        .find(|token| !token.is_empty() && token.len() <= LONGEST_DEVICE_TOKEN)
}

/// `Set-Cookie` with a device token. Scripts cannot read it, other sites cannot send it, and over TLS
/// it never travels without.
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
