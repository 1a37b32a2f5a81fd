//! A connection that leaves HTTP/1.1 for another protocol (RFC 9110 §7.8).

use super::body::ChunkedDecoder;
use super::client::Client;
use super::connection::{Connection, Dialled, Peer, Progress, Traffic};
use super::head::Framing;
use super::stream::Stream;
use super::timings::Trace;
use super::tls::Offer;
use super::{Head, Result, Url};

/// Bytes of the body that are read when a server refuses.
const REFUSAL_BYTES: usize = 1024;

/// What a server answered to a request for another protocol.
pub(crate) struct Upgrade {
    pub(crate) head: Head,
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    /// Bytes of the other protocol that came with the answer.
    pub(crate) rest: Vec<u8>,
    /// The beginning of the body when the server stays with HTTP.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Sends `request` over a new connection and reads the answer. `traffic` becomes what that took, but for TLS,
    /// where the stream counts. The caller sets a deadline.
    pub(crate) async fn upgrade(
        &self,
        url: &Url,
        request: &[u8],
        traffic: &mut Traffic,
    ) -> Result<Upgrade> {
        let mut trace = Trace::begin();
        let Dialled { stream, peer, .. } = self.dial(url, Offer::Http1, &mut trace).await?;
        let connection = Connection::new(stream, peer);
        let mut progress =
            Progress { trace: &mut trace, traffic, to_head_request: false, discard_body: false };
        upgrade(connection, request, &mut progress).await
    }
}

async fn upgrade(
    mut connection: Connection,
    request: &[u8],
    progress: &mut Progress<'_>,
) -> Result<Upgrade> {
    connection.write(request, &[], progress.traffic).await?;
    let head = connection.read_any_head(progress).await?;
    let body = match head.status {
        101 => Vec::new(),
        _ => beginning(&mut connection, head.framing(false)?, progress).await?,
    };
    let (stream, peer, rest) = connection.into_parts();
    Ok(Upgrade { head, stream, peer, rest, body })
}

/// The first bytes of a body.
async fn beginning(
    connection: &mut Connection,
    framing: Framing,
    progress: &mut Progress<'_>,
) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let mut decoder = ChunkedDecoder::new();
    loop {
        let available = connection.available();
        let used = match framing {
            Framing::None => return Ok(body),
            Framing::Length(length) => {
                let left = usize::try_from(length).unwrap_or(usize::MAX) - body.len();
                let take = left.min(available.len());
                body.extend_from_slice(&available[..take]);
                take
            }
            Framing::UntilClose => {
                body.extend_from_slice(available);
                available.len()
            }
            Framing::Chunked => decoder.decode(available, |data| {
                body.extend_from_slice(data);
                Ok(())
            })?,
        };
        connection.consume(used);
        let is_done = match framing {
            Framing::Length(length) => body.len() as u64 == length,
            _ => decoder.is_done(),
        };
        if is_done || body.len() >= REFUSAL_BYTES || connection.fill(progress).await? == 0 {
            body.truncate(REFUSAL_BYTES);
            return Ok(body);
        }
    }
}
