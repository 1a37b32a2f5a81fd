//! The memory of request bodies, each read whole before its handler runs (docs/decisions/0006-body-budget.md).
//!
//! Room is taken as bytes arrive, not as a head announces them. A body that arrives with its head takes none: it lies
//! in the buffer that its connection has anyway. When the quarter of an address is taken, its oldest body that has
//! been arriving for more than a second gives way to the new one; when the whole room is taken, the oldest of the
//! address that holds most. Without such a body the new one is refused: if bodies gave way at once, none would finish
//! under load.

use super::connection_slots::{SHARE, give_back};
use crate::ops::metrics::ServerMetrics;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Size in bytes up to which a body is small and needs no token.
pub(crate) const SMALL_BODY: usize = 64 << 10;
/// Memory of all small bodies in bytes.
const ALL_SMALL: usize = 8 << 20;
/// Memory of all larger bodies in bytes, unless four of `max_body` need more.
const ALL_LARGE: usize = 32 << 20;
/// Time for which an arriving body does not give way.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// There is no room for the body, or it gave way to another one.
    #[error("request bodies use all of their memory")]
    NoRoom,
    #[error("the body is too large")]
    TooLarge,
    #[error(transparent)]
    Body(BoxError),
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
pub(super) struct BodyRooms {
    small: Arc<Room>,
    large: Arc<Room>,
}

impl BodyRooms {
    /// Rooms that fit at least four bodies of `max_body` bytes.
    pub(super) fn new(max_body: usize, metrics: &ServerMetrics) -> Self {
        let large = max_body.saturating_mul(SHARE).max(ALL_LARGE);
        Self {
            small: Room::new(ALL_SMALL, GRACE, metrics.body_room("small")),
            large: Room::new(large, GRACE, metrics.body_room("large")),
        }
    }

    /// Reads a body of at most `most` bytes, without trailers. The room must be held as long as the body is in
    /// memory; `client` is the address whose share it takes.
    pub(super) async fn read<B>(
        &self,
        body: B,
        most: usize,
        announced: Option<usize>,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Result<(Bytes, Option<Held>), ReadError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mut body = pin!(body);
        let Some(first) = data_of(&mut body).await? else { return Ok((Bytes::new(), None)) };
        if body.is_end_stream() && first.len() <= most {
            return Ok((first, None));
        }
        let is_large = announced.is_some_and(|length| length > SMALL_BODY);
        let mut held = Held::new(if is_large { &self.large } else { &self.small }, client());
        // One growing buffer, not a list of pieces: a client may send a byte at a time.
        let mut whole = Vec::new();
        let mut next = Some(first);
        while let Some(data) = next {
            let needed = whole.len() + data.len();
            if needed > most {
                return Err(ReadError::TooLarge);
            }
            if needed > whole.capacity() {
                // At least doubled, so that all copies together are at most twice the body.
                let grown = needed.max(announced.unwrap_or(most).min(2 * whole.capacity()));
                if grown > SMALL_BODY && Arc::ptr_eq(&held.room, &self.small) {
                    held = Held::new(&self.large, held.client);
                }
                held.grow(grown)?;
                whole.reserve_exact(grown - whole.len());
            }
            whole.extend_from_slice(&data);
            next = tokio::select! {
                biased;
                () = held.gives_way.notified() => return Err(ReadError::NoRoom),
                data = data_of(&mut body) => data?,
            };
        }
        held.arrived()?;
        Ok((Bytes::from(whole), Some(held)))
    }
}

/// The next piece of a body.
async fn data_of<B>(body: &mut Pin<&mut B>) -> Result<Option<Bytes>, ReadError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|error| ReadError::Body(error.into()))?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Memory that bodies share.
#[derive(Debug)]
struct Room {
    most: usize,
    grace: Duration,
    usage: Mutex<Usage>,
}

