//! An answer that is there already, or comes later.

use std::pin::Pin;

/// What a store answers: at once without an allocation, or after a round trip.
pub enum Answer<'a, T> {
    /// It is there.
    Ready(T),
    /// It has to be waited for.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Answer<'_, T> {
    /// Waits for it, if need be.
    pub async fn get(self) -> T {
        match self {
            Self::Ready(answer) => answer,
            Self::Later(answer) => answer.await,
        }
    }
}
