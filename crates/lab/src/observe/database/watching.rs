//! Observes databases during the load, each on its own thread and connection, so that a slow one delays nothing else.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::figure::Taken;
use super::{
    ANSWER_TIME, Address, Addresses, CONNECT_TIME, DatabaseError, Engine, Figure, mysql, nginx,
    patiently, redis,
};
use crate::observe;
use crate::run::cancel::Cancel;

/// Authentication takes several responses.
const BEGIN_TIME: Duration = CONNECT_TIME.saturating_add(ANSWER_TIME).saturating_add(ANSWER_TIME);
/// The current sample, and the last one.
const END_TIME: Duration = ANSWER_TIME.saturating_mul(3);

/// Connection to an observed server.
pub(crate) trait Client {
    /// Counters by name; NaN for unknown ones.
    fn counters(&mut self, names: &[&str]) -> Result<Vec<f64>, DatabaseError>;

    /// The value that is no counter.
    fn level(&mut self) -> Result<f64, DatabaseError>;

    /// Queries so far.
    fn asked(&self) -> u64;
}

/// The observed databases of one round.
pub(crate) struct Watching(Vec<WatchedDatabase>);

struct WatchedDatabase {
    engine: Engine,
    address: Address,
    /// Dropping it stops the thread.
    stop: Sender<()>,
    end: Receiver<Result<Figures, DatabaseError>>,
}

type Figures = Vec<(Figure, f64)>;

#[derive(Debug, thiserror::Error)]
#[error("the {} {address}, which is observed, cannot be asked: {why}", .engine.noun())]
pub(crate) struct Unobserved {
    engine: Engine,
    address: Address,
    why: DatabaseError,
}

impl Watching {
    /// Returns when all counters have been read.
    pub(crate) fn begin(addresses: &Addresses, cancel: &Cancel) -> Result<Self, Unobserved> {
        let mut all = Vec::new();
        for engine in Engine::ALL {
            let Some(address) = addresses.get(engine) else { continue };
            let one = WatchedDatabase::begin(engine, address, cancel);
            all.push(one.map_err(|why| Unobserved { engine, address: address.clone(), why })?);
        }
        Ok(Self(all))
    }

    /// Error of a database, if one failed.
    pub(crate) fn failed(&self) -> Option<Unobserved> {
        self.0.iter().find_map(|one| match one.end.try_recv() {
            Ok(Err(why)) => {
                Some(Unobserved { engine: one.engine, address: one.address.clone(), why })
            }
            Ok(Ok(_)) | Err(_) => None,
        })
    }

    /// Reads all counters again.
    pub(crate) fn end(self, cancel: &Cancel) -> Result<BTreeMap<String, f64>, Unobserved> {
        let mut all = BTreeMap::new();
        for WatchedDatabase { engine, address, stop, end } in self.0 {
            drop(stop);
            let figures = patiently(END_TIME, cancel, &end);
            let figures = figures.map_err(|why| Unobserved { engine, address, why })?;
            all.extend(figures.into_iter().map(|(figure, value)| (figure.to_string(), value)));
        }
        Ok(all)
    }
}

impl WatchedDatabase {
    fn begin(engine: Engine, address: &Address, cancel: &Cancel) -> Result<Self, DatabaseError> {
        let (stop, stopped) = mpsc::channel();
        let (has_begun, begun) = mpsc::channel();
        let (result, end) = mpsc::channel();
        let target = address.clone();
        let run = move || {
            let client: Result<Box<dyn Client>, DatabaseError> = match engine {
                Engine::Mysql => {
                    mysql::Status::connect(&target).map(|client| Box::new(client) as _)
                }
                Engine::Redis => redis::Info::connect(&target).map(|client| Box::new(client) as _),
                Engine::Nginx => {
                    nginx::Status::connect(&target).map(|client| Box::new(client) as _)
                }
            };
            let observed = client.and_then(|client| observe(engine, client, &has_begun, &stopped));
            if let Err(why) = &observed {
                // For `begin`, if it still waits.
                let _ = has_begun.send(Err(why.clone()));
            }
            let _ = result.send(observed);
        };
        let thread = thread::Builder::new().name(format!("lab-{}", engine.key())).spawn(run);
        thread.map_err(|error| DatabaseError::NoThread(error.to_string()))?;
        patiently(BEGIN_TIME, cancel, &begun)?;
        Ok(Self { engine, address: address.clone(), stop, end })
    }
}

/// Uses one connection throughout, so that a restart, which resets the counters, is an error.
fn observe(
    engine: Engine,
    mut client: Box<dyn Client>,
    has_begun: &Sender<Result<(), DatabaseError>>,
    stopped: &Receiver<()>,
) -> Result<Figures, DatabaseError> {
    let names = Figure::all(engine).filter(Figure::is_counter).map(|figure| figure.name);
    let names: Vec<&str> = names.collect();
    let before = client.counters(&names)?;
    let asked_before = client.asked();
    let _ = has_begun.send(Ok(()));
    let mut largest = client.level()?;
    while stopped.recv_timeout(observe::INTERVAL) == Err(RecvTimeoutError::Timeout) {
        largest = largest.max(client.level()?);
    }
    let after = client.counters(&names)?;
    // A query counts either before or after its own response is made, always alike: of the first and the last one,
    // exactly one is in the difference.
    let own = (client.asked() - asked_before) as f64;
    let mut counters = before.into_iter().zip(after);
    let figures = Figure::all(engine).map(|figure| {
        let change = |(before, after): (f64, f64)| after - before;
        let value = match figure.taken {
            Taken::Largest => largest,
            Taken::Change => counters.next().map_or(0.0, change),
            Taken::ChangeWithoutLab => counters.next().map_or(0.0, change) - own,
        };
        (figure, value)
    });
    // Unknown counters.
    Ok(figures.filter(|(_, value)| !value.is_nan()).collect())
}
