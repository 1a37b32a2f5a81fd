#![doc = include_str!("../README.md")]

mod follower;
mod lane;
mod planted;
mod position;
#[cfg(test)]
mod simulation;
pub mod sql;
mod timing;
mod versions;

pub use follower::{Applied, Follower, Label, Poll, Replica, Row, StampBucket, Stamps, Wanted};
pub use lane::Lane;
pub use position::{LANES, Position};
pub use timing::{Moment, Timing};
pub use versions::Versions;
