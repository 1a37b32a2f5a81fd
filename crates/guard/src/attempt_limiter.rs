//! Mode `on`: counters, waiting and suspicion combined.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::attempt::{Attempt, Reason, Refused, Suspect};
use crate::clock::Clock;
use crate::config::GuardConfig;
use crate::guard::Stores;
use crate::limit::{
    Answer, AttemptOutcome, AttemptStore, Axis, Decision, Hashing, MemoryStore, ProofStore,
    QueuePlace, Request, Room, StoreError, StoreMetrics, Subject,
};
use crate::metrics::Metrics;
use crate::reservation::{Held, Reservation, SignUp};
use crate::suspicion::{
    Binding, DeviceToken, DeviceTokens, Owner, Proof, ProofError, Proofs, UsedProofs,
};

/// The store that made a reservation, and has to end it.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Main,
    Fallback,
}

pub(crate) struct AttemptLimiter {
    store: Arc<dyn AttemptStore>,
    /// Counts while the shared store does not answer. Until then it learns the outcomes that it needs to take over.
    /// `None` without a shared store.
    fallback: Option<MemoryStore>,
    pub(crate) room: Room,
    ids: Hashing,
    watch_passwords: bool,
    proofs: Option<Proofs>,
    /// Proofs used in this process.
    used: UsedProofs,
    /// Proofs used in all processes.
    used_by_all: Option<Arc<dyn ProofStore>>,
    tokens: Option<DeviceTokens>,
    clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

/// An attempt during its admission.
struct Admission<'a> {
    attempt: &'a Attempt<'a>,
    binding: Binding<'a>,
    /// End of waiting; set when waiting begins.
    deadline: Option<Instant>,
}

impl AttemptLimiter {
    pub(crate) fn new(
        config: &GuardConfig,
        stores: Stores,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, getrandom::Error> {
        let suspicion = config.suspicion.as_ref();
        let proofs = suspicion.and_then(|suspicion| suspicion.proof);
        let proofs = proofs.map(|proof| Proofs::new(proof, &config.key)).transpose()?;
        let tokens = suspicion.and_then(|suspicion| suspicion.device_tokens);
        let memory = MemoryStore::new(config, Arc::clone(&clock));
        let (store, fallback): (Arc<dyn AttemptStore>, _) = match stores.attempts {
            Some(store) => (store, Some(memory)),
            None => (Arc::new(memory), None),
        };
        Ok(Self {
            store,
            fallback,
            room: Room::new(config.waiting),
            // Processes that count together must derive the same ids.
            ids: Hashing::with_key(&config.key.half(b"limiter ids")),
            watch_passwords: suspicion.is_some_and(|suspicion| suspicion.passwords.is_some()),
            used: UsedProofs::new(if proofs.is_some() { config.used_proofs } else { 0 }),
            used_by_all: stores.proofs,
            proofs,
            tokens: tokens.map(|_| DeviceTokens::new(&config.key)),
            clock,
            metrics,
        })
    }

    /// Metrics of the store and its fallback.
    pub(crate) fn store_metrics(&self) -> StoreMetrics {
        let mut metrics = self.store.metrics();
        if let Some(fallback) = &self.fallback {
            let own = fallback.metrics();
            metrics.entries += own.entries;
            metrics.evictions += own.evictions;
            metrics.bytes += own.bytes;
        }
        metrics
    }

    pub(crate) fn device_token(&self, owner: Owner<'_>) -> Option<DeviceToken> {
        self.tokens.as_ref()?.issue(owner, self.clock.unix_seconds())
    }

    /// Admits an attempt from `address` as counted.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        attempt: &Attempt<'_>,
        address: IpAddr,
    ) -> Result<Reservation, Refused> {
        let binding = Binding { account: attempt.account, address };
        let mut admission = Admission { attempt, binding, deadline: None };
        let account = self.ids.account(attempt.account);
        if let Some(token) = self.device_nonce(attempt) {
            let subject = Subject::KnownDevice { token: self.ids.token(account, &token), account };
            match self.enter(subject, false, &mut admission).await {
                Ok(held) => {
                    self.metrics.count(|m| m.device_tokens_accepted += 1);
                    return Ok(Reservation::new(held));
                }
                // A device token over its limit is ignored.
                Err(Decision::Over(..)) => {}
                Err(decision) => return Err(self.refuse(decision, &admission, None)),
            }
        }
        let by_address = self.ids.address(address);
        let subject = Subject::LogIn {
            pair: self.ids.pair(account, by_address),
            account,
            address: by_address,
            password: self.watch_passwords.then(|| self.ids.password(attempt.password)),
        };
        if attempt.under_load && self.proofs.is_some() {
            // Before anything is counted or looked up: a flood must cost less than the hashes that it prevents.
            let busy =
                Decision::Suspicious { suspect: Suspect::Load, remaining: SHORT, severity: 0 };
            return self.admit_proven(subject, busy, &mut admission).await;
        }
        match self.enter(subject, false, &mut admission).await {
            Ok(held) => Ok(Reservation::new(held)),
            Err(decision @ Decision::Suspicious { .. }) => {
                self.admit_proven(subject, decision, &mut admission).await
            }
            Err(decision) => Err(self.refuse(decision, &admission, None)),
        }
    }

