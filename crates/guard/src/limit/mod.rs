//! The attempt limiter.
