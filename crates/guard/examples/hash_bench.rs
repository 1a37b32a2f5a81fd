//! Share of the machine's hashing that the pool delivers under five times the load.
//!
//! `cargo run --release -p madang-guard --example hash_bench -- [SCHEME] [THREADS] [SECONDS]`
//!
//! - Raw: one thread calls the hash function of the same crate in a loop, on memory that it keeps, at the
//!   priority of the pool's threads (so that other load affects both sides alike).
//! - Pool: checks of unknown users arrive at a constant rate, whether or not earlier ones are answered
//!   (an open model). Jobs that end within the window count.
//! - Refusal: time from the call to the result, for jobs refused at once.
//!
//! Raw and pool alternate and the ratio is between neighbours, because other load varies. On a machine with much other
//! load, threads of low priority get the rest, which varies; the *own* ratio excludes that: hashes per second of CPU,
//! times the part of the window in which the pool's threads ran or waited for a core (schedstat of Linux). One minus
//! this ratio is the loss of the pool itself.

use std::path::Path;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use madang_guard::hash::{HashPool, PoolError, PoolOptions, Scheme};

const OVERLOAD: f64 = 5.0;
const ROUNDS: usize = 5;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let scheme: Scheme = arguments.next().map_or(Ok(Scheme::default()), |text| text.parse())?;
    let threads = match arguments.next() {
        Some(text) => text.parse()?,
        None => PoolOptions::default().threads,
    };
    let window = Duration::from_secs_f64(arguments.next().map_or(Ok(5.0), |text| text.parse())?);
    println!("{scheme}; pool threads {threads}; {ROUNDS} rounds, {window:?} each side");
    let (mut ratios, mut own_ratios) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let raw = raw(scheme, window)?;
        let offered = raw.per_second * OVERLOAD * threads.get() as f64;
        let options = PoolOptions { scheme, threads, ..PoolOptions::default() };
        let (pool, rest) = overload(options, offered, window)?;
        let ratio = pool.per_second / (raw.per_second * threads.get() as f64);
        let own = pool.per_cpu_second / raw.per_cpu_second * pool.demand / threads.get() as f64;
        println!(
            "round {round}: raw {:.1}/s a thread, {:.1} per CPU-second; pool {:.1}/s, {:.1} per CPU-second; \
             ratio {ratio:.3}, own {own:.3}",
            raw.per_second, raw.per_cpu_second, pool.per_second, pool.per_cpu_second
        );
        println!("  {rest}");
        ratios.push(ratio);
        own_ratios.push(own);
    }
    for (name, mut ratios) in [("", ratios), ("own ", own_ratios)] {
        ratios.sort_by(f64::total_cmp);
        println!("median {name}ratio {:.3}; at least 0.85 is wanted", ratios[ROUNDS / 2]);
    }
    Ok(())
}

/// Hash rates of threads in a window.
struct Rate {
    per_second: f64,
    per_cpu_second: f64,
    /// Threads that ran or waited for a core, on average.
    demand: f64,
}

impl Rate {
    fn new(hashes: f64, wall: Duration, before: Time, after: Time) -> Self {
        let (ran, waited) = (after.ran - before.ran, after.waited - before.waited);
        Self {
            per_second: hashes / wall.as_secs_f64(),
            per_cpu_second: hashes / ran,
            demand: (ran + waited) / wall.as_secs_f64(),
        }
    }
}

/// Seconds a thread has run and has waited for a core.
#[derive(Clone, Copy, Default)]
struct Time {
    ran: f64,
    waited: f64,
}

impl Time {
    /// From a `schedstat` of /proc: nanoseconds run and waited.
    fn of(task: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(task.join("schedstat"))?;
        let nanos = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        Ok(Self { ran: nanos[0] / 1e9, waited: nanos[1] / 1e9 })
    }

    /// All threads of the pool that hash.
    fn of_pool() -> Outcome<Self> {
        let mut sum = Self::default();
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            let name = std::fs::read_to_string(task.join("comm"))?;
            if name.strip_prefix("hash-").is_some_and(|number| number.trim().parse::<u32>().is_ok())
            {
                let time = Self::of(&task)?;
                sum = Self { ran: sum.ran + time.ran, waited: sum.waited + time.waited };
            }
        }
        Ok(sum)
    }
}

