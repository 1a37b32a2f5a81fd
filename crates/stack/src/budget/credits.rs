//! The arithmetic of a burstable budget: a token bucket, in CPU seconds.

/// CPU time that a tree may still use beyond its base.
#[derive(Debug, Clone)]
pub(crate) struct Credits {
    base: f64,
    burst: f64,
    most: f64,
    left: f64,
}

impl Credits {
    /// A full bucket.
    pub(crate) fn new(base: f64, burst: f64, credit_seconds: f64) -> Self {
        Self { base, burst, most: credit_seconds, left: credit_seconds }
    }

    /// Accounts for `elapsed` seconds in which the tree used `used` seconds of CPU time. Overspending,
    /// from the coarseness of quotas and ticks, is owed.
    pub(crate) fn pass(&mut self, elapsed: f64, used: f64) {
        self.left = (self.left + self.base * elapsed - used).min(self.most);
    }

    /// Cores that the credits pay for during the next `tick` seconds. The burst rate until they are
    /// gone would overspend by a whole tick again and again.
    pub(crate) fn cores(&self, tick: f64) -> f64 {
        (self.base + self.left / tick).clamp(self.base.min(super::LEAST), self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: f64 = 0.1;

    /// CPU seconds used under full load.
    fn used(credits: &mut Credits, seconds: f64) -> f64 {
        let ticks = (seconds / TICK).round() as u32;
        (0..ticks)
            .map(|_| {
                let used = credits.cores(TICK) * TICK;
                credits.pass(TICK, used);
                used
            })
            .sum()
    }

    fn idle(credits: &mut Credits, seconds: f64) {
        let ticks = (seconds / TICK).round() as u32;
        (0..ticks).for_each(|_| credits.pass(TICK, 0.0));
    }

    #[test]
    fn credits_last_as_long_as_they_pay_for_the_difference() {
        let mut credits = Credits::new(0.2, 1.0, 4.0);
        // 4 s of credit pay 0.8 cores beyond the base for 5 s.
        assert!((used(&mut credits, 5.0) - 5.0).abs() < 1e-9);
        assert!((used(&mut credits, 10.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn credits_grow_at_the_base_and_not_beyond_their_bound() {
        let mut credits = Credits::new(0.2, 1.0, 4.0);
        used(&mut credits, 20.0);
        idle(&mut credits, 4.0);
        // 0.8 s of credit: one second at full speed.
        assert!((used(&mut credits, 2.0) - 1.2).abs() < 1e-9);
        idle(&mut credits, 1000.0);
        assert!((used(&mut credits, 10.0) - 6.0).abs() < 1e-9, "5 s at 1, 5 s at 0.2");
    }

    #[test]
    fn half_a_base_earns_the_other_half() {
        let mut credits = Credits::new(0.2, 1.0, 4.0);
        used(&mut credits, 20.0);
        (0..100).for_each(|_| credits.pass(TICK, 0.1 * TICK));
        assert!((used(&mut credits, 10.0) - 3.0).abs() < 1e-9, "2 + 1 of credit");
    }

    #[test]
    fn what_was_overspent_is_owed() {
        let mut credits = Credits::new(0.5, 1.0, 1.0);
        credits.pass(1.0, 2.0);
        assert!(credits.cores(TICK) < 0.5);
        idle(&mut credits, 1.1);
        assert!(credits.cores(TICK) >= 0.5);
    }
}
