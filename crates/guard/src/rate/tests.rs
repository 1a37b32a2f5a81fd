use super::*;
use crate::clock::ManualClock;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn limiter() -> (RateLimiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (RateLimiter::new(&Key::new([7; 32]), clock.clone(), None), clock)
}

fn take(limiter: &RateLimiter, buckets: &[Bucket]) -> Result<Standing, OverLimit> {
    limiter.take_here(buckets, nanos(limiter.clock.now()))
}

fn rate(count: u32, seconds: u64) -> Rate {
    Rate { count, window: Duration::from_secs(seconds) }
}

#[test]
fn a_full_bucket_is_emptied_at_once_and_refills_evenly() {
    let (limiter, clock) = limiter();
    let bucket = [limiter.of_user(0, 1, rate(4, 8))];
    for left in [3, 2, 1, 0] {
        let standing = take(&limiter, &bucket).unwrap();
        assert_eq!(standing.remaining, left);
        assert_eq!(standing.full_after, 2 * (4 - left) * SECOND);
    }
    let over = take(&limiter, &bucket).unwrap_err();
    assert_eq!((over.retry_after, over.full_after), (2 * SECOND, 8 * SECOND));
    clock.advance(SECOND + SECOND / 2);
    assert_eq!(take(&limiter, &bucket).unwrap_err().retry_after, SECOND / 2);
    clock.advance(SECOND / 2);
    assert_eq!(take(&limiter, &bucket).unwrap().remaining, 0);
    clock.advance(100 * SECOND);
    assert_eq!(take(&limiter, &bucket).unwrap().remaining, 3);
}

#[test]
fn a_refused_request_takes_from_no_bucket() {
    let (limiter, _) = limiter();
    let address = "192.0.2.1".parse().unwrap();
    let user = |id| limiter.of_user(0, id, rate(5, 60));
    let shared = limiter.of_address(0, address, rate(2, 60));
    for id in [1, 2] {
        take(&limiter, &[user(id), shared]).unwrap();
    }
    for _ in 0..9 {
        assert_eq!(take(&limiter, &[user(1), shared]).unwrap_err().bucket, 1);
    }
    assert_eq!(take(&limiter, &[user(1)]).unwrap().remaining, 3);
}

#[test]
fn users_classes_and_addresses_have_buckets_of_their_own() {
    let (limiter, _) = limiter();
    let one = rate(1, 60);
    let v4 = [192, 0, 2, 1];
    let number = i64::from(u32::from_le_bytes(v4));
    let buckets = [
        limiter.of_user(0, 1, one),
        limiter.of_user(0, 2, one),
        limiter.of_user(1, 1, one),
        limiter.of_user(0, number, one),
        limiter.of_address(0, v4.into(), one),
        limiter.of_address(1, v4.into(), one),
        limiter.of_address(0, "2001:db8::".parse().unwrap(), one),
    ];
    for bucket in buckets {
        assert!(take(&limiter, &[bucket]).is_ok());
        assert!(take(&limiter, &[bucket]).is_err());
    }
    assert_eq!(limiter.metrics().buckets, buckets.len() as u64);
}

#[test]
fn a_flood_of_addresses_takes_no_memory_and_frees_no_heavy_user() {
    let (limiter, _) = limiter();
    let heavy = [limiter.of_user(0, 1, rate(100, 3_600))];
    while take(&limiter, &heavy).is_ok() {}
    for user in 2..500_000 {
        let _ = take(&limiter, &[limiter.of_user(0, user, rate(100, 3_600))]);
    }
    let metrics = limiter.metrics();
    assert!(metrics.buckets <= CAPACITY as u64, "{metrics:?}");
    assert!(metrics.evictions > 400_000, "{metrics:?}");
    assert!(take(&limiter, &heavy).is_err(), "the bucket with the most taken is the last to go");
}

#[test]
fn what_the_server_says_is_remembered_when_it_says_more() {
    let (limiter, clock) = limiter();
    let bucket = [limiter.of_user(0, 1, rate(10, 10))];
    take(&limiter, &bucket).unwrap();
    // Other processes have taken eight.
    let standing = limiter.adopt(&bucket, &[nanos(9 * SECOND)], false, 0).unwrap();
    assert_eq!(standing.remaining, 1);
    take(&limiter, &bucket).unwrap();
    let over = limiter.adopt(&bucket, &[nanos(10 * SECOND)], true, 0).unwrap_err();
    assert_eq!(over.retry_after, SECOND);
    assert!(take(&limiter, &bucket).is_err(), "refused without asking");
    clock.advance(SECOND);
    assert!(take(&limiter, &bucket).is_ok());
}

#[test]
fn what_the_server_refuses_takes_from_no_bucket_here_either() {
    let (limiter, clock) = limiter();
    clock.advance(SECOND);
    let user = limiter.of_user(0, 1, rate(10, 10));
    let address = limiter.of_address(0, "192.0.2.1".parse().unwrap(), rate(10, 10));
    take(&limiter, &[user, address]).unwrap();
    // Other processes have emptied the bucket of the address, and this user has taken nothing elsewhere.
    let refused =
        limiter.adopt(&[user, address], &[0, nanos(10 * SECOND)], true, nanos(SECOND)).unwrap_err();
    assert_eq!((refused.bucket, refused.retry_after), (1, SECOND));
    assert_eq!(take(&limiter, &[user]).unwrap().remaining, 9);
}

proptest! {
    /// No interval sees more than a full bucket and the tokens refilled meanwhile, and a retry after
    /// `retry_after` succeeds.
    #[test]
    fn no_more_than_the_rate_gets_through(
        count in 1u32..20,
        window in 1u64..120,
        pauses in prop::collection::vec(0u64..20_000, 1..200),
    ) {
        let (limiter, clock) = limiter();
        let rate = rate(count, window);
        let bucket = [limiter.of_user(0, 1, rate)];
        let mut admitted: Vec<Duration> = Vec::new();
        for pause in pauses {
            clock.advance(Duration::from_millis(pause));
            match take(&limiter, &bucket) {
                Ok(_) => admitted.push(clock.now()),
                Err(over) if pause % 3 == 0 => {
                    clock.advance(over.retry_after);
                    prop_assert!(take(&limiter, &bucket).is_ok());
                    admitted.push(clock.now());
                }
                Err(over) => prop_assert!(over.retry_after > Duration::ZERO),
            }
        }
        for (first, from) in admitted.iter().enumerate() {
            for (last, until) in admitted.iter().enumerate().skip(first) {
                let came_back = nanos(*until - *from) / rate.interval();
                prop_assert!((last - first) as u64 <= u64::from(count) + came_back);
            }
        }
    }
}