/// Memory taken in a room.
#[derive(Debug)]
struct Usage {
    bytes: usize,
    /// Shows `bytes`.
    gauge: Gauge,
    by_client: HashMap<IpAddr, usize>,
    /// By number, so in the order of their beginning.
    bodies: BTreeMap<u64, Entry>,
    begun: u64,
}

#[derive(Debug)]
struct Entry {
    client: Option<IpAddr>,
    bytes: usize,
    since: Instant,
    /// Notifies its reader; `None` once the body has arrived, for then it is in use.
    gives_way: Option<Arc<Notify>>,
}

impl Room {
    fn new(most: usize, grace: Duration, gauge: Gauge) -> Arc<Self> {
        let (by_client, bodies) = Default::default();
        let usage = Mutex::new(Usage { bytes: 0, gauge, by_client, bodies, begun: 0 });
        Arc::new(Self { most, grace, usage })
    }
}

impl Usage {
    fn held_by(&self, client: IpAddr) -> usize {
        self.by_client.get(&client).copied().unwrap_or(0)
    }

    fn show(&self) {
        self.gauge.set(i64::try_from(self.bytes).unwrap_or(i64::MAX));
    }

    fn add(&mut self, id: u64, bytes: usize) {
        let Some(entry) = self.bodies.get_mut(&id) else { return };
        entry.bytes += bytes;
        let client = entry.client;
        self.bytes += bytes;
        self.show();
        if let Some(client) = client {
            *self.by_client.entry(client).or_default() += bytes;
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.bodies.remove(&id)?;
        self.bytes -= entry.bytes;
        self.show();
        if let Some(client) = entry.client {
            give_back(&mut self.by_client, client, entry.bytes);
        }
        Some(entry)
    }

    /// Frees the room of this client's oldest body, other than `id`, that has been arriving for longer than `grace`;
    /// false if there is none. Its memory is freed when its reader runs.
    fn oldest_gives_way(&mut self, client: IpAddr, id: u64, grace: Duration) -> bool {
        let now = Instant::now();
        let slow = self.bodies.iter().take_while(|(_, entry)| now - entry.since > grace);
        let mut slow = slow.filter(|(other, entry)| {
            entry.client == Some(client) && entry.gives_way.is_some() && **other != id
        });
        let Some((&oldest, _)) = slow.next() else { return false };
        if let Some(gives_way) = self.remove(oldest).and_then(|entry| entry.gives_way) {
            gives_way.notify_one();
        }
        true
    }
}

/// The room of one body, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    room: Arc<Room>,
    client: Option<IpAddr>,
    gives_way: Arc<Notify>,
    id: u64,
}

impl Held {
    fn new(room: &Arc<Room>, client: Option<IpAddr>) -> Self {
        let mut usage = room.usage.lock();
        usage.begun += 1;
        let (id, since, gives_way) = (usage.begun, Instant::now(), Arc::default());
        let entry = Entry { client, bytes: 0, since, gives_way: Some(Arc::clone(&gives_way)) };
        usage.bodies.insert(id, entry);
        Self { room: Arc::clone(room), client, gives_way, id }
    }

    /// Takes room until it has `bytes`.
    fn grow(&mut self, bytes: usize) -> Result<(), ReadError> {
        let Room { most, grace, .. } = *self.room;
        let mut usage = self.room.usage.lock();
        let id = self.id;
        let more = bytes - usage.bodies.get(&id).ok_or(ReadError::NoRoom)?.bytes;
        if let Some(client) = self.client {
            while usage.held_by(client) + more > most / SHARE {
                if !usage.oldest_gives_way(client, id, grace) {
                    return Err(ReadError::NoRoom);
                }
            }
        }
        while usage.bytes + more > most {
            let largest = usage.by_client.iter().max_by_key(|(_, held)| **held);
            let largest = largest.map(|(client, _)| *client);
            if !largest.is_some_and(|client| usage.oldest_gives_way(client, id, grace)) {
                return Err(ReadError::NoRoom);
            }
        }
        usage.add(id, more);
        Ok(())
    }

