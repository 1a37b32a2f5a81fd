#![doc = include_str!("../README.md")]
//!
//! | part | what it is |
//! |---|---|
//! | [`config`] | settings: one table, three sources |
//! | [`store`] | the embedded store with its group-commit writer |
//! | [`http`] | listener, connections, limits, problems, negotiation, paging |
//! | [`idempotency`] | creates that may be sent again |
//! | [`ops`] | metrics, health, OpenAPI |
//! | [`tracks`] | running tracks |
//! | [`markets`] | traditional markets |
//! | [`posts`] | second-hand goods |
//! | [`articles`] | articles, comments and likes |
//! | [`accounts`] | who is who |
//! | [`schedules`] | who plans what |
//! | [`response_cache`] | what their cached responses share |
//! | `search` | which texts hold all words |
//! | `current` | the request that a task works for |
//! | `housekeeping` | what is done beside the requests |
//! | `home` | the page at `/` |
//! | [`admin`] | the operator's commands |
//! | [`app`] | all of it put together |
//!
//! In the folder of a system `list.rs` is `GET` and `POST` of a collection (`create.rs` where the latter is long), `one.rs`
//! is all that is done to one of its things (`GET`, `PATCH`, `DELETE`), and `store.rs` holds the SQL.
#![forbid(unsafe_code)]

/// `Debug` of a type that holds a secret, or nothing that is worth printing: its name alone.
macro_rules! opaque_debug {
    ($type:ty $(, $parameter:ident)?) => {
        impl$(<$parameter>)? std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($type), "(hidden)"))
            }
        }
    };
}
pub(crate) use opaque_debug;

use base16ct::lower::encode_string as hex;

pub mod accounts;
pub mod admin;
pub mod app;
pub mod articles;
pub mod config;
mod current;
mod exposition;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod housekeeping;
pub mod http;
pub mod idempotency;
pub mod markets;
pub mod ops;
pub mod posts;
pub mod response_cache;
pub mod schedules;
mod search;
pub mod store;
pub mod tracks;
