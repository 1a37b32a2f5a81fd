//! Counters in Valkey, for all processes that use the same server with the same key.
//!
//! Each request is one script and one round trip; the server runs scripts one after the other, which makes a request
//! atomic. The script contains its limits, so processes configured differently disagree about limits only. All
//! counters have one hash tag: in a cluster they are on one server, because a script may not read two. An attempt
//! costs a password hash, thousands of times as much as its script.
//!
//! Time is the server's, so a process with a wrong clock counts like all others. A place in flight ends with a lease:
//! the places of a process that dies are free after [`LEASE`], and its guesses got no response. Counters expire, and
//! contain only keyed hashes of names, addresses and passwords.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use madang_valkey::{Purpose, Script, Server, Url};

use crate::clock::{Clock, nanos};
use crate::config::GuardConfig;

use super::rules::{AxisLimit, Growth, Limits};
use super::window::STEPS;
use super::{
    Answer, AttemptOutcome, AttemptStore, Axis, Decision, Id, ProofStore, Request, StoreError,
    StoreMetrics, Subject,
};

/// Longer than any attempt: the wait for a thread, a look-up and a hash.
const LEASE: Duration = Duration::from_secs(30);

const PURPOSE: Purpose = Purpose {
    name: "the server of the guard",
    answer: Duration::from_millis(250),
    when_full: "attempts are counted by each node alone until it has room",
    is_kept: false,
};

const CODE: &str = include_str!("valkey.lua");

/// Prefix of all keys; one slot of a cluster.
const PREFIX: &str = "{madang:guard}";

/// Counters and used proofs in Valkey or Redis.
#[derive(Clone)]
pub struct ValkeyStore {
    server: Server,
    script: Arc<Script>,
    /// `None`: the server's.
    clock: Option<Arc<dyn Clock>>,
}

impl ValkeyStore {
    /// A store on this server, or on a cluster if several addresses are given.
    ///
    /// # Errors
    /// The addresses cannot be used.
    pub fn new(config: &GuardConfig, urls: &[Url]) -> Result<Self, StoreError> {
        let server = Server::new(urls, PURPOSE)?;
        Ok(Self { server, script: Arc::new(Script::new(code(config))), clock: None })
    }

    /// Uses this clock instead of the server's.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    fn now(&self) -> String {
        let now = |clock: &Arc<dyn Clock>| (nanos(clock.now()) / 1_000).to_string();
        self.clock.as_ref().map(now).unwrap_or_default()
    }

    async fn reserve(self, request: Request) -> Result<Decision, StoreError> {
        let Request { subject, ticket, proven, take } = request;
        let flags = [proven, take].map(|set| if set { "1" } else { "0" });
        let args = self.args("reserve", &subject, ticket, &flags);
        let (what, place, micros, severity): (String, usize, String, u32) =
            self.server.script(&self.script, &keys(&subject), &args).await?;
        let wait = Duration::from_micros(micros.parse().unwrap_or(0));
        let counter = || counters(&subject).nth(place.wrapping_sub(1));
        let suspicious = |suspect| Decision::Suspicious { suspect, remaining: wait, severity };
        let decision = match (what.as_str(), counter()) {
            ("room", _) => Some(Decision::Room),
            ("held", Some((axis, id))) => Some(Decision::Held(axis, id)),
            ("over", Some((axis, _))) => Some(Decision::Over(axis, wait)),
            ("suspicious", Some((axis, _))) => axis.suspect().map(suspicious),
            _ => None,
        };
        decision.ok_or_else(|| StoreError(format!("an answer that is none: {what} {place}").into()))
    }

    fn args(&self, act: &str, subject: &Subject, ticket: u64, rest: &[&str]) -> Vec<String> {
        let (kind, account) = match subject {
            Subject::LogIn { account, .. } => ("log_in", Some(account)),
            // Its two counters do not count accounts.
            Subject::KnownDevice { .. } => ("marked", None),
            Subject::SignUp(_) => ("sign_up", None),
        };
        let account = account.map_or_else(String::new, |id| format!("{:x}", id.0));
        let mut args =
            vec![act.to_owned(), kind.to_owned(), format!("{ticket:x}"), account, self.now()];
        args.extend(rest.iter().map(|&arg| arg.to_owned()));
        args
    }
}

impl AttemptStore for ValkeyStore {
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>> {
        Answer::Later(Box::pin(self.clone().reserve(*request)))
    }

