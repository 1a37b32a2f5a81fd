//! `madang seed`: fills a store with users and what is theirs, for load tests.
//!
//! The same numbers give the same rows, in the same order and under the same ids on an empty store:
//! a user or a schedule is a function of the seed and its own place alone ([`random`]). Who wrote a post, an
//! article or a comment and who likes what depends on how many users there are as well; which articles
//! are commented on and liked, on how many articles there are. Only the salts of the password hashes
//! differ. What is there already is not added again, so a run that was cut short is completed by the next
//! one, and a larger run adds what a smaller one lacks: as many rows as are asked for, but where users or
//! articles became more not those of a single run.
//!
//! A limit on how many a user may have does not hold here: to see what a limit does to a user who is
//! far beyond it is one of the things a filled store is for. The counts that enforce it are kept.
//!
//! One file is one kind of row: its flags (flattened into [`Rows`]) and how it is filled. `fill` names
//! the kinds in the order in which they need each other.

mod articles;
mod batches;
mod demo;
mod posts;
mod random;
mod schedules;
mod users;
mod zipf;

pub use demo::fill_demo;

use crate::progress::bar;
use crate::settings::SettingsArgs;
use anyhow::{Context as _, anyhow, bail, ensure};
use indicatif::ProgressBar;
use madang_service::accounts::UserId;
use madang_service::app::App;
use madang_service::config::{Origin, Settings};
use madang_service::http::rfc3339;
use madang_service::store::DirLock;
use std::io::Write as _;
use std::time::Instant;

/// Password of seeded users, unless another is given.
pub const DEFAULT_PASSWORD: &str = "madang-seed";
/// 2027-01-01T00:00:00Z: rows are made then, and schedules lie in the year after it.
const DEFAULT_EPOCH: &str = "2027-01-01T00:00:00Z";
const MOST_USERS: i64 = 1_000_000;

/// Arguments of `madang seed`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Users are named user-0001, user-0002, … and share one password. The same arguments produce the
same rows. Existing rows are not added again, so an interrupted run can be repeated. Existing
rows are only counted: if a schedule was deleted, the next run adds the last ones of its user a
second time. With another number of users or articles, authors, comments and likes differ.
schedules.limit is ignored.

For load tests only: the default password is public, and with --shared-hash one guess tests every
account. Set --password if others can reach the service.

Examples:
  madang seed --users 200 --schedules-per-user 1000 --shared-hash
  madang seed --users 1000 --posts 1000000 --shared-hash
  madang seed --users 1000 --articles 10000 --comments 50000 --likes 200000 --shared-hash
  madang seed --users 50 --password 'correct horse' --data /var/lib/madang
  madang seed --users 64 --hash bcrypt:10")]
pub struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    rows: Rows,
}

/// The rows that there shall be. In the `seed` table of an experiment the same names are written with
/// `_` for `-`: `seed = { users = 200, schedules_per_user = 1000, shared_hash = true }`.
#[derive(clap::Args, Clone, Debug)]
pub struct Rows {
    /// Number of users, 1 to 1000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_USERS))]
    users: u32,
    #[command(flatten)]
    schedules: schedules::Flags,
    #[command(flatten)]
    posts: posts::Flags,
    #[command(flatten)]
    articles: articles::Flags,
    /// Password of all seeded users: 8 to 1024 printable ASCII characters
    #[arg(long, value_name = "TEXT", default_value = DEFAULT_PASSWORD, value_parser = password)]
    password: String,
    /// Hash of the passwords (setting accounts.hash)
    #[arg(long, value_name = "SCHEME")]
    hash: Option<String>,
    /// Permission to use a hash below OWASP's minimum (setting unsafe_experiments)
    #[arg(long)]
    unsafe_experiments: bool,
    /// One hash and salt for all users; a hash per user takes about 25 ms of CPU time each
    #[arg(long)]
    shared_hash: bool,
    /// Creation time of the rows; schedules start within the year after it
    #[arg(long, value_name = "TIME", default_value = DEFAULT_EPOCH, value_parser = epoch)]
    epoch: i64,
    /// Seed of the random generator
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Rows that were not typed at a prompt.
#[derive(clap::Parser)]
#[command(name = "seed", no_binary_name = true, disable_help_flag = true)]
struct Typed {
    #[command(flatten)]
    rows: Rows,
}

/// The flags that a `seed` table stands for, checked as if they had been typed.
pub fn flags(table: &toml::Table) -> anyhow::Result<Vec<String>> {
    let mut flags = Vec::new();
    for (name, value) in table {
        let flag = format!("--{}", name.replace('_', "-"));
        match value {
            toml::Value::Boolean(true) => flags.push(flag),
            toml::Value::Boolean(false) => {}
            toml::Value::String(text) => flags.push(format!("{flag}={text}")),
            toml::Value::Integer(number) => flags.push(format!("{flag}={number}")),
            other => {
                bail!("`{name}` = {other}: expected a string, a whole number or a boolean")
            }
        }
    }
    let first_line = |error: clap::Error| {
        let text = error.render().to_string();
        let said: Vec<_> = text.lines().map(str::trim).take_while(|l| !l.is_empty()).collect();
        anyhow!("{}", said.join(" ").trim_start_matches("error: "))
    };
    <Typed as clap::Parser>::try_parse_from(&flags).map(drop).map_err(first_line)?;
    Ok(flags)
}

fn password(text: &str) -> anyhow::Result<String> {
    // Sign-in normalises what is typed; plain ASCII is its own normal form.
    let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    ensure!(printable && (8..=1024).contains(&text.len()), "8 to 1024 printable ASCII characters");
    Ok(text.to_owned())
}

fn epoch(text: &str) -> anyhow::Result<i64> {
    // Everything within the year after it must still be a time that the service answers.
    const YEAR_MS: i64 = 366 * 24 * 3600 * 1000;
    let latest = rfc3339::LAST_MS - 2 * YEAR_MS;
    let time = rfc3339::parse(text).filter(|ms| *ms <= latest);
    time.with_context(|| format!("a time such as {DEFAULT_EPOCH}, from 1970 to 9997"))
}

/// What became of the rows of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    pub new: u64,
    pub old: u64,
}

