//! What each part of a stack uses.

use std::collections::BTreeMap;

use madang_stack::{Glance, Scope};

/// CPU time of processes since a moment.
pub struct Processes(Vec<(String, u32, Option<f64>)>);

impl Processes {
    pub fn begin(all: &[(String, u32)]) -> Self {
        Self(all.iter().map(|(part, pid)| (part.clone(), *pid, seconds(*pid))).collect())
    }

    /// Until now, in seconds, by part. A part of which a process has ended is left out: nobody knows what it used.
    pub fn end(self) -> BTreeMap<String, f64> {
        let mut used: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for (part, pid, before) in self.0 {
            let since = seconds(pid).zip(before).map(|(now, before)| now - before);
            let sum = used.entry(part).or_insert(Some(0.0));
            *sum = sum.zip(since).map(|(sum, since)| sum + since);
        }
        used.into_iter().filter_map(|(part, used)| Some((part, used?))).collect()
    }
}

fn seconds(pid: u32) -> Option<f64> {
    Glance::take(pid, Scope::Tree).ok().map(|glance| glance.cpu.as_secs_f64())
}
