#![doc = include_str!("../README.md")]
//!
//! | part | what it is |
//! |---|---|
//! | [`config`] | settings: one table, three sources |
//! | [`store`] | SQLite or MariaDB, with group commit |
//! | [`http`] | listener, connections, limits, problems, negotiation, paging |
//! | [`idempotency`] | creates that may be sent again |
//! | [`ops`] | metrics, health, OpenAPI |
//! | [`tracks`] | running tracks |
//! | [`markets`] | traditional markets |
//! | [`posts`] | second-hand goods |
//! | [`articles`] | articles, comments and likes |
//! | [`accounts`] | accounts, tokens, regions |
//! | [`schedules`] | schedules of users |
//! | [`response_cache`] | cached responses of all systems |
//! | `search` | full-text search of posts and articles |
//! | `current` | the request of the current task |
//! | `housekeeping` | background jobs |
//! | `home` | the page at `/` |
//! | [`admin`] | the operator's commands |
//! | [`app`] | the application and its routes |
//!
//! In the folder of a system, `list.rs` is `GET` and `POST` of a collection (`create.rs` where the latter is long),
//! `one.rs` is `GET`, `PATCH` and `DELETE` of one item, and `store.rs` holds the SQL.
#![forbid(unsafe_code)]

/// `Debug` of a type that holds a secret or nothing worth printing: the name of the type.
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
