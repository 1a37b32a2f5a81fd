//! The HTTP API of the neighbourhood app, one folder per system.
