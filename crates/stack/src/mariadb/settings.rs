//! Settings of a MariaDB server, as its options and as SQL for each start.

use std::{fmt, io};

use crate::{Error, Result};

/// Settings of a server. The default is a small standalone server without an account.
#[derive(Debug, Clone)]
pub struct MariaDbSettings {
    /// Size of the InnoDB buffer pool in MiB.
    pub buffer_pool_mib: u32,
    /// Maximum number of client connections.
    pub max_connections: u32,
    /// Database and account, created at the start if missing. Without an account `root` can connect
    /// over TCP without a password; with one, only through the socket in the data directory.
    pub account: Option<Account>,
    /// Role in replication.
    pub role: Role,
}

impl Default for MariaDbSettings {
    fn default() -> Self {
        Self { buffer_pool_mib: 16, max_connections: 151, account: None, role: Role::Alone }
    }
}

/// A name and a password of ASCII letters, digits and `_`, which need no quoting in SQL or in an address.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password, set again at each start of the server.
    pub password: String,
}

/// The password stays out of logs.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A database and the login that has all privileges on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name of the database: ASCII letters, digits and `_`.
    pub database: String,
    /// Login of its owner.
    pub login: Login,
}

/// Role of a server in replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// No binary log.
    Alone,
    /// Keeps a binary log for replicas, synced with each commit.
    Primary {
        /// `server_id`, unique among primary and replicas.
        server_id: u32,
        /// Login of the replicas, created at the start.
        replication: Login,
    },
    /// Read-only replica of a primary on this machine, with its databases and accounts.
    Replica {
        /// `server_id`, unique among primary and replicas.
        server_id: u32,
        /// Port of the primary on 127.0.0.1.
        primary_port: u16,
        /// Login given to the primary.
        replication: Login,
    },
    /// Member of a Galera cluster on this machine.
    Member(Member),
}

/// A server of a Galera cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Group communication ports of all members.
    pub group: Vec<u16>,
    /// Group communication port of this member.
    pub port: u16,
    /// Port that receives missed changes.
    pub changes_port: u16,
    /// Port that receives full copies.
    pub data_port: u16,
    /// Whether it bootstraps the cluster.
    pub begins: bool,
}

impl MariaDbSettings {
    /// Arguments of the server, except directories and port.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            format!("--innodb-buffer-pool-size={}M", self.buffer_pool_mib),
            format!("--max-connections={}", self.max_connections),
            // The default, but explicit: acknowledged writes depend on it.
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
            "--character-set-server=utf8mb4".to_owned(),
            "--collation-server=utf8mb4_bin".to_owned(),
        ];
        let more: &[&str] = match &self.role {
            Role::Alone => &[],
            Role::Primary { server_id, .. } => {
                all.push(format!("--server-id={server_id}"));
                &["--log-bin=binlog", "--sync-binlog=1", "--binlog-format=ROW"]
            }
            Role::Replica { server_id, .. } => {
                all.push(format!("--server-id={server_id}"));
                // The start's SQL begins to replicate once it has set the primary's port, which may have changed.
                &["--read-only=1", "--skip-slave-start", "--relay-log=relay"]
            }
            Role::Member(member) => {
                all.extend(member.arguments());
                return all;
            }
        };
        all.extend(more.iter().map(|argument| (*argument).to_owned()));
        if !more.is_empty() {
            all.push("--gtid-strict-mode=1".to_owned());
        }
        all
    }

    /// Statements for `--init-file`, one per line, which run before connections are accepted. A failing
    /// statement ends the server. All can run again at every start.
    ///
    /// # Errors
    /// [`Error::Io`] when a name or password would need quoting.
    pub(super) fn sql(&self) -> Result<String> {
        let mut lines = Vec::new();
        match &self.role {
            // Other statements would be missing on the primary.
            Role::Replica { primary_port, replication, .. } => {
                let Login { user, password } = replication;
                check([user, password])?;
                lines.push(format!(
                    "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary_port}, \
                     MASTER_USER='{user}', MASTER_PASSWORD='{password}', MASTER_CONNECT_RETRY=1, \
                     MASTER_USE_GTID=slave_pos"
                ));
                lines.push("START SLAVE".to_owned());
            }
            Role::Primary { replication, .. } => {
                lines.extend(login(replication)?);
                lines.push(format!("GRANT REPLICATION SLAVE ON *.* TO '{}'@'%'", replication.user));
            }
            Role::Alone | Role::Member(_) => {}
        }
        let is_replica = matches!(self.role, Role::Replica { .. });
        if let Some(account) = self.account.as_ref().filter(|_| !is_replica) {
            let Account { database, login: owner } = account;
            check([database])?;
            lines.push(format!("CREATE DATABASE IF NOT EXISTS {database}"));
            lines.extend(login(owner)?);
            lines.push(format!("GRANT ALL ON {database}.* TO '{}'@'%'", owner.user));
            // Shows the position of a replica, and whether the binary log is on.
            lines.push(format!(
                "GRANT BINLOG MONITOR, SLAVE MONITOR ON *.* TO '{}'@'%'",
                owner.user
            ));
            lines.push("DROP USER IF EXISTS root@'127.0.0.1', root@'::1'".to_owned());
        }
        Ok(lines.into_iter().map(|line| line + ";\n").collect())
    }
}

