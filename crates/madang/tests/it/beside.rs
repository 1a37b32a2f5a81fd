//! A database and a Valkey or Redis server beside it, both shared by the nodes of a test.

use crate::harness::database::supervisor;
use crate::nodes::Cluster;
use madang_stack::redis::Redis;
use mysql::prelude::Queryable as _;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

pub struct Beside {
    pub cluster: Cluster,
    pub redis: Redis,
    pub dir: tempfile::TempDir,
}

impl Beside {
    /// The server keeps nothing on disk.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = Redis::start(&supervisor(), dir.path()).unwrap();
        Self { cluster: Cluster::new(), redis, dir }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.redis.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    pub fn number(&self, sql: &str) -> i64 {
        let mut session = mysql::Conn::new(self.cluster.database.url().as_str()).unwrap();
        session.query_first(sql).unwrap().unwrap()
    }

    pub fn cli(&self, args: &[&str]) -> String {
        cli(&self.redis, args)
    }
}

pub fn cli(server: &Redis, args: &[&str]) -> String {
    let port = server.port().to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
