//! The HTTP client of virtual users: HTTP/1.1, and HTTP/2 where a TLS server prefers it.
//!
//! No existing client fits: k6 reports the phases of every request (blocked, looking up, connecting, sending, waiting,
//! receiving) and keeps connections per virtual user, and a load generator must spend as little as possible per
//! request. This client is a thin layer over `TcpStream`, with rustls for TLS and h2 for the frames of HTTP/2.

mod body;
mod client;
mod connection;
pub(crate) mod cookies;
mod debug;
pub(crate) mod digest;
pub(crate) mod encoding;
mod encrypted_key;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod head;
mod http2;
mod names;
mod ocsp;
mod outgoing;
mod pool;
mod proxy;
mod resolve;
mod stream;
mod timings;
mod tls;
mod upgrade;
mod url;

pub(crate) use client::{Client, ClientConfig, Exchange, Network, Request, block_on};
pub(crate) use connection::{Peer, Traffic};
pub use debug::HttpDebug;
use error::Result;
pub(crate) use error::{ErrorCode, RequestError};
pub(crate) use head::{Head, canonical};
pub use names::{AddressRange, Dns, NameError, NameRules, Patterns, Policy, Select, Target};
pub(crate) use ocsp::Ocsp;
use outgoing::is_token_byte;
pub(crate) use outgoing::{basic, is_valid_header, trimmed};
pub use proxy::{Proxies, Proxy};
use resolve::Resolver;
pub(crate) use stream::Stream;
pub(crate) use timings::Timings;
pub use tls::{ClientCertificate, TlsSettings, TlsVersion};
pub(crate) use tls::{Offer, TlsInfo, cipher_suite};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use url::percent_decode;
pub(crate) use url::{Url, escape_query};
