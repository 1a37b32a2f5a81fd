//! The memory of responses that are being sent (docs/decisions/0007-answer-budget.md). Buffers are counted, not
//! clients.
//!
//! Small responses are not counted: up to [`SMALL`] bytes the kernel takes a whole response, even for a client that
//! reads nothing. A connection holds one response at a time: hyper starts the next one when the last is written.

use super::Problem;
use super::connection_slots::{SHARE, give_back};
use crate::ops::memory;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use madang_cache::Value;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Responses of up to this many bytes are not counted.
pub(crate) const SMALL: usize = 16 << 10;

/// The memory of all responses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AnswerRoom {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    most: usize,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    metrics: AnswerMetrics,
    /// Bytes of the buffers that are sent to an address, each counted once per address.
    by_address: HashMap<IpAddr, usize>,
    /// Responses that hold a buffer, by its place in memory: in all, and per address.
    holders: HashMap<(Option<IpAddr>, usize), usize>,
}

/// Reason of refusing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    All,
    Share,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerMetrics {
    /// Bytes of large responses in progress, each buffer counted once, and of responses being made.
    pub(crate) held: usize,
    /// Responses refused because all of the memory was taken.
    pub(crate) refused: u64,
    /// Responses refused because their address held its share.
    pub(crate) refused_share: u64,
}

impl AnswerRoom {
    /// Room for `most` bytes. A single response always fits.
    pub(crate) fn new(most: usize) -> Self {
        Self { inner: Arc::new(Inner { most, ledger: Mutex::default() }) }
    }

    pub(crate) fn metrics(&self) -> AnswerMetrics {
        self.inner.ledger.lock().metrics
    }

    /// The response, holding its room until its last byte is with the kernel or its client has left; or a problem
    /// when there is no room. `client` is the address whose share it takes, if it has one. The response to a
    /// `committed` write is never refused; it is bounded by the size of a write's body.
    pub(super) async fn hold(
        &self,
        response: Response,
        client: Option<IpAddr>,
        committed: bool,
    ) -> Response {
        if response.body().size_hint().exact().is_none_or(|bytes| bytes <= SMALL as u64) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let value = parts.extensions.remove::<Value>();
        // Complete and in one piece: this neither waits nor copies.
        let bytes = match body.collect().await {
            Ok(whole) => whole.to_bytes(),
            Err(error) => return Problem::internal(format!("a body: {error}")).into_response(),
        };
        let most = if committed { usize::MAX } else { self.inner.most };
        match self.lend(bytes, value, client, most) {
            Ok(bytes) => Response::from_parts(parts, Body::from(bytes)),
            Err(full) => self.refuse(full).into_response(),
        }
    }

    /// Room for making a body; `None` when there is none.
    pub(crate) fn make(&self, bytes: usize) -> Option<Making> {
        let mut ledger = self.inner.ledger.lock();
        if !fits(ledger.metrics.held, bytes, self.inner.most) {
            ledger.metrics.refused += 1;
            return None;
        }
        ledger.metrics.held += bytes;
        Some(Making { room: self.clone(), bytes })
    }

    fn lend(
        &self,
        bytes: Bytes,
        value: Option<Value>,
        client: Option<IpAddr>,
        most: usize,
    ) -> Result<Bytes, Full> {
        // A holder of one of a value's encodings holds all of them.
        let (place, weight) = match &value {
            Some(value) => (value.identity().as_ptr(), value.weight()),
            None => (bytes.as_ptr(), bytes.len() as u64),
        };
        let (place, weight) = (place as usize, usize::try_from(weight).unwrap_or(usize::MAX));
        self.inner.ledger.lock().enter(place, weight, client, most)?;
        memory::LARGE.lent();
        let room = self.clone();
        Ok(Bytes::from_owner(Lent { bytes, _value: value, room, place, weight, client }))
    }

    fn refuse(&self, full: Full) -> Problem {
        let (detail, log) = match full {
            Full::All => {
                self.inner.ledger.lock().metrics.refused += 1;
                let detail = "too many large answers are being sent; try again later";
                (detail, "no memory for another large answer")
            }
            Full::Share => {
                self.inner.ledger.lock().metrics.refused_share += 1;
                let detail =
                    "too many large answers are being sent to your address; read them first";
                (detail, "an address has used up its share of the memory for large answers")
            }
        };
        Problem::unavailable(detail, fastrand::u32(1..=3), log)
    }
}

/// An empty room always fits one response.
fn fits(held: usize, more: usize, most: usize) -> bool {
    held == 0 || held.saturating_add(more) <= most
}

impl Ledger {
    fn enter(
        &mut self,
        place: usize,
        weight: usize,
        client: Option<IpAddr>,
        most: usize,
    ) -> Result<(), Full> {
        let is_new = !self.holders.contains_key(&(None, place));
        if is_new && !fits(self.metrics.held, weight, most) {
            return Err(Full::All);
        }
        if let Some(address) = client
            && !self.holders.contains_key(&(client, place))
        {
            let share = self.by_address.get(&address).copied().unwrap_or(0);
            if !fits(share, weight, most / SHARE) {
                return Err(Full::Share);
            }
            self.by_address.insert(address, share + weight);
        }
        if is_new {
            self.metrics.held += weight;
        }
        *self.holders.entry((None, place)).or_default() += 1;
        if client.is_some() {
            *self.holders.entry((client, place)).or_default() += 1;
        }
        Ok(())
    }

