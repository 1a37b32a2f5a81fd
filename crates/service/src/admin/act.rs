//! Execution of the commands: like the routes for owners, with the operator's rights, behind the same gate.

use super::audit::{Audit, Peer};
use super::maintenance::message;
use super::{Command, CommandError, LONGEST_MESSAGE, Reply, SetLog};
use crate::accounts::{Named, User, nickname_start};
use crate::app::App;
use crate::config::{Settings, log_filter};
use crate::http::{Remover, rfc3339};
use parking_lot::Mutex;
use std::fmt::{Display, Write as _};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const LONGEST_FILTER: usize = 1000;
/// Most users in a reply, each of at most 250 bytes of [`LONGEST_REPLY`](super::LONGEST_REPLY).
const MOST_LISTED: u32 = 200;

pub(super) struct Admin {
    app: Arc<App>,
    audit: Arc<Audit>,
    version: &'static str,
    set_log: SetLog,
    /// The current filter of the log.
    log: Mutex<String>,
    data_dir: PathBuf,
    started: Instant,
}

impl Admin {
    pub(super) fn new(
        app: Arc<App>,
        settings: &Settings,
        version: &'static str,
        set_log: SetLog,
    ) -> Self {
        Self {
            app,
            audit: Arc::new(Audit::new(&settings.data_dir)),
            version,
            set_log,
            log: Mutex::new(settings.log.level.clone()),
            data_dir: settings.data_dir.clone(),
            started: Instant::now(),
        }
    }