/// Library of Debian's package galera-4.
pub(super) const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";

impl Member {
    fn arguments(&self) -> Vec<String> {
        let group: Vec<_> = self.group.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let Self { port, changes_port, data_port, .. } = self;
        let mut all = vec![
            "--wsrep-on=ON".to_owned(),
            format!("--wsrep-provider={GALERA}"),
            "--wsrep-cluster-name=madang".to_owned(),
            format!("--wsrep-cluster-address=gcomm://{}", group.join(",")),
            format!("--wsrep-node-name=member-{port}"),
            "--wsrep-node-address=127.0.0.1".to_owned(),
            format!("--wsrep-sst-receive-address=127.0.0.1:{data_port}"),
            // The rsync server drops root's rights, and with them access to the directory.
            "--wsrep-sst-method=mariabackup".to_owned(),
            "--wsrep-sst-auth=root:".to_owned(),
            "--binlog-format=ROW".to_owned(),
            "--innodb-autoinc-lock-mode=2".to_owned(),
            // A server that is silent for two seconds is removed. The default of five is for networks; one may be too
            // short on a busy machine.
            format!(
                "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port};\
                 ist.recv_addr=127.0.0.1:{changes_port};evs.keepalive_period=PT0.3S;evs.inactive_check_period=PT0.2S;\
                 evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S"
            ),
        ];
        if self.begins {
            all.push("--wsrep-new-cluster".to_owned());
        }
        all
    }
}

/// Creates a login or changes its password.
fn login(Login { user, password }: &Login) -> Result<[String; 2]> {
    check([user, password])?;
    Ok([
        format!("CREATE USER IF NOT EXISTS '{user}'@'%' IDENTIFIED BY '{password}'"),
        format!("ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'"),
    ])
}

fn check<const N: usize>(words: [&String; N]) -> Result<()> {
    let fits = |word: &&String| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if words.iter().all(fits) {
        return Ok(());
    }
    let why = "only ASCII letters, digits and `_` are accepted";
    Err(Error::Io {
        what: "cannot use this name or password for MariaDB".to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(password: &str) -> MariaDbSettings {
        let login = Login { user: "app".to_owned(), password: password.to_owned() };
        let account = Some(Account { database: "app".to_owned(), login });
        MariaDbSettings { account, ..MariaDbSettings::default() }
    }

    #[test]
    fn what_would_need_quoting_is_refused() {
        assert!(account("s3cret").sql().is_ok());
        for odd in ["", "it's", "a;b", "a b", "비밀"] {
            assert!(account(odd).sql().is_err(), "{odd:?} was accepted");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        assert!(!format!("{:?}", account("s3cret")).contains("s3cret"));
    }
}
