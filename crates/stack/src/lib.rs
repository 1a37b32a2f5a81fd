//! Starts, watches and stops real processes for tests, the lab and clusters.
