//! The memory that request bodies take: each is read whole before its handler runs, so without a bound
//! every connection could hold one.
//!
//! Room is taken as bytes arrive, never for what a head announces: whoever announces a large body and sends
//! nothing of it would keep everybody else's out with a few idle connections. So a body may be refused when
//! part of it has arrived; that part is given back at once.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What all request bodies may take together, unless one alone may be larger.
const ALL_BYTES: usize = 32 << 20;
/// Room is counted in these.
const UNIT_BYTES: usize = 4096;

/// There is no room for what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request bodies take as much memory as they may")]
pub(super) struct NoRoom;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The room of all bodies.
#[derive(Debug)]
pub(super) struct BodyRoom {
    units: Arc<Semaphore>,
}

impl BodyRoom {
    /// Room in which a body of `max_body` bytes fits at least.
    pub(super) fn new(max_body: usize) -> Self {
        let units = units_for(max_body.max(ALL_BYTES)) as usize;
        Self { units: Arc::new(Semaphore::new(units)) }
    }

    /// Reads a body of which at most `expected` bytes are expected, and gives the room that it
    /// takes, to be held as long as the body may be in memory. Trailers are passed over.
    ///
    /// # Errors
    /// [`NoRoom`], or that of the body.
    pub(super) async fn read<B>(
        &self,
        body: B,
        expected: usize,
    ) -> Result<(Bytes, OwnedSemaphorePermit), BoxError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mut body = pin!(body);
        let mut room = self.take(0)?;
        // One buffer that grows and not a list of what arrived: a client may send a byte at a time.
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(Into::into)?.into_data() else { continue };
            let needed = whole.len() + data.len();
            if needed > whole.capacity() {
                // Twice as large, so that all copying together is at most twice the body.
                let grown = needed.max(expected.min(2 * whole.capacity()));
                let held = u32::try_from(room.num_permits()).unwrap_or(u32::MAX);
                room.merge(self.take(units_for(grown).saturating_sub(held))?);
                whole.reserve_exact(grown - whole.len());
            }
            whole.extend_from_slice(&data);
        }
        Ok((Bytes::from(whole), room))
    }

    fn take(&self, units: u32) -> Result<OwnedSemaphorePermit, NoRoom> {
        Arc::clone(&self.units).try_acquire_many_owned(units).map_err(|_| NoRoom)
    }
}

fn units_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use madang_testing::until_async;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use tokio::task::JoinHandle;

    const LARGE: usize = 1 << 20;
    type Done = Result<(Bytes, OwnedSemaphorePermit), BoxError>;

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

    fn begin(room: &Arc<BodyRoom>) -> (UnboundedSender<Bytes>, JoinHandle<Done>) {
        let (client, sent) = unbounded_channel();
        let room = Arc::clone(room);
        (client, tokio::spawn(async move { room.read(Sent(sent), LARGE).await }))
    }

    fn free(room: &BodyRoom) -> usize {
        room.units.available_permits() * UNIT_BYTES
    }

    #[tokio::test]
    async fn bodies_that_are_announced_and_do_not_come_keep_nobody_out() {
        let room = Arc::new(BodyRoom::new(LARGE));
        let idle: Vec<_> = (0..1000).map(|_| begin(&room)).collect();
        for (client, _) in &idle {
            client.send(Bytes::from_static(b"{")).unwrap();
        }
        let is_taken = || free(&room) <= ALL_BYTES - 1000 * UNIT_BYTES;
        until_async("every body has begun", is_taken).await;
        let (client, done) = begin(&room);
        let parts = [Bytes::from(vec![1; 300_000]), Bytes::from(vec![2; LARGE - 300_000])];
        parts.iter().for_each(|part| client.send(part.clone()).unwrap());
        drop(client);
        let (body, held) = done.await.unwrap().unwrap();
        assert_eq!(body, parts.concat());
        assert_eq!(held.num_permits() * UNIT_BYTES, LARGE, "not more than it is");
        assert_eq!(free(&room), ALL_BYTES - LARGE - 1000 * UNIT_BYTES);
    }

    #[tokio::test]
    async fn all_bodies_together_never_take_more_than_they_may() {
        let room = Arc::new(BodyRoom::new(LARGE));
        let fit = ALL_BYTES / LARGE;
        let half = Bytes::from(vec![7; LARGE / 2]);
        let all: Vec<_> = (0..2 * fit).map(|_| begin(&room)).collect();
        all.iter().for_each(|(client, _)| client.send(half.clone()).unwrap());
        until_async("the room is full", || free(&room) == 0).await;
        let (client, refused) = begin(&room);
        client.send(Bytes::from_static(b"{}")).unwrap();
        let error = refused.await.unwrap().unwrap_err();
        assert!(error.is::<NoRoom>(), "{error}");
        // The second halves: what is refused gives way to the others.
        all.iter().for_each(|(client, _)| drop(client.send(half.clone())));
        let mut read = Vec::new();
        for (client, done) in all {
            drop(client);
            read.extend(done.await.unwrap().ok());
        }
        assert!(!read.is_empty() && read.len() <= fit, "{}", read.len());
        assert_eq!(free(&room), ALL_BYTES - read.len() * LARGE);
        drop(read);
        assert_eq!(free(&room), ALL_BYTES);
    }
}
