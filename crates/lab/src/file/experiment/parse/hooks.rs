//! `[hooks]`.

use std::time::Duration;

use super::super::reader::Reader;
use super::super::{Action, During, Hooks, Signal, Target, Variant};
use super::quoted;
use crate::file::outline::Outline;
use crate::time;

/// Longer than any seed or flush should take.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// With an `outline`, what is to be done when the load is over is a mistake.
pub fn all(reader: Option<Reader<'_>>, variants: &[Variant], outline: Option<&Outline>) -> Hooks {
    let Some(mut reader) = reader else {
        return Hooks { time_limit: DEFAULT_TIME_LIMIT, ..Hooks::default() };
    };
    let mut command = |key| reader.words(key).map(|found| found.value);
    let (prepare, reset, drain) = (command("prepare"), command("reset"), command("drain"));
    let during = reader.list("during").unwrap_or_default();
    let mut during: Vec<During> =
        during.into_iter().filter_map(|reader| one(reader, variants, outline)).collect();
    during.sort_by_key(|during| during.at);
    let time_limit = reader.positive_duration("time_limit").unwrap_or(DEFAULT_TIME_LIMIT);
    reader.finish(&[]);
    Hooks { prepare, reset, drain, during, time_limit }
}

fn one(mut reader: Reader<'_>, variants: &[Variant], outline: Option<&Outline>) -> Option<During> {
    let at = reader.duration_at("at").or_else(|| reader.missing("at"));
    if let (Some(at), Some(outline)) = (&at, outline)
        && at.value >= outline.length()
    {
        let (at_text, length) = (time::exact(at.value), time::exact(outline.length()));
        let message = format!(
            "`at` in [hooks.during] is {at_text}, but the load starts nothing any more after {length}"
        );
        reader.mistakes().add(at.offset, message);
    }
    let at = at.map(|at| at.value);
    let command = reader.words("command");
    let signal = reader.text("signal");
    let restart = reader.boolean("restart");
    let (mistakes, offset) = (reader.mistakes(), reader.offset());
    if reader.has("command") == reader.has("signal") {
        let message = "`during` in [hooks] needs exactly one of `command` and `signal`";
        mistakes.add(offset, message);
    }
    if restart.is_some() && !reader.has("signal") {
        mistakes.add(offset, "`restart` in [hooks.during] belongs to a `signal`");
    }
    reader.finish(&[]);
    let Some(signal) = signal else {
        return Some(During { at: at?, action: Action::Command(command?.value) });
    };
    let name = signal.value.strip_prefix("SIG").unwrap_or(&signal.value);
    let found = Signal::ALL.iter().find(|(known, _)| *known == name);
    if found.is_none() {
        let names = Signal::ALL.map(|(name, _)| name);
        let message =
            format!("unknown `signal` `{}`: accepted are {}", signal.value, quoted(&names));
        mistakes.add(signal.offset, message);
    }
    let running = variants.iter().find(|variant| matches!(variant.target, Target::Url(_)));
    if let Some(variant) = running {
        let message = format!(
            "`signal` in [hooks.during] needs servers that the lab starts; `{}` is a `url`",
            variant.name
        );
        mistakes.add(signal.offset, message);
    }
    let holds_others = |variant: &&Variant| {
        variant.cgroup.is_some() || matches!(variant.target, Target::Container(_))
    };
    if let Some(variant) = variants.iter().find(holds_others) {
        let message = format!(
            "`signal` in [hooks.during] goes to the process that was started, and `{}` has containers or a \
             `cgroup`: use a `command`, such as [\"docker\", \"kill\", …]",
            variant.name
        );
        mistakes.add(signal.offset, message);
    }
    let action = Action::Signal { signal: found?.1, restart: restart.unwrap_or(false) };
    Some(During { at: at?, action })
}
