//! Errors of a look-up.

use std::sync::Arc;
use std::time::Duration;

/// Error of [`NamedCache::get`](crate::NamedCache::get). `E` is the loader's error; it is shared, because one failed
/// load may answer many callers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError<E> {
    /// The loader failed.
    #[error("the loader failed: {0}")]
    Load(Arc<E>),
    /// The load took longer than `load_timeout`, or its runtime stood still for that time.
    #[error("no answer from the loader within {after:?}")]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The loader panicked.
    #[error("the loader panicked")]
    Panicked,
    /// The runtime that ran the load was shut down.
    #[error("the load was abandoned by its runtime")]
    Abandoned,
    /// As many loads of this name are running and waiting as its policy allows.
    #[error("too many loads at once")]
    Overloaded {
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// The caller of the loader had no turn.
    #[error("the load had no turn")]
    NoTurn {
        /// Time until a retry makes sense.
        retry_after: Duration,
    },
    /// The last load of this key failed a moment ago; the loader was not run again.
    // By a call: naming the field would make the derive require that this very type implements Display.
    #[error("the loader failed a moment ago: {}", .last.as_ref().to_string())]
    BackingOff {
        /// Its error.
        last: Arc<CacheError<E>>,
        /// Time until the next load is allowed.
        retry_after: Duration,
    },
    /// An entry depends on one to four stamps.
    #[error("an entry depends on 1 to 4 stamps, not {given}")]
    StampCount {
        /// Number of stamps given.
        given: usize,
    },
}

impl<E> CacheError<E> {
    /// The loader's own error, whether from this load or from the one being backed off from.
    pub fn load_error(&self) -> Option<&E> {
        match self {
            Self::Load(error) => Some(error),
            Self::BackingOff { last, .. } => last.load_error(),
            _ => None,
        }
    }

    /// Time until a retry makes sense, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after }
            | Self::NoTurn { retry_after }
            | Self::BackingOff { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }
}

// By hand: a derive would require `E: Clone`, though only its `Arc` is cloned.
impl<E> Clone for CacheError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Load(error) => Self::Load(Arc::clone(error)),
            Self::TimedOut { after } => Self::TimedOut { after: *after },
            Self::Panicked => Self::Panicked,
            Self::Abandoned => Self::Abandoned,
            Self::Overloaded { retry_after } => Self::Overloaded { retry_after: *retry_after },
            Self::NoTurn { retry_after } => Self::NoTurn { retry_after: *retry_after },
            Self::BackingOff { last, retry_after } => {
                Self::BackingOff { last: Arc::clone(last), retry_after: *retry_after }
            }
            Self::StampCount { given } => Self::StampCount { given: *given },
        }
    }
}
