//! nginx, by the `stub_status` page.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use madang_stack::http::{self, Url};

use super::watching::Client;
use super::{ANSWER_TIME, Address, DatabaseError};
use crate::observe;

/// Limit of a response under load; late ones are skipped.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Reads the page on new connections: nginx closes idle ones when it runs out. Figures exclude the lab's requests.
pub(crate) struct Status {
    page: Url,
    answered: f64,
    /// Connections of the lab that nginx dropped before accepting them.
    dropped: f64,
    /// Last value.
    accepted: f64,
}

struct Page {
    active: f64,
    accepted: f64,
    handled: f64,
    requests: f64,
}

pub(crate) fn parse(text: &str) -> Result<Url, DatabaseError> {
    Url::parse(text).map_err(|why| DatabaseError::Failed(why.to_string()))
}

impl Status {
    pub(crate) fn connect(address: &Address) -> Result<Self, DatabaseError> {
        let page = parse(address.secret())?;
        Ok(Self { page, answered: 0.0, dropped: 0.0, accepted: 0.0 })
    }

    /// `None` if nginx had no free connection, or was late.
    fn look(&mut self, time: Duration) -> Result<Option<Page>, DatabaseError> {
        let answer = match http::get(&self.page, time) {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(DatabaseError::of_connection(&error));
            }
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) {
                    self.dropped += 1.0;
                }
                return Ok(None);
            }
        };
        self.answered += 1.0;
        let page = page(&String::from_utf8_lossy(&answer.body));
        let why = || DatabaseError::failed("this is no page of nginx's `stub_status`");
        let page = page.filter(|_| answer.status == 200).ok_or_else(why)?;
        if page.accepted < self.accepted {
            return Err(DatabaseError::failed("it was started again"));
        }
        self.accepted = page.accepted;
        Ok(Some(page))
    }
}

impl Client for Status {
    /// Waits for a free connection: called before and after the load.
    fn counters(&mut self, names: &[&str]) -> Result<Vec<f64>, DatabaseError> {
        let deadline = Instant::now() + ANSWER_TIME;
        let page = loop {
            match self.look(LOOK_TIME)? {
                Some(page) => break page,
                None if Instant::now() > deadline => return Err(DatabaseError::Late(ANSWER_TIME)),
                None => thread::sleep(observe::INTERVAL),
            }
        };
        let value = |name: &&str| match *name {
            "accepted" => page.accepted - self.answered - self.dropped,
            "handled" => page.handled - self.answered,
            "requests" => page.requests - self.answered,
            _ => page.accepted - page.handled - self.dropped,
        };
        Ok(names.iter().map(value).collect())
    }

    /// Zero after a dropped connection: further ones would take connections from clients.
    fn level(&mut self) -> Result<f64, DatabaseError> {
        if self.dropped > 0.0 {
            return Ok(0.0);
        }
        Ok(self.look(LOOK_TIME)?.map_or(0.0, |page| page.active - 1.0))
    }

    /// Already subtracted.
    fn asked(&self) -> u64 {
        0
    }
}

/// Parses `Active connections: 1`, a line of words, and a line of three sums.
fn page(text: &str) -> Option<Page> {
    let mut lines = text.lines();
    let active = lines.next()?.strip_prefix("Active connections:")?.trim().parse().ok()?;
    let sums = lines.nth(1)?.split_whitespace().map(|sum| sum.parse().ok());
    let sums: Vec<f64> = sums.collect::<Option<_>>()?;
    let &[accepted, handled, requests] = sums.as_slice() else { return None };
    Some(Page { active, accepted, handled, requests })
}