    fn leave(&mut self, place: usize, weight: usize, client: Option<IpAddr>) {
        if let Some(address) = client
            && give_back(&mut self.holders, (client, place), 1)
        {
            give_back(&mut self.by_address, address, weight);
        }
        if give_back(&mut self.holders, (None, place), 1) {
            self.metrics.held -= weight;
        }
    }
}

/// The buffer of a response, and its room.
struct Lent {
    bytes: Bytes,
    /// Keeps the value alive, so that later requests share it.
    _value: Option<Value>,
    room: AnswerRoom,
    place: usize,
    weight: usize,
    client: Option<IpAddr>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.room.inner.ledger.lock().leave(self.place, self.weight, self.client);
        memory::LARGE.freed();
    }
}

/// Room for making a body, until it is dropped.
#[derive(Debug)]
#[must_use = "the room is taken as long as this lives"]
pub(crate) struct Making {
    room: AnswerRoom,
    bytes: usize,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.room.inner.ledger.lock().metrics.held -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn body(bytes: usize) -> Bytes {
        Bytes::from(vec![7; bytes])
    }

    fn address(last: u8) -> Option<IpAddr> {
        Some([10, 0, 0, last].into())
    }

    fn lend(room: &AnswerRoom, bytes: &Bytes, client: Option<IpAddr>) -> Result<Bytes, Full> {
        room.lend(bytes.clone(), None, client, room.inner.most)
    }

    #[test]
    fn a_buffer_counts_once_however_many_read_it_and_as_long_as_one_does() {
        let room = AnswerRoom::new(8 * MIB);
        let shared = body(MIB);
        let mut readers: Vec<_> =
            (0..100).map(|n| lend(&room, &shared, address(n % 5)).unwrap()).collect();
        assert_eq!(room.metrics().held, MIB);
        let last = readers.pop();
        drop(readers);
        assert_eq!(room.metrics().held, MIB);
        drop(last);
        assert_eq!(room.metrics().held, 0);
        let ledger = room.inner.ledger.lock();
        assert!(ledger.holders.is_empty() && ledger.by_address.is_empty(), "{ledger:?}");
    }

    #[test]
    fn one_address_has_a_quarter_and_the_others_the_rest() {
        let room = AnswerRoom::new(8 * MIB);
        let own: Vec<_> = (0..2).map(|_| lend(&room, &body(MIB), address(1)).unwrap()).collect();
        assert_eq!(lend(&room, &body(MIB), address(1)).unwrap_err(), Full::Share);
        let others: Vec<_> = (2..8).map(|n| lend(&room, &body(MIB), address(n)).unwrap()).collect();
        assert_eq!(lend(&room, &body(MIB), address(9)).unwrap_err(), Full::All);
        assert!(room.make(1).is_none());
        drop(own);
        let exempt: Vec<_> = (0..2).map(|_| lend(&room, &body(MIB), None).unwrap()).collect();
        assert_eq!(lend(&room, &body(MIB), None).unwrap_err(), Full::All);
        drop((others, exempt));
        assert_eq!(room.metrics().held, 0);
    }

    #[test]
    fn what_is_larger_than_all_room_is_sent_alone() {
        let room = AnswerRoom::new(MIB);
        let large = lend(&room, &body(5 * MIB), address(1)).unwrap();
        assert_eq!(lend(&room, &body(SMALL + 1), address(2)).unwrap_err(), Full::All);
        drop(large);
        let making = room.make(3 * MIB).unwrap();
        assert!(room.make(1).is_none());
        drop(making);
        assert!(lend(&room, &body(SMALL + 1), address(2)).is_ok());
    }

    #[tokio::test]
    async fn the_answer_to_a_committed_write_is_not_refused() {
        let room = AnswerRoom::new(MIB);
        let _all = lend(&room, &body(MIB), address(1)).unwrap();
        for (committed, status) in [(false, 503), (true, 200)] {
            let answer = Response::new(Body::from(body(SMALL + 1)));
            let held = room.hold(answer, address(2), committed).await;
            assert_eq!(held.status(), status);
        }
    }

    #[tokio::test]
    async fn an_answer_is_handed_on_without_a_copy_and_a_small_one_as_it_is() {
        let room = AnswerRoom::new(MIB);
        let (large, small) = (body(SMALL + 1), body(SMALL));
        let place = large.as_ptr();
        let held = room.hold(Response::new(Body::from(large)), None, false).await;
        assert_eq!(held.body().size_hint().exact(), Some(SMALL as u64 + 1));
        assert_eq!(room.metrics().held, SMALL + 1);
        let sent = held.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent.as_ptr(), place);
        assert_eq!(room.metrics().held, SMALL + 1, "the socket may still have to take it");
        drop(sent);
        let _small = room.hold(Response::new(Body::from(small)), None, false).await;
        assert_eq!(room.metrics().held, 0);
    }
}
