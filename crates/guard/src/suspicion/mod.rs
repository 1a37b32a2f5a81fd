//! Suspicion instead of lock-out.
