//! Helpers of these tests.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use madang_guard::clock::ManualClock;
use madang_guard::config::{ProofConfig, Suspicion};
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

pub fn suspecting(suspicion: Suspicion) -> GuardConfig {
    GuardConfig { suspicion: Some(suspicion), ..config() }
}

/// The default with proofs that are quick to solve.
pub fn quick(work: u32) -> GuardConfig {
    suspecting(Suspicion { proof: Some(ProofConfig { work }), ..Suspicion::default() })
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

    /// Admits the attempt, with a wrong password.
    pub async fn fail(&self, try_: Try<'_>) {
        self.admit(try_).await.unwrap().fail();
    }

    pub async fn fail_times(&self, times: usize, try_: Try<'_>) {
        for _ in 0..times {
            self.fail(try_).await;
        }
    }

    /// A failure at the account from each address.
    pub async fn fail_from(&self, account: &str, addresses: Range<u32>) {
        for address in addresses {
            self.fail(at(account, address)).await;
        }
    }

    /// A failure at each of `users` accounts from one address.
    pub async fn fail_users(&self, users: u32, address: u32) {
        for user in 0..users {
            self.fail(at(&format!("user{user}"), address)).await;
        }
    }

    /// A failure with the password at each account, each from an address of its own.
    pub async fn spray(&self, users: Range<u32>, password: &str) {
        for user in users {
            self.fail(at(&format!("user{user}"), user).password(password)).await;
        }
    }

    /// Attempts that stay in flight.
    pub async fn hold(&self, attempts: usize, try_: Try<'_>) -> Vec<Reservation> {
        let mut held = Vec::new();
        for _ in 0..attempts {
            held.push(self.admit(try_).await.unwrap());
        }
        held
    }

    /// Fails until refused; returns the number of admitted attempts and the refusal.
    pub async fn guess(&self, try_: Try<'_>) -> (usize, Refused) {
        for admitted in 0.. {
            match self.admit(try_).await {
                Ok(reservation) => reservation.fail(),
                Err(refused) => return (admitted, refused),
            }
        }
        unreachable!("a counter of usize never ends")
    }

    /// Logs in; returns the device token of the device.
    pub async fn log_in(&self, try_: Try<'_>) -> Option<DeviceToken> {
        self.admit(try_).await.unwrap().succeed();
        let Attempt { address, account, credential, .. } = try_.attempt();
        self.guard.device_token(address, account, credential)
    }

    pub async fn refused(&self, try_: Try<'_>) -> Refused {
        self.admit(try_).await.unwrap_err()
    }

    pub async fn reason(&self, try_: Try<'_>) -> Reason {
        self.refused(try_).await.reason
    }

    /// The solved challenge of this attempt.
    pub async fn solved(&self, try_: Try<'_>) -> String {
        solve(&self.refused(try_).await.challenge.unwrap())
    }
}

/// An attempt and its variations.
#[derive(Clone, Copy)]
pub struct Try<'a>(Attempt<'a>);

/// An attempt at the account from the address with this number.
pub fn at(account: &str, address: u32) -> Try<'_> {
    from(account, IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + address)))
}

pub fn from(account: &str, address: IpAddr) -> Try<'_> {
    Try(Attempt {
        account: account.as_bytes(),
        address,
        // Each account has its own password unless a test sets another.
        password: account.as_bytes(),
        proof: None,
        device_token: None,
        credential: b"hash",
        under_load: false,
    })
}

impl<'a> Try<'a> {
    pub fn attempt(&self) -> Attempt<'a> {
        self.0
    }

    pub fn under_load(self) -> Self {
        Self(Attempt { under_load: true, ..self.0 })
    }

    pub fn credential(self, credential: &'a str) -> Self {
        Self(Attempt { credential: credential.as_bytes(), ..self.0 })
    }

    pub fn password(self, password: &'a str) -> Self {
        Self(Attempt { password: password.as_bytes(), ..self.0 })
    }

    pub fn proof(self, proof: &'a str) -> Self {
        Self(Attempt { proof: Some(proof), ..self.0 })
    }

    pub fn token(self, token: &'a str) -> Self {
        Self(Attempt { device_token: Some(token), ..self.0 })
    }
}

/// Solves a challenge as an ALTCHA widget does.
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

/// Asserts that the refusal's delay is `delay` plus the random spread.
#[track_caller]
pub fn assert_delay(refused: &Refused, delay: Duration) {
    let spread = (delay / 10).clamp(Duration::from_secs(1), Duration::from_secs(30));
    let most = delay + spread;
    assert!((delay..=most).contains(&refused.retry_after), "{:?}, {delay:?}", refused.retry_after);
}