    /// The body is whole, and no longer gives way.
    fn arrived(&mut self) -> Result<(), ReadError> {
        let mut usage = self.room.usage.lock();
        usage.bodies.get_mut(&self.id).ok_or(ReadError::NoRoom)?.gives_way = None;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.usage.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use madang_testing::until_async;
    use std::convert::Infallible;
    use std::task::{Context, Poll};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use tokio::task::JoinHandle;

    const LARGE: usize = 1 << 20;
    const HOLD: Duration = Duration::from_secs(3600);
    type Done = Result<(Bytes, Option<Held>), ReadError>;

    /// A body as its client sends it.
    struct Sent(UnboundedReceiver<Bytes>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
        }
    }

    struct Upload(UnboundedSender<Bytes>, JoinHandle<Done>);

    impl Upload {
        fn send(&self, bytes: usize) {
            // The receiver is dropped when the body was refused.
            let _ = self.0.send(Bytes::from(vec![7; bytes]));
        }

        async fn ends(self) -> Done {
            drop(self.0);
            self.1.await.unwrap()
        }
    }

    fn rooms(grace: Duration) -> Arc<BodyRooms> {
        let room = |most| Room::new(most, grace, Gauge::default());
        Arc::new(BodyRooms { small: room(ALL_SMALL), large: room(ALL_LARGE) })
    }

    /// A client's upload of which this much has arrived.
    fn begin(rooms: &Arc<BodyRooms>, client: u8, bytes: usize) -> Upload {
        announce(rooms, client, Some(LARGE), bytes)
    }

    fn announce(
        rooms: &Arc<BodyRooms>,
        client: u8,
        announced: Option<usize>,
        bytes: usize,
    ) -> Upload {
        let (send, sent) = unbounded_channel();
        let rooms = Arc::clone(rooms);
        let client = move || (client > 0).then(|| IpAddr::from([10, 0, 0, client]));
        let read = async move { rooms.read(Sent(sent), LARGE, announced, client).await };
        let upload = Upload(send, tokio::spawn(read));
        upload.send(bytes);
        upload
    }

    async fn until(reached: impl Fn() -> bool) {
        until_async("the room changes", reached).await;
    }

    /// Uploads that take this much of the large room now.
    async fn stalled(
        rooms: &Arc<BodyRooms>,
        client: u8,
        count: usize,
        bytes: usize,
    ) -> Vec<Upload> {
        let before = rooms.large.usage.lock().bytes;
        let all = (0..count).map(|_| begin(rooms, client, bytes)).collect();
        until(|| rooms.large.usage.lock().bytes >= before + count * bytes).await;
        all
    }

    fn no_room(done: &Done) {
        assert!(matches!(done, Err(ReadError::NoRoom)), "{done:?}");
    }

    fn is_empty(room: &Room) -> bool {
        let usage = room.usage.lock();
        usage.bytes == 0 && usage.by_client.is_empty() && usage.bodies.is_empty()
    }

    #[tokio::test]
    async fn bodies_that_are_announced_and_do_not_come_keep_nobody_out() {
        let rooms = rooms(HOLD);
        let idle: Vec<_> = (0..1000).map(|_| begin(&rooms, 1, 1)).collect();
        until(|| rooms.large.usage.lock().bodies.len() == 1000).await;
        assert_eq!(rooms.large.usage.lock().bytes, 1000);
        let upload = begin(&rooms, 1, 300_000);
        upload.send(LARGE - 300_000);
        let (body, held) = upload.ends().await.unwrap();
        assert_eq!(body.len(), LARGE);
        assert_eq!(rooms.large.usage.lock().bytes, LARGE + 1000, "not more than it is");
        drop((held, idle));
        until(|| is_empty(&rooms.small) && is_empty(&rooms.large)).await;
    }

