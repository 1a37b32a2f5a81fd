//! The language of these tests.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use madang_guard::clock::ManualClock;
use madang_guard::suspicion::{Challenge, DeviceToken};
use madang_guard::{Attempt, Guard, GuardConfig, Key, Reason, Refused, Reservation, Stores};
use sha2::{Digest, Sha256};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3_600);

pub fn config() -> GuardConfig {
    GuardConfig::new(Key::new([7; 32]))
}

/// The limiter alone.
pub fn unsuspecting() -> GuardConfig {
    GuardConfig { suspicion: None, ..config() }
}

pub struct Yard {
    pub guard: Guard,
    pub clock: Arc<ManualClock>,
}

impl Yard {
    pub fn new(config: GuardConfig) -> Self {
        let clock = Arc::new(ManualClock::default());
        let guard = Guard::with_stores(config, Stores::default(), clock.clone()).unwrap();
        Self { guard, clock }
    }

    pub async fn admit(&self, try_: Try<'_>) -> Result<Reservation, Refused> {
        self.guard.admit(&try_.attempt()).await
    }

    /// The attempt is admitted and wrong.
    pub async fn fail(&self, try_: Try<'_>) {
        self.admit(try_).await.unwrap().fail();
    }

    pub async fn fail_times(&self, times: usize, try_: Try<'_>) {
        for _ in 0..times {
            self.fail(try_).await;
        }
    }

    /// Tries until refused, wrong each time; how many were admitted, and the refusal.
    pub async fn guess(&self, try_: Try<'_>) -> (usize, Refused) {
        for admitted in 0.. {
            match self.admit(try_).await {
                Ok(reservation) => reservation.fail(),
                Err(refused) => return (admitted, refused),
            }
        }
        unreachable!("a counter of usize never ends")
    }

    /// Logs in; the device token for the device.
    pub async fn log_in(&self, try_: Try<'_>) -> Option<DeviceToken> {
        self.admit(try_).await.unwrap().succeed();
        self.guard.device_token(try_.address, try_.account.as_bytes(), try_.credential.as_bytes())
    }

    pub async fn refused(&self, try_: Try<'_>) -> Refused {
        self.admit(try_).await.unwrap_err()
    }

    pub async fn reason(&self, try_: Try<'_>) -> Reason {
        self.refused(try_).await.reason
    }

    /// The challenge that this attempt is answered with, solved.
    pub async fn solved(&self, try_: Try<'_>) -> String {
        solve(&self.refused(try_).await.challenge.unwrap())
    }
}

/// An attempt under way, told in a line.
#[derive(Clone, Copy)]
pub struct Try<'a> {
    pub account: &'a str,
    pub address: IpAddr,
    pub password: &'a str,
    pub proof: Option<&'a str>,
    pub device_token: Option<&'a str>,
    pub credential: &'a str,
    pub under_load: bool,
}

/// An attempt at the account from the address with this number.
pub fn at(account: &str, address: u32) -> Try<'_> {
    from(account, IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + address)))
}

pub fn from(account: &str, address: IpAddr) -> Try<'_> {
    // Every account is tried with a password of its own unless a test says otherwise.
    Try {
        account,
        address,
        password: account,
        proof: None,
        device_token: None,
        credential: "hash",
        under_load: false,
    }
}

impl<'a> Try<'a> {
    pub fn attempt(&self) -> Attempt<'a> {
        Attempt {
            account: self.account.as_bytes(),
            address: self.address,
            password: self.password.as_bytes(),
            proof: self.proof,
            device_token: self.device_token,
            credential: self.credential.as_bytes(),
            under_load: self.under_load,
        }
    }

    /// While too many passwords wait to be hashed.
    pub fn under_load(self) -> Self {
        Self { under_load: true, ..self }
    }

    /// The password is stored as this.
    pub fn credential(self, credential: &'a str) -> Self {
        Self { credential, ..self }
    }

    pub fn password(self, password: &'a str) -> Self {
        Self { password, ..self }
    }

    pub fn proof(self, proof: &'a str) -> Self {
        Self { proof: Some(proof), ..self }
    }

    pub fn token(self, token: &'a str) -> Self {
        Self { device_token: Some(token), ..self }
    }
}

/// What an ALTCHA widget does: looks for the number, and sends this.
pub fn solve(challenge: &Challenge) -> String {
    payload(challenge, &number(challenge).to_string())
}

pub fn number(challenge: &Challenge) -> u32 {
    let salted = Sha256::new().chain_update(&challenge.salt);
    let solves = |number: &u32| {
        let hash = salted.clone().chain_update(number.to_string()).finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == challenge.challenge
    };
    (0..=challenge.maxnumber).find(solves).unwrap()
}

pub fn payload(challenge: &Challenge, number: &str) -> String {
    let Challenge { algorithm, challenge, salt, signature, .. } = challenge;
    STANDARD.encode(format!(
        r#"{{"algorithm":"{algorithm}","challenge":"{challenge}","number":{number},"salt":"{salt}","signature":"{signature}","took":12}}"#
    ))
}

/// Polls once; `None` if it waits.
pub fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Whether the refusal's delay is this, plus at most what is added at random.
#[track_caller]
pub fn assert_delay(refused: &Refused, delay: Duration) {
    let spread = (delay / 10).clamp(Duration::from_secs(1), Duration::from_secs(30));
    let most = delay + spread;
    assert!((delay..=most).contains(&refused.retry_after), "{:?}, {delay:?}", refused.retry_after);
}
