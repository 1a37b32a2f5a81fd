//! Cost of a look-up, and hit ratio of SIEVE.
//!
//! ```text
//! cargo run --release -p madang-cache --example cache_bench [redis://127.0.0.1:6379]
//! ```
//! Prints the processor time of a hit by each way in, the hits per second of several threads, the
//! memory of a full cache beside its weight, and the hit ratios of this cache, LRU and FIFO on
//! the same traces. The seeds are fixed: the ratios of LRU and FIFO repeat exactly, the cache's
//! own vary a little with its random hash key. With the address of a Valkey or Redis, also the cost of a hit in
//! the shared tier.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use madang_cache::{
    Cache, CacheConfig, CacheError, ConfigError, Horizon, Loaded, NamedCache, Policy, RemoteConfig,
    Stamp, Value, entry_weight,
};
use madang_valkey::{Url, redis};

/// The loaders of this program do not fail.
#[derive(Debug, thiserror::Error)]
#[error("unreachable")]
struct Never;

type Failure = Box<dyn std::error::Error>;

/// Keys that are hot in the timing part.
const HOT: usize = 1_000;
const KEYS: u32 = 100_000;
const REQUESTS: usize = 1_000_000;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    println!("processor time of a hit, one thread, {HOT} keys, 1 KiB bodies:");
    for (what, nanos) in runtime.block_on(hit_times())? {
        println!("  {what:<28} {nanos:>6.1} ns");
    }
    println!("peek_fresh on several threads:");
    for threads in [1, 2, 4] {
        let (per_second, nanos) = hits_of(threads)?;
        println!(
            "  {threads} threads {per_second:>12.0} hits/s {nanos:>8.1} ns of processor a hit"
        );
    }
    let (used, grown) = runtime.block_on(memory())?;
    println!("memory of a full cache of 32 MiB, 1 KiB bodies: weight {used} B, process +{grown} B");
    println!("hit ratio, {KEYS} keys, {REQUESTS} requests, same entry size:");
    println!("  {:<26} {:>6}  {:>7} {:>7} {:>7}", "trace", "room", "sieve", "lru", "fifo");
    for (trace, requests) in traces() {
        for share in [0.01, 0.1] {
            let room = (f64::from(KEYS) * share) as usize;
            let sieve = runtime.block_on(hit_ratio(room, &requests))?;
            let [lru, fifo] = [true, false].map(|lru| Queue::new(room, lru).ratio(&requests));
            println!("  {trace:<26} {room:>6}  {sieve:>7.4} {lru:>7.4} {fifo:>7.4}");
        }
    }
    if let Some(url) = std::env::args().nth(1) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let times = runtime.block_on(shared_times(&url))?;
        println!(
            "processor time, {AT_ONCE} at once, 1 KiB bodies, best of {BATCHES} batches in turn:"
        );
        for (what, nanos) in ["GET of the same size", "hit in the shared tier"].iter().zip(times) {
            println!("  {what:<28} {nanos:>8.0} ns");
        }
        println!("  ratio                        {:>8.2}", times[1] / times[0]);
    }
    Ok(())
}

/// Concurrent look-ups, and all look-ups of a batch, in the part about the shared tier.
const AT_ONCE: usize = 32;
const SHARED: usize = 20_000;

/// Accepts all bodies of others.
struct Always;

impl Horizon for Always {
    fn label(&self) -> Option<Vec<u8>> {
        Some(vec![0; 24])
    }

    fn admits(&self, _label: &[u8], _stamps: &[Stamp]) -> bool {
        true
    }
}