    fn settle(
        &self,
        subject: &Subject,
        ticket: u64,
        outcome: AttemptOutcome,
    ) -> Answer<'static, Result<(), StoreError>> {
        let outcome = match outcome {
            AttemptOutcome::Success => "success",
            AttemptOutcome::Failure => "failure",
            AttemptOutcome::Cancelled => "cancelled",
        };
        let args = self.args("settle", subject, ticket, &[outcome]);
        let (this, keys) = (self.clone(), keys(subject));
        Answer::Later(Box::pin(
            async move { Ok(this.server.script(&this.script, &keys, &args).await?) },
        ))
    }

    fn metrics(&self) -> StoreMetrics {
        StoreMetrics { is_away: !self.server.is_up(), ..StoreMetrics::default() }
    }
}

impl ProofStore for ValkeyStore {
    fn use_up(&self, proof: u64, expires: u64, now: u64) -> Answer<'_, Result<bool, StoreError>> {
        let mut set = madang_valkey::redis::cmd("SET");
        // The key outlives the proof by a minute: clocks of nodes differ.
        let seconds = expires.saturating_sub(now) + 60;
        set.arg(proof_key(proof)).arg(1).arg("NX").arg("EX").arg(seconds);
        Answer::Later(Box::pin(async move {
            let set: Option<String> = self.server.run(&set).await?;
            Ok(set.is_some())
        }))
    }

    fn give_back(&self, proof: u64) -> Answer<'static, Result<(), StoreError>> {
        let mut del = madang_valkey::redis::cmd("DEL");
        del.arg(proof_key(proof));
        let server = self.server.clone();
        Answer::Later(Box::pin(async move { Ok(server.run(&del).await?) }))
    }
}

fn proof_key(proof: u64) -> String {
    format!("{PREFIX}:proof:{proof:x}")
}

/// The counters of a subject, in the order of the script's `NAMES`.
fn counters(subject: &Subject) -> impl Iterator<Item = (Axis, Id)> + use<> {
    let sign_up = match *subject {
        Subject::SignUp(address) => Some((Axis::SignUp, address)),
        _ => None,
    };
    subject.allowances().chain(sign_up)
}

fn keys(subject: &Subject) -> Vec<String> {
    counters(subject).map(|(axis, id)| format!("{PREFIX}:{}:{:x}", name(axis), id.0)).collect()
}

fn name(axis: Axis) -> &'static str {
    match axis {
        Axis::Pair => "pair",
        Axis::DeviceToken => "mark",
        Axis::DeviceTokens => "marks",
        Axis::Account => "account",
        Axis::Address => "address",
        Axis::Password => "password",
        Axis::SignUp => "sign_up",
    }
}

/// The script, preceded by the limits of this configuration.
fn code(config: &GuardConfig) -> String {
    let limits = Limits::new(config);
    let mut code = String::from("local RULES = {\n");
    for axis in Axis::ALL {
        let AxisLimit { failures, accounts, window } = limits.by_axis(axis);
        let (name, step) = (name(axis), step(window));
        let _ = writeln!(
            code,
            "  {name} = {{ failures = {failures}, accounts = {accounts}, step = {step} }},"
        );
    }
    let Growth { first, longest, proven } = limits.growth;
    let (remember, remember_address) = (limits.remember, limits.remember_address);
    let durations = [first, longest, proven, remember, remember_address, nanos(LEASE)];
    let [first, longest, proven, remember, address, lease] = durations.map(|nanos| nanos / 1_000);
    let _ = write!(
        code,
        "}}\nlocal ACCOUNT = RULES.account\n\
         ACCOUNT.first, ACCOUNT.longest, ACCOUNT.proven = {first}, {longest}, {proven}\n\
         local ANY = {}\nlocal REMEMBER, REMEMBER_ADDRESS, LEASE = {remember}, {address}, {lease}\n\
         local NAMES = {{\n  log_in = {{ 'pair', 'account', 'address', 'password' }},\n  \
         marked = {{ 'mark', 'marks' }},\n  sign_up = {{ 'sign_up' }},\n}}\n{CODE}",
        u32::MAX
    );
    code
}

/// Microseconds of a step, as in the tables in memory.
fn step(nanos: u64) -> u64 {
    (nanos / STEPS / 1_000).max(1)
}
