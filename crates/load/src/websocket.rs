//! WebSocket (RFC 6455) with `permessage-deflate` (RFC 7692), as a client.
//!
//! Not a crate: scripts see the fragments, close codes and messages of gorilla/websocket, which k6 uses; streams come
//! from the engine's own connector; and an idle socket must hold no buffers, because a virtual user may have several.
//! All input is bounded: control frames by the protocol, messages by [`MAX_MESSAGE_BYTES`], answers to pings by what
//! the server reads.

mod connection;
mod deflate;
mod dial;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

pub(crate) use connection::Connection;
pub(crate) use dial::{Dial, DialError, Opened};
pub(crate) use frame::{End, Incoming, Opcode};

/// Size limit of a received message, once decompressed.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
