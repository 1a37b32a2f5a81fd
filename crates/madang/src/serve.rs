//! `madang serve`: the backend.

use crate::settings::{SettingsArgs, usage};
use crate::{import, seed};
use anyhow::Context as _;
use madang_load::StopSignals;
use madang_service::admin::{Operated, SetLog, Socket};
use madang_service::app::{self, App};
use madang_service::config::{LogFormat, LogSettings, Origin, Settings};
use madang_service::http::server::{Server, Signals};
use madang_service::store::DirLock;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use tokio::signal::unix::SignalKind;
use tracing_subscriber::{EnvFilter, reload};

/// Arguments of `madang serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Prints `listening http://ADDR` and `metrics http://ADDR` on stdout; logs go to stderr. SIGTERM,
SIGHUP or Ctrl-C drains and stops; a second one stops at once. Neither loses acknowledged
writes. Settings are read only at the start. A SIGHUP that was ignored before (nohup) stays
ignored.

Examples:
  madang serve --demo      sample data on http://127.0.0.1:8080
  madang serve --listen 127.0.0.1:0 --data /var/lib/madang
                           any free port, another data directory
  madang serve --set cache.mode=off --set tracks.detail=full
                           without cache, full paths
  curl 'http://127.0.0.1:8080/v1/tracks?near=54.4,-3.2'
                           tracks that start nearby")]
pub(crate) struct Args {
    /// Address of the API (setting server.listen); port 0 = any free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Fill an empty store first: bundled trails and markets, invented users with posts and articles
    #[arg(long)]
    demo: bool,
}

/// Serves until told to stop.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut sources = args.settings.sources()?;
    if let Some(listen) = &args.listen {
        sources.set("server.listen", listen, Origin::Flag("--listen".to_owned()))?;
    }
    let settings = sources.resolve()?;
    let set_log = start_log(&settings.log)?;
    let files = raise_open_files();
    // Huge pages would take up to 2 MB for an allocation of 64 KB, too much on a tiny machine. If the
    // kernel refuses, the program only needs more memory.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // The port first: a busy one is the most common mistake, and must be detected before data are touched.
    let server = Server::bind(&settings.server)?;
    let lock = DirLock::take(&settings.data_dir)?;
    let app = App::open(&settings)?;
    app.accounts.agree_on_key()?;
    app.articles.agree_on_likes()?;
    if args.demo {
        import::fill_demo(&app).context("cannot store the bundled samples")?;
        seed::fill_demo(&app, &settings)
            .context("cannot store the sample users and their posts and articles")?;
    }
    say_start(&server, &settings, files)?;
    // Before the addresses are printed, like signals: their reader may use both at once.
    let operated = match Socket::bind(&settings.data_dir) {
        Ok(socket) => Some(Operated { socket, version: crate::VERSION, set_log }),
        Err(error) => {
            tracing::warn!("`madang admin` cannot reach this server: {error}");
            None
        }
    };
    let signals = Signals::default();
    let (mut next, hurry) = (Arc::clone(&signals.stop), Arc::clone(&signals.hurry));
    watch_signals(move || std::mem::replace(&mut next, Arc::clone(&hurry)).notify_one())?;
    if let Err(error) = announce(&server) {
        // Serves anyway: the addresses may not be needed.
        tracing::warn!("cannot print the addresses: {error:#}");
    }
    app::serve(server, &settings, app, &signals, operated)?;
    tracing::info!("stopped");
    drop(lock);
    Ok(())
}

fn say_start(server: &Server, settings: &Settings, files: u64) -> anyhow::Result<()> {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        address = %server.address()?,
        data = %settings.data_dir.display(),
        cache = ?settings.cache.mode,
        open_files = files,
        "serving"
    );
    let wanted = settings.server.max_connections as u64 + 64;
    if files < wanted {
        tracing::warn!(
            open_files = files,
            wanted,
            "the hard limit on open files is below server.max_connections; raise it (ulimit -Hn) or lower the setting"
        );
    }
    Ok(())
}

/// Prints the two lines that scripts read.
fn announce(server: &Server) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening http://{}", server.address()?)?;
    writeln!(out, "metrics http://{}", server.metrics_address()?)?;
    out.flush()?;
    Ok(())
}

fn start_log(settings: &LogSettings) -> anyhow::Result<SetLog> {
    let filter = EnvFilter::try_new(&settings.level)
        .map_err(|e| usage(format!("log.level = {}: {e}", settings.level)))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // It would report a failed write on the same stderr, and panic when that fails, too: a log on a
        // full disk, or without a reader, must not end the server.
        .log_internal_errors(false);
    Ok(match settings.format {
        LogFormat::Text => {
            let builder = builder.with_target(false).with_filter_reloading();
            let set_log = set_log(builder.reload_handle());
            builder.init();
            set_log
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let set_log = set_log(builder.reload_handle());
            builder.init();
            set_log
        }
    })
}

fn set_log<S: 'static>(handle: reload::Handle<EnvFilter, S>) -> SetLog {
    Box::new(move |text| {
        handle.reload(EnvFilter::try_new(text)?)?;
        Ok(())
    })
}

/// Raises the soft limit on open files to the hard one; returns the effective limit.
fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let holds =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    holds.unwrap_or(u64::MAX)
}

/// Starts a thread that calls `handler` on each SIGTERM, SIGHUP and SIGINT.
pub(crate) fn watch_signals(handler: impl FnMut() + Send + 'static) -> anyhow::Result<()> {
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    // Under `nohup` the process is to outlive its terminal, which a handler would override.
    if !madang_stack::ignores_signal(std::process::id(), Signal::HUP) {
        kinds.push(SignalKind::hangup());
    }
    on_signals(&kinds, handler)
}

/// Starts a thread that calls `handler` on each signal of these kinds.
pub(crate) fn on_signals(
    kinds: &[SignalKind],
    mut handler: impl FnMut() + Send + 'static,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        StopSignals::listen(kinds)?
    };
    let watch = async move {
        loop {
            signals.next().await;
            handler();
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(watch))?;
    Ok(())
}
