//! Counting on a real store, with chosen days.
#![allow(clippy::disallowed_types, reason = "reads the rows with a query of its own")]

use super::*;
use crate::config::Sources;
use crate::store::{Store, columns, params};

const KEY: &[u8; 16] = b"0123456789abcdef";
const TODAY: u32 = 100_000;

/// An address and a visitor.
type Who<'a> = (&'a str, Visitor<'a>);

fn browser<'a>(address: &'a str, agent: &'a str) -> Who<'a> {
    (address, Visitor::Browser(agent.as_bytes()))
}

fn user(id: UserId) -> Who<'static> {
    ("10.9.0.1", Visitor::User(id))
}

fn view(day: u32, market: MarketId, (address, visitor): Who<'_>) -> View {
    View::new(KEY, day, market, address.parse().unwrap(), visitor)
}

/// A store with markets 1 and 2.
struct Bench {
    store: MarketStore,
    sql: Store,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let (sql, dir) = Store::fresh(&Sources::of_test());
        let store = MarketStore::new(sql.clone());
        let bench = Bench { store, sql, _dir: dir };
        let market = |n: i64| crate::markets::Prepared {
            key: n.to_string(),
            place: crate::markets::AddressRegions::default(),
            market: crate::markets::NewMarket {
                name: format!("{n}시장"),
                lot_address: Some("어딘가".to_owned()),
                ..Default::default()
            },
        };
        block_on(bench.store.import(vec![market(1), market(2)])).unwrap();
        bench
    }

    fn start(&self) -> (Arc<Views>, Counting) {
        Views::start(self.store.clone(), || Ok(())).unwrap()
    }

    fn prepare(&self, of_network: u16) -> (Arc<Views>, Receiver<Message>, Worker) {
        Views::prepare(self.store.clone(), of_network, || Ok(())).unwrap()
    }

    /// Total views, folded views, and rows of a market.
    fn counts(&self, id: MarketId) -> (u64, u64, u64) {
        let sql = "SELECT views, settled, (SELECT count(*) FROM market_views WHERE market_id = ?1)
             FROM market_view_counts WHERE market_id = ?1";
        self.sql.read_blocking(move |conn| conn.only(sql, params![id], columns)).unwrap()
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn a_visitor_counts_once_a_day_and_again_on_the_next() {
    let bench = Bench::new();
    let (views, counting) = bench.start();
    for day in [TODAY, TODAY + 1, TODAY] {
        for _ in 0..3 {
            views.seen(view(day, 1, browser("10.0.0.1", "a")));
        }
    }
    views.seen(view(TODAY, 2, browser("10.0.0.1", "a")));
    views.seen(view(TODAY, 1, user(5)));
    drop(counting);
    assert_eq!((views.count(1), views.count(2)), (3, 1));
    assert_eq!(bench.counts(1), (3, 0, 3));
    let metrics = views.metrics();
    assert_eq!((metrics.counted, metrics.repeated, metrics.dropped, metrics.pending), (4, 7, 0, 0));
}

#[test]
fn days_that_are_over_are_folded_and_yesterday_stays() {
    let bench = Bench::new();
    let (views, counting) = bench.start();
    for (day, visitor) in [(TODAY, 1), (TODAY + 1, 1), (TODAY + 1, 2), (TODAY + 2, 1)] {
        views.seen(view(day, 1, user(visitor)));
    }
    drop(counting);
    // All views were one batch, whose newest day began before anything was written.
    let (views, counting) = bench.start();
    views.seen(view(TODAY + 3, 1, user(1)));
    drop(counting);
    assert_eq!(bench.counts(1), (5, 3, 2), "all but the last two days");
    assert_eq!(views.count(1), 5);
}

#[test]
fn views_beyond_the_queue_are_dropped_and_counted_as_such() {
    let bench = Bench::new();
    let (views, queue, worker) = bench.prepare(OF_NETWORK);
    // The worker does not run yet.
    for n in 0..3 * QUEUE {
        let address = format!("10.{}.{}.1", n / 250, n % 250);
        views.seen(view(TODAY, 1, browser(&address, "a")));
    }
    assert_eq!((queue.len(), views.metrics().dropped), (QUEUE, 2 * QUEUE as u64));
    std::thread::scope(|scope| {
        scope.spawn(|| worker.work(&queue));
        // Waits for room.
        views.queue.send(Message::Stop).unwrap();
    });
    let full = QUEUE as u64;
    let metrics = views.metrics();
    assert_eq!((metrics.counted, metrics.dropped, metrics.pending), (full, 2 * full, 0));
    assert_eq!(bench.counts(1), (full, 0, full));
}

#[test]
fn one_network_takes_a_quarter_of_the_queue_and_another_is_counted() {
    let bench = Bench::new();
    let (views, queue, worker) = bench.prepare(OF_NETWORK);
    // The worker does not run yet.
    for n in 0..3 * QUEUE {
        views.seen(view(TODAY, 1, browser("10.0.0.1", &format!("agent {n}"))));
    }
    let share = QUEUE / 4;
    assert_eq!((queue.len(), views.metrics().dropped), (share, (3 * QUEUE - share) as u64));
    views.seen(view(TODAY, 2, browser("10.0.0.2", "a")));
    views.queue.send(Message::Stop).unwrap();
    worker.work(&queue);
    assert_eq!((views.count(1), views.count(2)), (BROWSERS, 1));
    // Views taken off the queue have made room.
    views.seen(view(TODAY, 1, browser("10.0.0.1", "again")));
    assert_eq!(queue.len(), 1);
}

#[test]
fn what_is_stored_of_a_visitor_says_nothing_and_changes_every_day() {
    let hash = |day, who| view(day, 1, who).visitor;
    let one = browser("10.0.0.1", "a");
    assert_eq!(hash(1, one), hash(1, one));
    assert_ne!(hash(1, one), hash(2, one));
    let address = one.0.parse().unwrap();
    assert_ne!(hash(1, one), View::new(b"another key, 16.", 1, 1, address, one.1).visitor);
    assert_ne!(hash(1, one), hash(1, browser("10.0.0.2", "a")));
    assert_ne!(hash(1, user(1)), hash(1, user(2)));
    assert_eq!(hash(1, user(1)), hash(1, ("10.0.0.2", user(1).1)), "wherever a user is");
    let v6 = |address| hash(1, browser(address, "a"));
    assert_eq!(v6("2001:db8::1"), v6("2001:db8:0:ff::2"), "one customer, one visitor");
    assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:100::1"), "another customer");
    let agents: Vec<String> = (0..1000).map(|n| format!("agent {n}")).collect();
    let hashes: HashSet<_> = agents.iter().map(|a| hash(1, browser("10.0.0.1", a))).collect();
    assert_eq!(hashes.len() as u64, BROWSERS);
}

#[test]
fn a_network_uses_up_its_own_share_of_a_day_and_nobody_elses() {
    let bench = Bench::new();
    let (views, _queue, mut worker) = bench.prepare(20);
    worker.turn_to(TODAY);
    let counted = |worker: &mut Worker, views_of: Vec<View>| {
        let before = views.metrics().counted;
        worker.remembered.clear();
        worker.count(views_of);
        views.metrics().counted - before
    };
    // All addresses and browsers of one customer view all markets.
    let mut customer = 0;
    for n in 0..200 {
        let (address, agent) = (format!("2001:db8:0:{n:x}::{n:x}"), format!("agent {n}"));
        let looks = [1, 2].map(|market| view(TODAY, market, browser(&address, &agent)));
        customer += counted(&mut worker, looks.to_vec());
    }
    assert_eq!(customer, 20);
    // A view that only the store remembers is not counted again.
    for n in 0..50 {
        let again = counted(&mut worker, vec![view(TODAY, 1, browser("10.0.0.1", "a"))]);
        assert_eq!(again, u64::from(n == 0));
    }
    // Accounts are as cheap as browsers: those of one address share the rest of its bound.
    let users: Vec<_> =
        (0..730).map(|id| view(TODAY, 2, ("10.0.0.1", Visitor::User(id)))).collect();
    assert_eq!(counted(&mut worker, users), 19);
    let user = |day, address| vec![view(day, 1, (address, Visitor::User(1000)))];
    assert_eq!(counted(&mut worker, user(TODAY, "10.0.0.1")), 0, "its share is used up");
    assert_eq!(counted(&mut worker, user(TODAY, "10.0.0.2")), 1, "another address has its own");
    assert_eq!(counted(&mut worker, user(TODAY + 1, "10.0.0.1")), 1, "a new day");
    let metrics = views.metrics();
    assert_eq!(metrics.counted + metrics.repeated + metrics.dropped, 400 + 50 + 730 + 3);
}

#[test]
fn the_rows_of_a_day_are_bounded_by_the_places_of_networks() {
    let networks = Networks::new(3);
    let view = |n: u64| View { day: TODAY, market: 1, visitor: [0; 16], network: n };
    let most = 3 * networks::COUNTERS as u64;
    let taken = (0..2 * most).filter(|n| networks.take(&view(*n))).count();
    assert_eq!(taken as u64, most);
}

#[test]
fn a_day_begins_at_midnight_in_korea() {
    let at = |seconds| korean_day(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(at(0), 0);
    // 1970-01-01T15:00:00Z is midnight there.
    assert_eq!((at(15 * 3600 - 1), at(15 * 3600)), (0, 1));
    assert_eq!(at(1_700_000_000), 19_676);
}
