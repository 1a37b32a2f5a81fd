//! Looks at databases while a server is loaded.

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

/// Signing in takes several answers. Every one is bounded, their sum is by this.
const BEGIN_TIME: Duration = CONNECT_TIME.saturating_add(ANSWER_TIME).saturating_add(ANSWER_TIME);
/// The look that is under way, and the last one.
const END_TIME: Duration = ANSWER_TIME.saturating_mul(3);

/// One connection to a database that tells its counters.
pub(crate) trait Client {
    /// Counters, in the order of the names; one that it does not have is no number.
    fn counters(&mut self, names: &[&str]) -> Result<Vec<f64>, DatabaseError>;

    /// The one that is no counter.
    fn level(&mut self) -> Result<f64, DatabaseError>;

    fn asked(&self) -> u64;
}

/// The databases of one round, being observed.
pub(crate) struct Watching(Vec<One>);

struct One {
    engine: Engine,
    address: Address,
    /// Dropping it ends the thread, too.
    stop: Sender<()>,
    end: Receiver<Result<Figures, DatabaseError>>,
}

type Figures = Vec<(Figure, f64)>;

/// A database or nginx that is observed, and why it gave no figures.
#[derive(Debug, thiserror::Error)]
#[error("the {} {address}, which is observed, cannot be asked: {why}", .engine.noun())]
pub(crate) struct Unobserved {
    engine: Engine,
    address: Address,
    why: DatabaseError,
}

impl Watching {
    /// Begins to observe, and returns when all counters have been read.
    pub(crate) fn begin(addresses: &Addresses, cancel: &Cancel) -> Result<Self, Unobserved> {
        let mut all = Vec::new();
        for engine in Engine::ALL {
            let Some(address) = addresses.get(engine) else { continue };
            let one = One::begin(engine, address, cancel);
            all.push(one.map_err(|why| Unobserved { engine, address: address.clone(), why })?);
        }
        Ok(Self(all))
    }

    /// Why a database cannot be observed any more, if one cannot.
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
        for One { engine, address, stop, end } in self.0 {
            drop(stop);
            let figures = patiently(END_TIME, cancel, &end);
            let figures = figures.map_err(|why| Unobserved { engine, address, why })?;
            all.extend(figures.into_iter().map(|(figure, value)| (figure.to_string(), value)));
        }
        Ok(all)
    }
}

impl One {
    fn begin(engine: Engine, address: &Address, cancel: &Cancel) -> Result<Self, DatabaseError> {
        let (stop, stopped) = mpsc::channel();
        let (has_begun, begun) = mpsc::channel();
        let (result, end) = mpsc::channel();
        let target = address.clone();
        let run = move || {
            let observed = match engine {
                Engine::Mysql => mysql::Status::connect(&target)
                    .and_then(|client| observe(engine, client, &has_begun, &stopped)),
                Engine::Redis => redis::Info::connect(&target)
                    .and_then(|client| observe(engine, client, &has_begun, &stopped)),
                Engine::Nginx => nginx::Status::connect(&target)
                    .and_then(|client| observe(engine, client, &has_begun, &stopped)),
            };
            if let Err(why) = &observed {
                // Whoever waits for the beginning wants to know; nobody else listens.
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

/// Asks on one connection from beginning to end: a database that was started again meanwhile, and
/// counts from zero, cannot go unnoticed.
fn observe(
    engine: Engine,
    mut client: impl Client,
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
    // A question is counted either before or after its own answer is made. Both times alike, so
    // that of the first and the last one exactly one lies in between.
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
    // What this server does not count.
    Ok(figures.filter(|(_, value)| !value.is_nan()).collect())
}
