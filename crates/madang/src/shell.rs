//! `madang completions` and `madang man`: shell completions and man pages.

use anyhow::Context as _;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments of `madang completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  madang completions bash >/etc/bash_completion.d/madang
  madang completions zsh >~/.zfunc/_madang
  madang completions fish >~/.config/fish/completions/madang.fish")]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

/// Arguments of `madang man`.
#[derive(clap::Args, Debug)]
pub(crate) struct Man {
    /// Existing directory for the pages
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(crate) fn completions(args: &Completions, mut command: clap::Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "madang", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(())
}

/// Writes pages for the command and each of its subcommands.
pub(crate) fn man(args: &Man, command: clap::Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &args.to).with_context(|| args.to.display().to_string())
}
