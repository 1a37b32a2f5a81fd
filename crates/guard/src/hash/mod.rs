//! Hashing and verifying passwords on a bounded pool of low-priority threads.
