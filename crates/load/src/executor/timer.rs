//! A timer with the kernel's resolution (timerfd). Tokio's has milliseconds, which would turn 10,000 starts per second
//! into bursts of ten.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

pub(crate) enum Timer {
    Precise(AsyncFd<OwnedFd>),
    /// Tokio's, for tests with a controlled clock and when the kernel refuses a timer.
    Coarse,
}

impl Timer {
    pub(crate) fn precise() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(std::io::Error::from);
        #[expect(
            deprecated,
            reason = "the descriptor is owned and never closed before its AsyncFd"
        )]
        fd.and_then(AsyncFd::new).map_or(Self::Coarse, Self::Precise)
    }

    /// Completes at `moment`, never before.
    pub(crate) async fn until(&self, moment: Instant) {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self {
                Self::Precise(fd) if arm(fd, left).is_ok() => {
                    if let Ok(mut guard) = fd.readable().await {
                        let mut expirations = [0; 8];
                        let _ = rustix::io::read(fd.get_ref(), &mut expirations);
                        guard.clear_ready();
                    }
                }
                _ => tokio::time::sleep_until(moment).await,
            }
        }
    }
}

fn arm(fd: &AsyncFd<OwnedFd>, left: Duration) -> rustix::io::Result<()> {
    let at = Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(fd.get_ref(), TimerfdTimerFlags::empty(), &once).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_timer_is_early_and_both_come_to_an_end() {
        for timer in [Timer::precise(), Timer::Coarse] {
            for micros in [0, 30, 1_700] {
                let moment = Instant::now() + Duration::from_micros(micros);
                timer.until(moment).await;
                assert!(Instant::now() >= moment);
            }
        }
    }

    #[tokio::test]
    async fn the_precise_timer_is_the_kernels() {
        assert!(matches!(Timer::precise(), Timer::Precise(_)));
    }
}
