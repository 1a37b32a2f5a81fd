//! `madang config`: prints every setting with value, origin and meaning.

use crate::settings::SettingsArgs;
use madang_service::config::{KEYS, Origin};
use std::io::Write as _;

/// Arguments of `madang config`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The output is a valid madang.toml, without secrets. Precedence: file < MADANG_… variables < flags.

Examples:
  madang config                               all settings, explained
  madang config --set tracks.detail=full      the settings with this flag
  madang config > madang.toml                 a file to edit")]
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print only settings that a file, variable or flag sets
    #[arg(long)]
    changed: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let sources = args.settings.sources()?;
    // Invalid settings are rejected, not printed.
    sources.resolve()?;
    let mut out = std::io::stdout().lock();
    let mut table = "";
    for key in KEYS.iter() {
        let (value, origin) = sources.effective(key);
        if args.changed && origin == Origin::Default {
            continue;
        }
        // `cache.ttl.tracks` stays a dotted key of [cache].
        let (section, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if section != table {
            writeln!(out, "{}[{section}]", if table.is_empty() { "" } else { "\n" })?;
            table = section;
        }
        writeln!(out, "# {}", key.meaning)?;
        writeln!(
            out,
            "# accepted: {} · default: {} · {}",
            key.accepts,
            key.default,
            key.variable()
        )?;
        if key.secret && !value.is_empty() {
            writeln!(out, "# {name} = (hidden)   # from {origin}")?;
            continue;
        }
        let text = toml::Value::from(value);
        match origin {
            Origin::Default => writeln!(out, "{name} = {text}")?,
            origin => writeln!(out, "{name} = {text}   # from {origin}")?,
        }
    }
    Ok(())
}
