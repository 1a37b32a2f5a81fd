//! `madang seed`: fills a store with users and their rows, for load tests.
//!
//! The same arguments give the same rows, in the same order and with the same ids on an empty store: a user or a
//! schedule is a function of the seed and its number ([`random`]). Authors and likes also depend on the number of
//! users, and the articles with comments and likes on the number of articles. Only the salts of the password hashes
//! differ. Existing rows are not added again, so the next run completes an interrupted one, and a larger run adds the
//! missing number of rows; with more users or articles these are not the rows of a single run.
//!
//! Limits per user are not enforced: a filled store can show the effect of a limit on a user far beyond it. The
//! counts that enforce limits are kept.
//!
//! Each file fills one kind of row.

mod articles;
mod batches;
mod demo;
mod posts;
mod random;
mod schedules;
mod users;
mod zipf;

pub(crate) use demo::fill_demo;

use crate::settings::{SettingsArgs, Usage};
use crate::terminal::bar;
use anyhow::{Context as _, anyhow, bail, ensure};
use indicatif::ProgressBar;
use madang_service::accounts::UserId;
use madang_service::app::App;
use madang_service::config::{Origin, Settings};
use madang_service::http::rfc3339;
use madang_service::store::{DirLock, StoreError};
use std::io::Write as _;
use std::time::Instant;

/// Password of seeded users, unless another is given.
pub(crate) const DEFAULT_PASSWORD: &str = "madang-seed";
/// Creation time of rows; schedules are in the year after it.
const DEFAULT_EPOCH: &str = "2027-01-01T00:00:00Z";
const MOST_USERS: i64 = 1_000_000;
const MOST_SCHEDULES_PER_USER: i64 = 1_000_000;
/// Schedules in one run: some 10 GB.
const MOST_SCHEDULES: u64 = 100_000_000;
/// Posts, and articles.
const MOST_POSTS: i64 = 5_000_000;
/// Comments, and likes: some 5 GB of each.
const MOST_PARTS: i64 = 100_000_000;

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
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    rows: Rows,
}

/// Rows to add. The `seed` table of an experiment has the same names, with `_` for `-`:
/// `seed = { users = 200, schedules_per_user = 1000, shared_hash = true }`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Rows {
    /// Number of users, 1 to 1000000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_USERS))]
    users: u32,
    /// Number of schedules per user, up to 1000000
    #[arg(long, value_name = "M", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_SCHEDULES_PER_USER))]
    schedules_per_user: u32,
    /// Number of posts, up to 5000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_POSTS))]
    posts: u32,
    /// Number of articles, up to 5000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_POSTS))]
    articles: u32,
    /// Number of comments, up to 100000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_PARTS))]
    comments: u32,
    /// Number of likes, up to 100000000 and at most one per article and user
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_PARTS))]
    likes: u32,
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

impl Rows {
    fn check(&self) -> Result<(), Usage> {
        let Self { users, schedules_per_user, articles, comments, likes, .. } = *self;
        let schedules = u64::from(users) * u64::from(schedules_per_user);
        if schedules > MOST_SCHEDULES {
            return Err(Usage(format!(
                "{schedules} schedules are too many; at most {MOST_SCHEDULES} in one run"
            )));
        }
        if articles == 0 && (comments > 0 || likes > 0) {
            return Err(Usage("--comments and --likes need --articles".to_owned()));
        }
        let pairs = u64::from(articles) * u64::from(users);
        if u64::from(likes) > pairs {
            return Err(Usage(format!(
                "--likes {likes}: at most one per article and user, {pairs} in all"
            )));
        }
        Ok(())
    }
}

/// Parses [`Rows`] that were not typed.
#[derive(clap::Parser)]
#[command(name = "seed", no_binary_name = true, disable_help_flag = true)]
struct Typed {
    #[command(flatten)]
    rows: Rows,
}

