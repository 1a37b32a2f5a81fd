//! Upgrade of an HTTP/1.1 connection to another protocol (RFC 9110 §7.8).

use super::client::Client;
use super::connection::{BodySink, Connection, Dialled, Peer, Progress, Traffic};
use super::stream::Stream;
use super::timings::Trace;
use super::tls::Offer;
use super::{Head, RequestError, Result, Url};

/// Bytes read of the body when a server refuses.
const REFUSAL_BYTES: usize = 1024;

pub(crate) struct Upgrade {
    pub(crate) head: Head,
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    /// Bytes of the other protocol received with the response.
    pub(crate) rest: Vec<u8>,
    /// The beginning of the body when the server stays with HTTP.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Sends `request` over a new connection and reads the response. Adds its bytes to `traffic`, except over TLS,
    /// where the stream counts. The caller sets a deadline.
    pub(crate) async fn upgrade(
        &self,
        url: &Url,
        request: &[u8],
        traffic: &mut Traffic,
    ) -> Result<Upgrade> {
        let mut trace = Trace::begin();
        let Dialled { stream, peer, .. } = self.dial(url, Offer::Http1, &mut trace).await?;
        let mut connection = Connection::new(stream, peer);
        connection.write(request, &[], traffic).await?;
        let mut progress = Progress::new(&mut trace, traffic);
        let head = connection.read_head(&mut progress).await?;
        let mut refusal = BodySink::new(false);
        if head.status != 101 {
            let framing = head.framing(false)?;
            let read =
                connection.read_body(framing, &mut refusal, REFUSAL_BYTES as u64, &mut progress);
            match read.await {
                Ok(()) | Err(RequestError::ClosedInsideResponse) => {}
                Err(error) => return Err(error),
            }
            refusal.body.truncate(REFUSAL_BYTES);
        }
        let (stream, peer, rest) = connection.into_parts();
        Ok(Upgrade { head, stream, peer, rest, body: refusal.body })
    }
}