/// A GET through the client alone, and a hit of a cache without a local tier.
async fn shared_times(url: &str) -> Result<[f64; 2], Failure> {
    let config = CacheConfig { local: false, ..CacheConfig::default() };
    let remote = RemoteConfig { urls: vec![Url::parse(url)?], prefix: "bench".to_owned() };
    let cache = Cache::with_remote(&config, remote, Arc::new(Always))?;
    let named: NamedCache<Never> = cache.named("bench", still())?;
    let keys = hot_keys();
    // Without a connection nothing is stored.
    let began = Instant::now();
    while named.metrics().remote_stored < keys.len() as u64 {
        if began.elapsed() > Duration::from_secs(10) {
            return Err("the server of this address keeps nothing".into());
        }
        for key in &keys {
            get(&named, key, 1024).await?;
        }
    }
    let client = redis::Client::open(url)?;
    let link = client.get_multiplexed_async_connection().await?;
    let stored = format!("bench:bench:{}", keys[0]);
    let mut best = [f64::INFINITY; 2];
    for batch in 0..2 * BATCHES {
        let before = processor_nanos();
        let tasks = (0..AT_ONCE).map(|task| {
            let (named, mut link, keys, stored) =
                (named.clone(), link.clone(), keys.clone(), stored.clone());
            tokio::spawn(async move {
                for n in 0..SHARED / AT_ONCE {
                    if batch % 2 == 0 {
                        let mut command = redis::cmd("GET");
                        let found: Result<Vec<u8>, _> =
                            command.arg(&stored).query_async(&mut link).await;
                        _ = black_box(found);
                    } else {
                        _ = black_box(get(&named, &keys[(n * AT_ONCE + task) % HOT], 1024).await);
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await?;
        }
        best[batch % 2] = best[batch % 2].min(since(before) / SHARED as f64);
    }
    let hits = named.metrics().remote_hits;
    assert!(hits > (BATCHES * SHARED / 2) as u64, "{hits} hits: something else was measured");
    Ok(best)
}

fn body(len: usize) -> Value {
    Value::new(Bytes::from(vec![b'x'; len]), "application/json", "0123456789abcdef")
}

fn still() -> Policy {
    let hour = Duration::from_secs(3600);
    Policy { refresh_ahead: None, ..Policy::with_ttl(hour, hour) }
}

/// Looks a key up, with a loader.
async fn get(named: &NamedCache<Never>, key: &str, len: usize) -> Result<Value, CacheError<Never>> {
    let stamps = [Stamp::new("pages")];
    let got = named.get(key, &stamps, move || async move { Ok(Loaded::Store(body(len))) }).await?;
    Ok(got.value.unwrap_or_else(|| unreachable!("the loader brings a value")))
}

fn hot_keys() -> Vec<String> {
    (0..HOT).map(|n| format!("tracks/{n}:medium")).collect()
}

async fn warm() -> Result<(NamedCache<Never>, Vec<String>), Failure> {
    let named = Cache::new(&CacheConfig::default())?.named("bench", still())?;
    let keys = hot_keys();
    for key in &keys {
        get(&named, key, 1024).await?;
    }
    Ok((named, keys))
}

async fn hit_times() -> Result<Vec<(&'static str, f64)>, Failure> {
    let (named, keys) = warm().await?;
    let mut times = vec![("Instant::now, for scale", best_of(|_| _ = black_box(Instant::now())))];
    times.push((
        "peek_fresh",
        best_of(|n| {
            black_box(named.peek_fresh(black_box(&keys[n % HOT])));
        }),
    ));
    times.push(("get (async, with a loader)", best_of_get(&named, &keys).await?));
    Ok(times)
}

/// Large, because the kernel brings a thread's processor time up to date only every few
/// milliseconds.
const BATCH: usize = REQUESTS;
const BATCHES: usize = 7;

/// Processor time of a call in nanoseconds, in the fastest of several batches: the cost on an idle
/// machine.
fn best_of(mut call: impl FnMut(usize)) -> f64 {
    let batch = |_| {
        let before = processor_nanos();
        (0..BATCH).for_each(&mut call);
        since(before) / BATCH as f64
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

async fn best_of_get(named: &NamedCache<Never>, keys: &[String]) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        let before = processor_nanos();
        for n in 0..BATCH {
            black_box(get(named, black_box(&keys[n % HOT]), 1024).await?);
        }
        best = best.min(since(before) / BATCH as f64);
    }
    Ok(best)
}

/// Hits per second of several threads on one cache, and the processor time of one hit in
/// nanoseconds, which shows the cost of sharing also on a busy machine.
fn hits_of(threads: usize) -> Result<(f64, f64), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (named, keys) = runtime.block_on(warm())?;
    let start = Barrier::new(threads + 1);
    let (named, keys, start) = (&named, &keys, &start);
    let run = |thread: usize| {
        start.wait();
        let before = processor_nanos();
        for n in 0..REQUESTS {
            black_box(named.peek_fresh(&keys[(n * 7 + thread * 131) % HOT]));
        }
        since(before)
    };
    let run = &run;
    let (begun, nanos) = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|n| scope.spawn(move || run(n))).collect();
        start.wait();
        let begun = Instant::now();
        let nanos: f64 = workers.into_iter().map(|w| w.join().unwrap_or(f64::NAN)).sum();
        (begun, nanos)
    });
    let hits = (threads * REQUESTS) as f64;
    Ok((hits / begun.elapsed().as_secs_f64(), nanos / hits))
}

/// Processor time of this thread since an earlier reading; not a number where there is none.
fn since(before: Option<f64>) -> f64 {
    processor_nanos().unwrap_or(f64::NAN) - before.unwrap_or(f64::NAN)
}

/// Linux: the first field of a thread's `schedstat` is its time on a processor.
fn processor_nanos() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok()
}

