//! Fewer points for the same line: Ramer–Douglas–Peucker (Ramer 1972; Douglas and Peucker 1973).
//!
//! Every point left out lies within the tolerance of the line that is left. Each segment keeps its
//! first and last point, and every point kept is one of the originals. Elevation plays no part.
//!
//! - The result is **idempotent**: simplified again with the same tolerance it does not change.
//!   Of several points equally far away the first is kept, each time.
//! - Consecutive points at one position are one point (the first of them stays, except at the end of a
//!   segment, where the last does), so a recorder that stood still for a day costs nothing.
//! - With a tolerance of 0 nothing else is left out.
//! - The method takes n·log n steps on real tracks but n² on adversarial lines. After [`MAX_DEPTH`]
//!   divisions, a stretch is halved instead of divided at its farthest point: this keeps a few more
//!   points, within the tolerance, in bounded time. Only there idempotence is not promised.
//!
//! A simplified path is shorter than its original: take lengths from the original.

mod degrees;
mod metres;
mod rdp;

pub use degrees::degrees;
pub use metres::metres;
pub use rdp::MAX_DEPTH;

/// A tolerance that is negative or not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a tolerance of {0} is not a finite number of at least 0")]
pub struct InvalidTolerance(pub f64);
