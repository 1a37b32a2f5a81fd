//! A unary gRPC call from the writing thread (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request, Version};

use super::post::{Server, TIMEOUT, USER_AGENT};
use crate::http::{Offer, Stream, block_on};

/// Sends `message` to the method at `path` over a new connection.
pub(super) fn call(
    server: &Server,
    path: &str,
    headers: &[(&str, &str)],
    message: &[u8],
) -> io::Result<()> {
    let request = request(server, path, headers).map_err(io::Error::other)?;
    let (url, body) = (server.url(path)?, body(message)?);
    let call = async {
        let stream = server.network().connect(&url, Offer::OnlyHttp2).await;
        exchange(stream.map_err(io::Error::other)?, request, body).await
    };
    block_on(async { tokio::time::timeout(TIMEOUT, call).await })??
}

fn request(
    server: &Server,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Request<()>, http::Error> {
    let mut request = Request::post(format!("{}{path}", server.address))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", USER_AGENT);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(())
}

/// A body: an uncompressed message after its length.
fn body(message: &[u8]) -> io::Result<Bytes> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut body = BytesMut::with_capacity(5 + message.len());
    body.put_u8(0);
    body.put_u32(length);
    body.put_slice(message);
    Ok(body.freeze())
}

async fn exchange(stream: Stream, request: Request<()>, body: Bytes) -> io::Result<()> {
    let (client, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let response = async {
        let mut client = client.ready().await?;
        let (response, mut sender) = client.send_request(request, false)?;
        // `h2` waits for flow control; the caller has a deadline.
        sender.send_data(body, true)?;
        let (head, mut body) = response.await?.into_parts();
        while let Some(data) = body.data().await {
            body.flow_control().release_capacity(data?.len())?;
        }
        let trailers = body.trailers().await?;
        // An error without a body has its status in the head.
        Ok::<_, h2::Error>((head.status, trailers.unwrap_or(head.headers)))
    };
    tokio::select! {
        response = response => {
            let (status, trailers) = response.map_err(io::Error::other)?;
            outcome(status.as_u16(), &trailers)
        }
        ended = connection => Err(ended.err().map_or_else(
            || io::Error::other("the server closed the connection before it answered"),
            io::Error::other,
        )),
    }
}

fn outcome(status: u16, trailers: &HeaderMap) -> io::Result<()> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        Some(code) => {
            let message = text("grpc-message").unwrap_or_default();
            Err(io::Error::other(format!("the server answers gRPC status {code} {message}")))
        }
        None => Err(io::Error::other(format!("the server answers {status} and no gRPC status"))),
    }
}
