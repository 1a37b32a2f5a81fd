//! Figures of databases and nginx over a round, by the names of their own counters.

use std::fmt;

/// Protocol of a database, or nginx.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    Mysql,
    Redis,
    Nginx,
}

impl Engine {
    pub const ALL: [Self; 3] = [Self::Mysql, Self::Redis, Self::Nginx];

    /// Key of its address in an experiment.
    pub fn key(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Nginx => "nginx",
        }
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Mysql | Self::Redis => "database",
            Self::Nginx => "nginx",
        }
    }
}

/// Derivation of a round's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Taken {
    /// Change over the load, warm-up included.
    Change,
    /// As `Change`, without the lab's own queries.
    ChangeWithoutLab,
    /// Largest of the samples, ten a second.
    Largest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Figure {
    pub(crate) engine: Engine,
    pub(crate) name: &'static str,
    pub(crate) taken: Taken,
    /// `ms`, `bytes`, or empty for counts.
    pub(crate) unit: &'static str,
}

const fn mysql(name: &'static str, taken: Taken, unit: &'static str) -> Figure {
    Figure { engine: Engine::Mysql, name, taken, unit }
}

const fn redis(name: &'static str, taken: Taken, unit: &'static str) -> Figure {
    Figure { engine: Engine::Redis, name, taken, unit }
}

const fn nginx(name: &'static str, taken: Taken) -> Figure {
    Figure { engine: Engine::Nginx, name, taken, unit: "" }
}

impl Figure {
    /// In the order of reports. Definitions: MySQL 8.4 Reference Manual, "Server Status Variables" (the same in
    /// MariaDB, with `Innodb_deadlocks`); Redis documentation, "INFO"; nginx documentation,
    /// "ngx_http_stub_status_module".
    pub const ALL: [Self; 21] = [
        mysql("Questions", Taken::ChangeWithoutLab, ""),
        mysql("Com_select", Taken::Change, ""),
        mysql("Com_insert", Taken::Change, ""),
        mysql("Com_update", Taken::Change, ""),
        mysql("Com_delete", Taken::Change, ""),
        mysql("Com_commit", Taken::Change, ""),
        mysql("Com_rollback", Taken::Change, ""),
        mysql("Innodb_row_lock_waits", Taken::Change, ""),
        mysql("Innodb_row_lock_time", Taken::Change, "ms"),
        mysql("Innodb_deadlocks", Taken::Change, ""),
        mysql("Threads_running", Taken::Largest, ""),
        redis("total_commands_processed", Taken::ChangeWithoutLab, ""),
        redis("keyspace_hits", Taken::Change, ""),
        redis("keyspace_misses", Taken::Change, ""),
        redis("evicted_keys", Taken::Change, ""),
        redis("used_memory", Taken::Largest, "bytes"),
        nginx("accepted", Taken::Change),
        nginx("handled", Taken::Change),
        nginx("dropped", Taken::Change),
        nginx("requests", Taken::Change),
        nginx("active", Taken::Largest),
    ];

    pub fn all(engine: Engine) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |figure| figure.engine == engine)
    }

    /// Finds a figure by its name in files.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.to_string() == text)
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.taken != Taken::Largest
    }
}

/// Name in files: `mysql.Questions`, `redis.used_memory.max`.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = if self.is_counter() { "" } else { ".max" };
        write!(f, "{}.{}{largest}", self.engine.key(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_by_its_name_and_each_engine_has_one_level() {
        for figure in Figure::ALL {
            assert_eq!(Figure::parse(&figure.to_string()), Some(figure));
        }
        for engine in Engine::ALL {
            assert_eq!(Figure::all(engine).filter(|figure| !figure.is_counter()).count(), 1);
        }
        assert_eq!(Figure::parse("mysql.Threads_running"), None);
    }
}
