//! Mistakes that the simulation plants to check that it finds them. Outside of tests there are none.

macro_rules! mistakes {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// A mistake in one place of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(test), allow(dead_code, reason = "most are planted in the simulation itself"))]
        pub(crate) enum Mistake {
            $($(#[$about])* $name,)*
        }

        #[cfg(test)]
        impl Mistake {
            pub(crate) const ALL: &[Mistake] = &[$(Mistake::$name,)*];
        }
    };
}

mistakes! {
    /// A poll is dated by its end.
    DateByEnd,
    /// All numbers below the last one count as seen.
    ForgetGaps,
    /// An end requires only the numbers without a gap before them.
    EndAtClosed,
    /// A body claims the last number seen.
    ClaimHighest,
    /// A request joins any load.
    JoinAny,
    /// Any body from the remote tier will do.
    RemoteAny,
    /// Any replica will do.
    ReplicaAny,
    /// A node that is not fresh chooses a replica.
    ReplicaUnfresh,
    /// A body carries the position at the end of its load.
    LabelAtEnd,
    /// A load stores though its stamps moved.
    StoreMoved,
    /// A body from the remote tier is kept though its stamps moved.
    KeepMoved,
    /// Writes are acknowledged at once.
    NoDelay,
    /// A hit does not compare stamps.
    HitMoved,
    /// The window is as long as the delay.
    NoMargin,
    /// A write route reveals stored state at once.
    RevealAtOnce,
    /// A number whose transaction did not commit gets no row.
    LeaveGap,
    /// A claim does not fill the numbers that the predecessor reserved.
    ClaimUnfilled,
    /// A node that has lost its lane inserts a row.
    InsertUnowned,
    /// Rows are deleted although there is a gap before them.
    DeleteBeyondGap,
    /// A node that missed deleted rows goes on.
    IgnoreMarks,
    /// A starting node ignores the deletion marks.
    StartAtZero,
    /// Bodies of another history will do.
    AnyHistory,
    /// A node goes on when the history has changed.
    IgnoreHistory,
    /// A server of a cluster is read without waiting for what others committed.
    ReadWithoutWait,
    /// A node takes all rows of its lane for its own, and does not apply them.
    SkipLane,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

/// Whether this mistake is planted.
#[cfg(test)]
pub(crate) fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

#[cfg(not(test))]
pub(crate) const fn planted(_: Mistake) -> bool {
    false
}

/// Plants this mistake on this thread, or none.
#[cfg(test)]
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}
