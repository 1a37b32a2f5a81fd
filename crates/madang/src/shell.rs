//! `madang completions` and `madang man`: what a shell and `man` know of the command.

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
pub struct Completions {
    /// Shell
    shell: Shell,
}

/// Arguments of `madang man`.
#[derive(clap::Args, Debug)]
pub struct Man {
    /// Existing directory for the pages
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub fn completions(args: &Completions, mut command: clap::Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "madang", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(())
}

/// Writes a page for the command and one for each of its subcommands.
pub fn man(args: &Man, command: clap::Command) -> anyhow::Result<()> {
    clap_mangen::generate_to(command, &args.to).with_context(|| args.to.display().to_string())
}
