//! State shared by the virtual users of one event loop. One loop per core; loops share nothing but [`Run`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::http::{ClientConfig, Network, RequestError, Url};
use crate::log::Level;
use crate::metrics::{Builtin, Recorder, SampleTags};
use crate::run::Run;
use crate::script::user::Assignment;

/// Parsed addresses kept; one more empties the cache.
const MAX_URLS: usize = 1024;

pub(crate) struct EventLoop {
    pub(crate) run: Arc<Run>,
    pub(crate) recorder: RefCell<Recorder>,
    pub(crate) network: Rc<Network>,
    urls: RefCell<HashMap<Box<str>, Rc<Url>>>,
}

impl EventLoop {
    pub(crate) fn new(run: Arc<Run>, client_config: ClientConfig) -> Self {
        let recorder = run.recorder();
        let log = run.clone();
        let write = move |message: &str, id: &str| {
            log.log.write(Level::Info, message, &[("request_id", id)]);
        };
        Self {
            run,
            recorder: RefCell::new(recorder),
            network: Rc::new(Network::new(client_config, write)),
            urls: RefCell::default(),
        }
    }

    /// Parses an address, or returns the cached one.
    pub(crate) fn url(&self, text: &str) -> Result<Rc<Url>, RequestError> {
        let mut urls = self.urls.borrow_mut();
        if let Some(url) = urls.get(text) {
            return Ok(url.clone());
        }
        let url = Rc::new(Url::parse(text)?);
        if urls.len() >= MAX_URLS {
            urls.clear();
        }
        urls.insert(text.into(), url.clone());
        Ok(url)
    }

    /// Counts iterations that could not be started.
    pub(crate) fn dropped(&self, assignment: &Assignment, count: u64) {
        let mut recorder = self.recorder.borrow_mut();
        // Without an iteration there is no group.
        let enabled = self.run.settings().system_tags.without("group");
        let tags = SampleTags { enabled, ..assignment.sample_tags() };
        recorder.add(Builtin::DroppedIterations.id(), count as f64, &tags);
        if let Some(stats) = recorder.scenario(assignment.index) {
            stats.dropped += count;
        }
    }
}