/// What became of all of them: kinds in the order in which they were filled, without those of which
/// no row was asked for.
pub type Filled = Vec<(&'static str, Added)>;

/// What a kind is filled from: the store, what is wanted, and the users whose rows they are.
struct Ground<'a> {
    app: &'a App,
    wanted: &'a Rows,
    /// Ids of the seeded users, by their numbers less one.
    users: &'a [UserId],
    bar: &'a ProgressBar,
}

impl Ground<'_> {
    fn begin(&self, kind: &'static str, rows: u64) {
        begin(self.bar, kind, rows);
    }
}

fn begin(bar: &ProgressBar, kind: &'static str, rows: u64) {
    bar.set_length(rows);
    bar.set_position(0);
    bar.set_message(kind);
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let rows = &args.rows;
    rows.schedules.check(rows.users)?;
    rows.articles.check(rows.users)?;
    let mut sources = args.settings.sources()?;
    if rows.unsafe_experiments {
        let flag = Origin::Flag("--unsafe-experiments".to_owned());
        sources.set("unsafe_experiments", "true", flag)?;
    }
    if let Some(scheme) = &rows.hash {
        sources.set("accounts.hash", scheme, Origin::Flag("--hash".to_owned()))?;
    }
    let settings = sources.resolve()?;
    let _lock = DirLock::to_fill(&settings)?;
    let app = App::open(&settings)?;
    let started = Instant::now();
    let filled = fill(&app, &settings, rows)?;
    let took = started.elapsed().as_secs_f64();
    // The work is done whether or not somebody reads of it.
    let _ = write!(std::io::stdout(), "{}", told(rows, &filled, took));
    Ok(())
}

/// Adds what is missing. The caller owns the data directory.
///
/// # Errors
/// When the store cannot take it. What was added until then stays.
pub fn fill(app: &App, settings: &Settings, rows: &Rows) -> anyhow::Result<Filled> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = bar(0, "{human_pos}/{human_len}");
    let filled = runtime.block_on(async {
        let (ids, users) = users::fill(app, settings, rows, &bar).await?;
        let ground = Ground { app, wanted: rows, users: &ids, bar: &bar };
        let filled = [
            ("users", users),
            ("schedules", schedules::fill(&ground).await?),
            ("posts", posts::fill(&ground).await?),
            ("articles", articles::fill(&ground).await?),
            ("comments", articles::fill_comments(&ground).await?),
            ("likes", articles::fill_likes(&ground).await?),
        ];
        anyhow::Ok(filled.into_iter().filter(|(_, added)| added.new + added.old > 0).collect())
    })?;
    bar.finish_and_clear();
    Ok(filled)
}

fn told(rows: &Rows, filled: &Filled, seconds: f64) -> String {
    let listed = |count: fn(&Added) -> u64| {
        let each: Vec<_> =
            filled.iter().map(|(kind, added)| format!("{} {kind}", count(added))).collect();
        match each.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} and {last}", before.join(", ")),
            None => "nothing".to_owned(),
        }
    };
    let (new, old) = (listed(|added| added.new), listed(|added| added.old));
    let mut text = format!("added {new} in {seconds:.1} s; already there: {old}\n");
    if filled.iter().any(|(kind, added)| *kind == "users" && added.old > 0) {
        text += "existing users keep their passwords\n";
    }
    let first = users::nickname(1);
    let (password, said) = if rows.password == DEFAULT_PASSWORD {
        (DEFAULT_PASSWORD, format!("the password {DEFAULT_PASSWORD}"))
    } else {
        ("…", "the password from --password".to_owned())
    };
    text + &format!(
        "log in as {first} to {} with {said}:\n  \
         curl -H 'Content-Type: application/json' -d '{{\"nickname\":\"{first}\",\"password\":\"{password}\"}}' http://127.0.0.1:8080/v1/auth/user/login\n",
        users::nickname(rows.users)
    )
}