/// The flags of a `seed` table, validated like typed ones.
pub(crate) fn flags(table: &toml::Table) -> anyhow::Result<Vec<String>> {
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
        let lines: Vec<_> = text.lines().map(str::trim).take_while(|l| !l.is_empty()).collect();
        anyhow!("{}", lines.join(" ").trim_start_matches("error: "))
    };
    <Typed as clap::Parser>::try_parse_from(&flags).map(drop).map_err(first_line)?;
    Ok(flags)
}

fn password(text: &str) -> anyhow::Result<String> {
    // Sign-in normalises passwords, which leaves ASCII unchanged.
    let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    ensure!(printable && (8..=1024).contains(&text.len()), "8 to 1024 printable ASCII characters");
    Ok(text.to_owned())
}

fn epoch(text: &str) -> anyhow::Result<i64> {
    // All times within the following year have to be valid in the service.
    const YEAR_MS: i64 = 366 * 24 * 3600 * 1000;
    let latest = rfc3339::LAST_MS - 2 * YEAR_MS;
    let time = rfc3339::parse(text).filter(|ms| *ms <= latest);
    time.with_context(|| format!("a time such as {DEFAULT_EPOCH}, from 1970 to 9997"))
}

/// Numbers of new and existing rows of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Added {
    pub new: u64,
    pub old: u64,
}

/// Kinds in the order in which they were filled, without those of which no row was requested.
pub(crate) type Filled = Vec<(&'static str, Added)>;

/// Context of filling one kind.
struct Context<'a> {
    app: &'a App,
    wanted: &'a Rows,
    /// Ids of the seeded users; user 1 is at index 0.
    users: &'a [UserId],
    bar: &'a ProgressBar,
}

impl Context<'_> {
    /// Begins a kind; returns how many of its rows exist, at most `wanted`.
    async fn begin(
        &self,
        kind: &'static str,
        wanted: u32,
        count: impl Future<Output = Result<u64, StoreError>>,
    ) -> anyhow::Result<u32> {
        begin(self.bar, kind, u64::from(wanted));
        let existing = u32::try_from(count.await?).unwrap_or(u32::MAX).min(wanted);
        self.bar.inc(u64::from(existing));
        Ok(existing)
    }
}

fn begin(bar: &ProgressBar, kind: &'static str, rows: u64) {
    bar.set_length(rows);
    bar.set_position(0);
    bar.set_message(kind);
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rows = &args.rows;
    rows.check()?;
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
    // The store is filled even if nobody reads this.
    let _ = write!(std::io::stdout(), "{}", summary(rows, &filled, took));
    Ok(())
}

/// Adds missing rows. The caller owns the data directory.
///
/// # Errors
/// When the store fails. Rows added until then remain.
pub(crate) fn fill(app: &App, settings: &Settings, rows: &Rows) -> anyhow::Result<Filled> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bar = bar(0, "{human_pos}/{human_len}");
    let filled = runtime.block_on(async {
        let (ids, users) = users::fill(app, settings, rows, &bar).await?;
        let context = Context { app, wanted: rows, users: &ids, bar: &bar };
        let filled = [
            ("users", users),
            ("schedules", schedules::fill(&context).await?),
            ("posts", posts::fill(&context).await?),
            ("articles", articles::fill(&context).await?),
            ("comments", articles::fill_comments(&context).await?),
            ("likes", articles::fill_likes(&context).await?),
        ];
        anyhow::Ok(filled.into_iter().filter(|(_, added)| added.new + added.old > 0).collect())
    })?;
    bar.finish_and_clear();
    Ok(filled)
}

fn summary(rows: &Rows, filled: &Filled, seconds: f64) -> String {
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
    let (password, named) = if rows.password == DEFAULT_PASSWORD {
        (DEFAULT_PASSWORD, format!("the password {DEFAULT_PASSWORD}"))
    } else {
        ("…", "the password from --password".to_owned())
    };
    text + &format!(
        "log in as {first} to {} with {named}:\n  \
         curl -H 'Content-Type: application/json' -d '{{\"nickname\":\"{first}\",\"password\":\"{password}\"}}' http://127.0.0.1:8080/v1/auth/user/login\n",
        users::nickname(rows.users)
    )
}