    #[tokio::test]
    async fn small_bodies_have_room_when_large_ones_have_none() {
        let rooms = rooms(HOLD);
        let large = stalled(&rooms, 0, ALL_LARGE / LARGE, LARGE - 1).await;
        no_room(&begin(&rooms, 1, SMALL_BODY + 1).ends().await);
        for announced in [Some(SMALL_BODY), None] {
            let small = announce(&rooms, 1, announced, SMALL_BODY / 2);
            small.send(SMALL_BODY / 2);
            assert_eq!(small.ends().await.unwrap().0.len(), SMALL_BODY);
        }
        let grown = announce(&rooms, 1, None, SMALL_BODY);
        grown.send(1);
        no_room(&grown.ends().await);
        drop(large);
    }

    #[tokio::test]
    async fn a_client_takes_a_quarter_and_the_others_find_room() {
        let rooms = rooms(HOLD);
        let share = ALL_LARGE / LARGE / SHARE;
        let held = stalled(&rooms, 1, share, LARGE - 1).await;
        no_room(&begin(&rooms, 1, LARGE / 2).ends().await);
        let mut others = Vec::new();
        for other in [2, 3, 4] {
            others.extend(stalled(&rooms, other, share, LARGE - 1).await);
        }
        for upload in held.into_iter().chain(others) {
            upload.send(1);
            assert_eq!(upload.ends().await.unwrap().0.len(), LARGE, "nothing was taken from it");
        }
        until(|| is_empty(&rooms.large)).await;
    }

    #[tokio::test]
    async fn a_slow_body_gives_way_to_a_later_one_of_its_client() {
        let rooms = rooms(Duration::ZERO);
        let share = ALL_LARGE / LARGE / SHARE;
        let mut held = stalled(&rooms, 1, share, LARGE - 1).await;
        let newer = begin(&rooms, 1, LARGE);
        assert_eq!(newer.ends().await.unwrap().0.len(), LARGE);
        no_room(&held.remove(0).ends().await);
        for upload in held {
            upload.send(1);
            assert!(upload.ends().await.is_ok(), "only the oldest");
        }
        until(|| is_empty(&rooms.large)).await;
    }

    #[tokio::test]
    async fn in_a_full_room_the_client_that_holds_most_gives_way() {
        let rooms = rooms(Duration::ZERO);
        let mut all = Vec::new();
        // Client 3 holds most, and nothing is left.
        for (client, count) in [(1, 7), (2, 7), (3, 8), (4, 7), (5, 3)] {
            all.extend(stalled(&rooms, client, count, LARGE - 1).await);
        }
        let of = |client| {
            rooms.large.usage.lock().held_by(IpAddr::from([10, 0, 0, client])) / (LARGE - 1)
        };
        let newcomer = begin(&rooms, 9, LARGE - 1);
        until(|| of(9) == 1).await;
        assert_eq!([1, 2, 3, 4, 5, 9].map(of), [7, 7, 7, 7, 3, 1]);
        assert!(rooms.large.usage.lock().bytes <= ALL_LARGE);
        drop((all, newcomer));
        until(|| is_empty(&rooms.large)).await;
    }

    #[tokio::test]
    async fn what_has_arrived_does_not_give_way() {
        let rooms = rooms(Duration::ZERO);
        let share = ALL_LARGE / LARGE / SHARE;
        let mut whole = Vec::new();
        for _ in 0..share {
            whole.push(begin(&rooms, 1, LARGE).ends().await.unwrap());
        }
        no_room(&begin(&rooms, 1, LARGE).ends().await);
        drop(whole);
        assert!(is_empty(&rooms.large));
    }

    #[tokio::test]
    async fn a_body_that_comes_with_its_head_takes_no_room() {
        let rooms = rooms(HOLD);
        let body = http_body_util::Full::new(Bytes::from_static(b"{}"));
        let (read, held) = rooms.read(body, 10, Some(2), || panic!("not asked")).await.unwrap();
        assert_eq!((&read[..], held.is_none()), (&b"{}"[..], true));
        let body = http_body_util::Full::new(Bytes::from_static(b"{    }"));
        let refused = rooms.read(body, 5, None, || None).await;
        assert!(matches!(refused, Err(ReadError::TooLarge)), "{refused:?}");
    }
}
