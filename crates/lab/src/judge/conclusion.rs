/// End of a run of `compare` or `limit`, apart from its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    Done,
    /// The measurement failed for a reason outside of the system under test.
    Failed,
    /// The machine was too noisy, or the load generator too slow.
    CannotTell,
    /// The server failed to start or ended, the script threw, checks or invariants failed, or no request was good.
    SystemBroken,
    Interrupted,
}