    /// Carries out a command. It is logged before, and its outcome before the reply.
    pub(super) async fn carry_out(&self, command: Command, peer: Peer) -> Reply {
        if !command.is_audited() {
            return self.act(command).await;
        }
        let (audit, begun) = (Arc::clone(&self.audit), command.clone());
        let begun = blocking(move || audit.begin(peer, &begun)).await;
        let id = begun.map_err(|error| {
            format!("nothing was done, because the audit log cannot be written: {error}")
        })?;
        tracing::info!(uid = peer.uid, "admin: {}", command.to_string().escape_debug());
        let reply = self.act(command).await;
        // A reply may hold a password.
        let outcome = match &reply {
            Ok(_) => "done".to_owned(),
            Err(CommandError(why)) => format!("failed: {why}"),
        };
        let audit = Arc::clone(&self.audit);
        let ended = blocking(move || audit.end(&id, &outcome)).await;
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot write the outcome of a command to the audit log");
        }
        reply
    }

    async fn act(&self, command: Command) -> Reply {
        let app = &self.app;
        match command {
            Command::Status => Ok(self.status()),
            Command::UserList { begins, last } => self.list(begins, last).await,
            Command::UserShow { user } => self.show(user).await,
            Command::UserLogout { user } => {
                let user = self.user(user).await?;
                let (accounts, id) = (app.accounts.clone(), user.id);
                self.write(async move { accounts.log_out_user(id).await }).await?;
                Ok(format!("{} is logged out everywhere", called(&user)))
            }
            Command::UserPassword { user } => {
                let user = self.user(user).await?;
                // Hashing has its own threads and takes no place among the writes.
                let (password, hash) = app.accounts.random_password().await?;
                let (accounts, id) = (app.accounts.clone(), user.id);
                self.write(async move { accounts.set_password(id, hash).await }).await?;
                Ok(format!(
                    "{} is logged out everywhere and has the password {password}",
                    called(&user)
                ))
            }
            Command::UserDelete { user } => {
                let user = self.user(user).await?;
                let (accounts, id) = (app.accounts.clone(), user.id);
                self.write(async move { accounts.delete_user(id).await }).await?;
                Ok(format!(
                    "{} is deleted; runs, likes and schedules go within seconds",
                    called(&user)
                ))
            }
            Command::PostDelete { id } => {
                let posts = app.posts.store().clone();
                let removed = async move { posts.remove(id, Remover::Operator).await };
                let found = self.write(removed).await?.is_ok();
                deleted(found, "post", id, "is removed")
            }
            Command::ArticleDelete { id } => {
                let articles = app.articles.store().clone();
                let removed = async move { articles.delete(id, Remover::Operator).await };
                let found = self.write(removed).await?.is_ok();
                deleted(found, "article", id, "is deleted, with its comments and likes")
            }
            Command::CommentDelete { id } => {
                let comments = app.articles.comments().clone();
                let Some(article) = comments.article_of(id).await? else {
                    return deleted(false, "comment", id, "");
                };
                let removed = async move { comments.delete(article, id, Remover::Operator).await };
                let found = self.write(removed).await?.is_ok();
                deleted(found, "comment", id, &format!("on article {article} is deleted"))
            }
            Command::TrackDelete { id } => {
                let tracks = app.tracks.store().clone();
                let removed = async move { tracks.delete(id, Remover::Operator).await };
                let found = self.write(removed).await?.is_ok();
                deleted(found, "track", id, "is deleted, with its runs")
            }
            Command::CacheClear => {
                let store = app.store.clone();
                self.write(async move { store.end_everything().await }).await?;
                Ok(match app.store.is_shared() {
                    true => "the cache is cleared, on every node".to_owned(),
                    false => "the cache is cleared".to_owned(),
                })
            }
            Command::Checkpoint => self.checkpoint().await,
            Command::LogLevel { level } => self.log_level(&level),
            Command::MaintenanceOn { message } => self.maintenance_on(message).await,
            Command::MaintenanceOff => self.maintenance_off().await,
        }
    }

    /// Runs a write behind the gate, as a request does.
    async fn write<T: Send + 'static, E: Display + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, CommandError> {
        Ok(self.app.writes.run(work).await??)
    }

    async fn user(&self, typed: String) -> Result<User, CommandError> {
        let found = self.app.accounts.named(Named::parse(&typed)?).await?;
        Ok(found.ok_or_else(|| format!("there is no user {typed}"))?)
    }

    async fn list(&self, begins: String, last: u32) -> Reply {
        let wrong =
            || format!("{begins:?} begins no nickname: expected up to 64 characters in one line");
        let begins = nickname_start(&begins).ok_or_else(wrong)?;
        let most = last.clamp(1, MOST_LISTED);
        let found = self.app.accounts.store().newest(begins.clone(), most).await?;
        if found.is_empty() {
            return Err(match begins.is_empty() {
                true => "there are no users".into(),
                false => format!("no nickname begins with {begins}").into(),
            });
        }
        let mut lines = Lines::default();
        for user in found {
            lines.add(
                &format!("id:{}", user.id),
                format!("{}  {}", rfc3339::format_utc(user.created_at_ms), user.nickname),
            );
        }
        Ok(lines.text)
    }

    async fn show(&self, typed: String) -> Reply {
        let user = self.user(typed).await?;
        let found = self.app.accounts.overview(user).await?;
        let user = found.user;
        let (region, _) = self.app.accounts.regions().full_name(user.region);
        let mut lines = Lines::default();
        lines.add("user", called(&user));
        lines.add("region", region);
        lines.add("since", rfc3339::format_utc(user.created_at_ms));
        for (kind, count) in found.rows {
            lines.add(kind, count);
        }
        let ended = found.cutoff.map(|until| rfc3339::format_utc(until.saturating_mul(1000)));
        match ended {
            Some(until) => lines.add("tokens", format!("those issued until {until} are ended")),
            None => lines.add("tokens", "never ended all together"),
        }
        lines.add("logged out", format!("{} tokens one by one", found.revoked));
        Ok(lines.text)
    }

    fn status(&self) -> String {
        let app = &self.app;
        let mut lines = Lines::default();
        lines.add("version", self.version);
        let minutes = self.started.elapsed().as_secs() / 60;
        let pid = std::process::id();
        lines.add("process", format!("{pid}, for {} h {} min", minutes / 60, minutes % 60));
        let engine = if app.store.is_shared() { "MariaDB" } else { "a file" };
        lines.add("data", format!("{}, the store in {engine}", self.data_dir.display()));
        match app.store.write_failure() {
            None => lines.add("store", "takes writes"),
            Some(error) => lines.add("store", format!("cannot write: {error}")),
        }
        match app.maintenance.message() {
            None => lines.add("maintenance", "off"),
            Some(message) => lines.add("maintenance", format!("on: {message}")),
        }
        lines.add("log level", self.log.lock());
        let (used, capacity) = (app.cache.used_bytes() >> 10, app.cache.capacity_bytes() >> 10);
        lines.add("cache", format!("{used} KiB of {capacity}"));
        lines.text
    }

    async fn checkpoint(&self) -> Reply {
        let store = self.app.store.clone();
        match blocking(move || store.checkpoint().map_err(io::Error::other)).await? {
            Some(true) => Ok("the write-ahead log is in the database, and begins anew".to_owned()),
            Some(false) => Err("another program reads the database: the write-ahead log was copied as far as that \
                                allows; end the program and try again"
                .into()),
            None => Err("there is no write-ahead log here: MariaDB keeps its own".into()),
        }
    }

    fn log_level(&self, level: &str) -> Reply {
        let is_filter = level.len() <= LONGEST_FILTER && log_filter(level).is_some();
        if !is_filter {
            return Err(format!(
                "{level:?} is no filter: expected off, error, warn, info, debug, trace, or a filter \
                                such as info,madang_service=debug"
            )
            .into());
        }
        (self.set_log)(level)?;
        self.log.lock().replace_range(.., level);
        Ok(format!("the log level is {level} until the server stops"))
    }

    async fn maintenance_on(&self, typed: Option<String>) -> Reply {
        let wrong = || format!("the message must be a line of 1 to {LONGEST_MESSAGE} characters");
        let said = typed.map(|typed| message(&typed).ok_or_else(wrong)).transpose()?;
        let mode = self.app.maintenance.clone();
        blocking(move || mode.switch_on(said)).await?;
        Ok("maintenance mode is on: writes are refused, also after a restart".to_owned())
    }

    async fn maintenance_off(&self) -> Reply {
        let mode = self.app.maintenance.clone();
        Ok(match blocking(move || mode.switch_off()).await? {
            true => "maintenance mode is off".to_owned(),
            false => "maintenance mode was off".to_owned(),
        })
    }
}

fn deleted(found: bool, kind: &str, id: i64, done: &str) -> Reply {
    match found {
        true => Ok(format!("{kind} {id} {done}")),
        false => Err(format!("there is no {kind} {id}, or no longer").into()),
    }
}

fn called(user: &User) -> String {
    format!("{} (id:{})", user.nickname, user.id)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, name: &str, value: impl Display) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name:12} {value}");
    }
}