    /// Admits a suspicious attempt if it shows a proof, and uses that up.
    async fn admit_proven(
        self: &Arc<Self>,
        subject: Subject,
        suspicious: Decision,
        admission: &mut Admission<'_>,
    ) -> Result<Reservation, Refused> {
        let proof = match self.proof(admission) {
            None => return Err(self.refuse(suspicious, admission, None)),
            Some(Err(error)) => return Err(self.refuse(suspicious, admission, Some(error))),
            Some(Ok(proof)) => proof,
        };
        let held = match self.enter(subject, true, admission).await {
            Ok(held) => held,
            Err(decision) => return Err(self.refuse(decision, admission, None)),
        };
        // Only now: a proof is used up only by an admitted attempt. Of several attempts with one proof, the
        // first to get here proceeds.
        let reservation = Reservation::new(held);
        if !self.use_up(proof).await {
            reservation.cancel();
            return Err(self.refuse(suspicious, admission, Some(ProofError::Used)));
        }
        self.metrics.count(|m| m.proofs_accepted += 1);
        Ok(reservation.with_proof(proof))
    }

    /// Marks the proof as used. Returns false if it was before, in this process or according to the shared store (if
    /// it answers).
    async fn use_up(&self, proof: Proof) -> bool {
        if !self.used.insert(proof.id, proof.expires) {
            return false;
        }
        let Some(all) = &self.used_by_all else { return true };
        let answer = all.use_up(proof.id, proof.expires, self.clock.unix_seconds()).get().await;
        answer.unwrap_or_else(|error| {
            self.store_failed(&error);
            true
        })
    }

    fn store_failed(&self, error: &StoreError) {
        self.metrics.count(|m| m.store_errors += 1);
        tracing::debug!(%error, "the shared store of the guard does not answer");
    }