/// The rate of one thread that only hashes.
fn raw(scheme: Scheme, window: Duration) -> Outcome<Rate> {
    let text = scheme.to_string();
    let mut hash: Box<dyn FnMut() + Send> = match text.split_once(':') {
        Some(("bcrypt", cost)) => {
            let cost = cost.parse()?;
            Box::new(move || {
                std::hint::black_box(bcrypt::bcrypt(cost, [7; 16], b"password\0"));
            })
        }
        Some((_, parameters)) => {
            let number = |field: &str| field[2..].parse();
            let [m, t, p] = *parameters.split(',').map(number).collect::<Result<Vec<_>, _>>()?
            else {
                return Err(text.into());
            };
            let params = Params::new(m, t, p, Some(32)).map_err(|error| error.to_string())?;
            let mut blocks = vec![Block::new(); params.block_count()];
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            Box::new(move || {
                let mut output = [0; 32];
                argon2
                    .hash_password_into_with_memory(b"password", &[7; 16], &mut output, &mut blocks)
                    .expect("a scheme's parameters are accepted");
                std::hint::black_box(output);
            })
        }
        None => return Err(text.into()),
    };
    let looping = std::thread::spawn(move || {
        // Affects this thread only, as in the pool.
        let _ = rustix::process::setpriority_process(None, 19);
        hash();
        let this = Path::new("/proc/thread-self");
        let (begun, before, mut hashes) = (Instant::now(), Time::of(this).ok()?, 0_u32);
        while begun.elapsed() < window {
            hash();
            hashes += 1;
        }
        Some(Rate::new(hashes.into(), begun.elapsed(), before, Time::of(this).ok()?))
    });
    Ok(looping.join().ok().flatten().ok_or("the raw loop failed")?)
}

/// The rate of a pool with `offered` jobs per second during `window`, after a warm-up, and its refusals.
fn overload(options: PoolOptions, offered: f64, window: Duration) -> Outcome<(Rate, String)> {
    let pool = HashPool::start(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (rate, mut refusals) = runtime.block_on(async {
        // Warm-up until the queue is full.
        arrive(&pool, offered, options.max_wait).await;
        let (done, before, begun) = (pool.metrics().done, Time::of_pool()?, Instant::now());
        let refusals = arrive(&pool, offered, window).await;
        let done = pool.metrics().done - done;
        let rate = Rate::new(done as f64, begun.elapsed(), before, Time::of_pool()?);
        Outcome::Ok((rate, refusals))
    })?;
    refusals.sort_unstable();
    let at = |part: f64| refusals.get((refusals.len() as f64 * part) as usize).copied();
    let m = pool.metrics();
    let rest = format!(
        "refusal p50 {:?} p99 {:?} max {:?}; refused {}, expired {}, longest queue {}, {} KiB kept",
        at(0.5).unwrap_or_default(),
        at(0.99).unwrap_or_default(),
        refusals.last().copied().unwrap_or_default(),
        m.refused,
        m.expired,
        m.queued_max,
        m.memory_bytes / 1024
    );
    Ok((rate, rest))
}

/// Submits jobs at a constant rate; returns the time of each refusal.
async fn arrive(pool: &HashPool, offered: f64, window: Duration) -> Vec<Duration> {
    let begun = tokio::time::Instant::now();
    let mut refusals = Vec::new();
    for job in 0..(offered * window.as_secs_f64()) as u32 {
        tokio::time::sleep_until(begun + Duration::from_secs_f64(f64::from(job) / offered)).await;
        let called = Instant::now();
        let mut ticket = pool.verify("password".into(), None, |_| {});
        let now = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut ticket).poll(context))
        });
        if let std::task::Poll::Ready(Err(PoolError::Busy { .. })) = now.await {
            refusals.push(called.elapsed());
        } else {
            tokio::spawn(ticket);
        }
    }
    refusals
}
