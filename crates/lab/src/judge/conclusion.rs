//! What a run came to, for whoever started it: a program decides what that is worth.

/// How a run of `compare` or `limit` ended, apart from its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// It ran, whatever the figures say.
    Done,
    /// Measuring failed, for a reason outside the system under test.
    Failed,
    /// The machine was too noisy, or the load generator too slow, to decide.
    CannotTell,
    /// What was measured is broken: the server did not start or ended, the script threw, checks failed, an invariant
    /// does not hold, no request succeeded.
    SystemBroken,
    Interrupted,
}