    /// Counts a sign-up from `address` as counted.
    pub(crate) async fn admit_sign_up(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<SignUp, Refused> {
        let subject = Subject::SignUp(self.ids.address(address));
        let ticket = fastrand::u64(..);
        match self.reserve(Request { subject, ticket, proven: false, take: true }).await {
            (Decision::Room, side) => {
                self.metrics.count(|m| m.sign_ups_allowed += 1);
                Ok(SignUp { held: Some(self.held(subject, side, ticket)) })
            }
            (Decision::Over(_, wait), _) => Err(self.metrics.refused(Reason::SignUp, wait)),
            _ => Err(self.metrics.refused(Reason::InFlight, SHORT)),
        }
    }

    /// Ends a reservation, and wakes the attempts that wait for its places.
    pub(crate) fn settle(self: &Arc<Self>, held: &Held, outcome: AttemptOutcome) {
        if let (AttemptOutcome::Cancelled, Some(proof)) = (outcome, held.proof) {
            self.give_back(proof, held.runtime.as_ref());
        }
        if let (Side::Main, Some(fallback)) = (held.side, &self.fallback) {
            fallback.learn(&held.subject, outcome);
        }
        match self.side(held.side).settle(&held.subject, held.ticket, outcome) {
            Answer::Ready(answer) => self.settled(&held.subject, answer.is_ok()),
            Answer::Later(answer) => {
                let (limiter, subject) = (Arc::clone(self), held.subject);
                let wait = async move { limiter.settled(&subject, answer.await.is_ok()) };
                match &held.runtime {
                    Some(runtime) => drop(runtime.spawn(wait)),
                    None => self.settled(&held.subject, false),
                }
            }
        }
    }

    fn give_back(self: &Arc<Self>, proof: Proof, runtime: Option<&Handle>) {
        if let (Some(all), Some(runtime)) = (&self.used_by_all, runtime) {
            let (limiter, answer) = (Arc::clone(self), all.give_back(proof.id));
            runtime.spawn(async move {
                if let Err(error) = answer.get().await {
                    limiter.store_failed(&error);
                }
                // This process last: otherwise a retry here could find the proof still used in the shared store.
                limiter.used.remove(proof.id, proof.expires);
            });
        } else {
            self.used.remove(proof.id, proof.expires);
        }
    }

    fn settled(&self, subject: &Subject, done: bool) {
        if !done {
            self.metrics.count(|m| m.store_errors += 1);
        }
        self.room.ring(subject.allowances());
    }

    /// Reserves, waiting for attempts in flight where they hold the rest of an allowance. Waiting too long, or finding
    /// the queue full, is [`Decision::NoPlace`].
    async fn enter(
        self: &Arc<Self>,
        subject: Subject,
        proven: bool,
        admission: &mut Admission<'_>,
    ) -> Result<Held, Decision> {
        let ticket = fastrand::u64(..);
        let mut place: Option<QueuePlace<'_>> = None;
        loop {
            let queued = match place {
                Some(_) => None,
                None => self.room.queued(subject.allowances()),
            };
            let request = Request { subject, ticket, proven, take: queued.is_none() };
            let (decision, side) = self.reserve(request).await;
            let allowance = match (decision, queued) {
                (Decision::Held(axis, id), _) => (axis, id),
                (Decision::Room, Some(queue)) => queue,
                (Decision::Room, None) => return Ok(self.held(subject, side, ticket)),
                (refusal, _) => return Err(refusal),
            };
            if place.as_ref().is_none_or(|place| place.allowance != allowance) {
                drop(place.take());
                let last = self.room.enter(allowance).ok_or(Decision::NoPlace)?;
                if last.is_head() {
                    // An attempt that ended after the decision and before this place was taken rang no bell.
                    last.ring();
                }
                place = Some(last);
            }
            if let Some(place) = &place {
                self.await_turn(place, admission).await?;
            }
        }
    }

    async fn await_turn(
        &self,
        place: &QueuePlace<'_>,
        admission: &mut Admission<'_>,
    ) -> Result<(), Decision> {
        let deadline = *admission.deadline.get_or_insert_with(|| {
            self.metrics.count(|m| m.waited += 1);
            Instant::now() + self.room.bounds.longest
        });
        // Attempts of other processes end without ringing here: the head of a queue polls the store.
        let polls = self.fallback.is_some() && place.is_head();
        let until = if polls { deadline.min(Instant::now() + POLL) } else { deadline };
        match timeout_at(until, place.rung()).await {
            Err(_) if until == deadline => Err(Decision::NoPlace),
            _ => Ok(()),
        }
    }

    async fn reserve(&self, request: Request) -> (Decision, Side) {
        if let Some(fallback) = self.fallback.as_ref().filter(|_| !request.proven)
            && let Some(decision) = fallback.learned_suspicion(&request.subject)
        {
            return (decision, Side::Fallback);
        }
        match self.store.reserve(&request).get().await {
            Ok(decision) => {
                if let Some(fallback) = &self.fallback {
                    fallback.learn_suspicion(&request.subject, &decision);
                }
                (decision, Side::Main)
            }
            Err(error) => {
                self.store_failed(&error);
                let store = self.side(Side::Fallback);
                // Without any store no attempt is admitted.
                let decision = store.reserve(&request).get().await;
                (decision.unwrap_or(Decision::NoPlace), Side::Fallback)
            }
        }
    }

    fn side(&self, side: Side) -> &dyn AttemptStore {
        match (side, &self.fallback) {
            (Side::Fallback, Some(fallback)) => fallback,
            _ => &*self.store,
        }
    }

    /// The nonce of the device token shown, if it is valid.
    fn device_nonce(&self, attempt: &Attempt<'_>) -> Option<[u8; 12]> {
        let tokens = self.tokens.as_ref()?;
        let token = attempt.device_token?;
        let owner = Owner { account: attempt.account, credential: attempt.credential };
        let nonce = tokens.check(token, owner, self.clock.unix_seconds());
        if nonce.is_none() {
            self.metrics.count(|m| m.device_tokens_rejected += 1);
        }
        nonce
    }

    /// The proof shown; `None` without one, or with proofs off.
    fn proof(&self, admission: &Admission<'_>) -> Option<Result<Proof, ProofError>> {
        let shown = admission.attempt.proof?;
        let now = self.clock.unix_seconds();
        let proof = self.proofs.as_ref()?.check(shown, &admission.binding, now);
        Some(proof.and_then(|proof| {
            let used = self.used.contains(proof.id, proof.expires);
            if used { Err(ProofError::Used) } else { Ok(proof) }
        }))
    }

    fn held(self: &Arc<Self>, subject: Subject, side: Side, ticket: u64) -> Held {
        let is_shared = self.fallback.is_some() || self.used_by_all.is_some();
        let runtime = if is_shared { Handle::try_current().ok() } else { None };
        Held { limiter: Arc::clone(self), subject, side, ticket, proof: None, runtime }
    }

    fn refuse(
        &self,
        decision: Decision,
        admission: &Admission<'_>,
        error: Option<ProofError>,
    ) -> Refused {
        match decision {
            Decision::Over(axis, wait) => {
                let reason = match axis {
                    Axis::Pair | Axis::DeviceToken | Axis::DeviceTokens => Reason::Pair,
                    Axis::Account => Reason::Account,
                    Axis::Address => Reason::Address,
                    Axis::Password => Reason::Password,
                    Axis::SignUp => Reason::SignUp,
                };
                self.metrics.refused(reason, wait)
            }
            Decision::Suspicious { suspect, remaining, severity } => {
                if error.is_some() {
                    self.metrics.count(|m| m.proofs_rejected += 1);
                }
                let issue = |proofs: &Proofs| {
                    proofs.issue(&admission.binding, severity, self.clock.unix_seconds())
                };
                Refused {
                    challenge: self.proofs.as_ref().map(issue),
                    proof_error: error,
                    ..self.metrics.refused(Reason::Suspicious(suspect), remaining)
                }
            }
            Decision::Room | Decision::Held(..) | Decision::NoPlace => {
                self.metrics.refused(Reason::InFlight, SHORT)
            }
        }
    }
}

/// Interval of polling for attempts in flight elsewhere; about as long as a password hash.
const POLL: Duration = Duration::from_millis(20);
/// Time after which attempts in flight may have ended.
const SHORT: Duration = Duration::from_secs(1);