/// Fills a cache twice over; returns its weight and the growth of the process, in bytes.
async fn memory() -> Result<(u64, u64), Failure> {
    let before = resident_bytes()?;
    let cache = Cache::new(&CacheConfig::with_capacity(32 << 20))?;
    let named = cache.named("memory", still())?;
    for n in 0..60_000 {
        get(&named, &format!("tracks/{n}:medium"), 1024).await?;
    }
    Ok((cache.used_bytes(), resident_bytes()?.saturating_sub(before)))
}

/// Linux: the second field of `/proc/self/statm` counts resident pages, of 4 KiB here.
fn resident_bytes() -> Result<u64, Failure> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).ok_or("statm has no second field")?;
    Ok(pages.parse::<u64>()? * 4096)
}

/// Zipf's law with exponent `s`, by inverting the cumulative sum.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(keys: u32, s: f64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=keys)
            .map(|rank| {
                sum += f64::from(rank).powf(-s);
                sum
            })
            .collect();
        Self { cumulative }
    }

    fn draw(&self, rng: &mut fastrand::Rng) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(1.0);
        let at = rng.f64() * total;
        self.cumulative.partition_point(|sum| *sum < at) as u32
    }
}

/// Traces: pure Zipf at two skews, and one in which a crawler requests pages that nobody else
/// does, one request in four.
fn traces() -> Vec<(&'static str, Vec<u32>)> {
    let zipf = |s| {
        let (zipf, mut rng) = (Zipf::new(KEYS, s), fastrand::Rng::with_seed(1));
        (0..REQUESTS).map(|_| zipf.draw(&mut rng)).collect::<Vec<u32>>()
    };
    let mut crawled = zipf(1.0);
    for (n, request) in crawled.iter_mut().enumerate().filter(|(n, _)| n % 4 == 0) {
        *request = KEYS + n as u32;
    }
    vec![("zipf 0.8", zipf(0.8)), ("zipf 1.0", zipf(1.0)), ("zipf 1.0 + 25 % crawler", crawled)]
}

async fn hit_ratio(room: usize, requests: &[u32]) -> Result<f64, Failure> {
    let key = |request: u32| format!("{request:08}");
    let weight = entry_weight(&key(0), Some(&body(64)));
    let cache = Cache::new(&CacheConfig::with_capacity(weight * room as u64))?;
    let named: Result<NamedCache<Never>, ConfigError> = cache.named("ratio", still());
    let named = named?;
    for request in requests {
        get(&named, &key(*request), 64).await?;
    }
    let metrics = named.metrics();
    Ok(metrics.hits as f64 / (metrics.hits + metrics.misses) as f64)
}

/// A cache of equal entries that evicts the oldest: by arrival (FIFO), or by last use (LRU).
struct Queue {
    room: usize,
    lru: bool,
    places: HashMap<u32, usize>,
    order: BTreeMap<usize, u32>,
}

impl Queue {
    fn new(room: usize, lru: bool) -> Self {
        Self { room, lru, places: HashMap::new(), order: BTreeMap::new() }
    }

    fn ratio(mut self, requests: &[u32]) -> f64 {
        let hits = requests.iter().enumerate().filter(|(now, key)| self.request(*now, **key));
        hits.count() as f64 / requests.len() as f64
    }

    fn request(&mut self, now: usize, key: u32) -> bool {
        let place = self.places.get(&key).copied();
        match place {
            Some(_) if !self.lru => return true,
            Some(place) => _ = self.order.remove(&place),
            None if self.order.len() == self.room => {
                if let Some((_, victim)) = self.order.pop_first() {
                    self.places.remove(&victim);
                }
            }
            None => {}
        }
        self.places.insert(key, now);
        self.order.insert(now, key);
        place.is_some()
    }
}
