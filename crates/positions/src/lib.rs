#![doc = include_str!("../README.md")]

mod follower;
mod lane;
mod planted;
mod position;
mod reach;
#[cfg(test)]
mod simulation;
pub mod sql;
mod timing;
mod versions;

pub use follower::{Applied, Follower, Poll, Replica, Row};
pub use lane::Lane;
pub use position::{LANES, Label, Position};
pub use reach::Reach;
pub use timing::{Moment, Timing};
