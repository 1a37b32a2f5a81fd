//! Reads `[hooks]`.

use std::time::Duration;

use super::super::reader::Reader;
use super::super::{Action, During, Hooks, SIGNALS, Target, Variant};
use super::quoted;
use crate::file::outline::Outline;
use crate::time;

/// Longer than any seed or flush should take.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// With an `outline`, actions after the end of the load are mistakes.
pub(crate) fn all(
    reader: Option<Reader<'_>>,
    variants: &[Variant],
    outline: Option<&Outline>,
) -> Hooks {
    let Some(mut reader) = reader else {
        return Hooks { time_limit: DEFAULT_TIME_LIMIT, ..Hooks::default() };
    };
    let [prepare, reset, drain] = ["prepare", "reset", "drain"].map(|key| reader.words(key));
    let during = reader.list("during").unwrap_or_default();
    let mut during: Vec<During> =
        during.into_iter().filter_map(|reader| one(reader, variants, outline)).collect();
    during.sort_by_key(|during| during.at);
    let time_limit = reader.positive_duration("time_limit").unwrap_or(DEFAULT_TIME_LIMIT);
    reader.finish(&[]);
    Hooks { prepare, reset, drain, during, time_limit }
}

fn one(mut reader: Reader<'_>, variants: &[Variant], outline: Option<&Outline>) -> Option<During> {
    let at = reader.duration("at").or_else(|| reader.missing("at"));
    if let (Some(at), Some(outline)) = (at, outline)
        && at >= outline.length()
    {
        let (at, length) = (time::exact(at), time::exact(outline.length()));
        let why = format!("is {at}, but the load starts nothing any more after {length}");
        reader.refuse("at", why);
    }
    let command = reader.words("command");
    let signal = reader.text("signal");
    let restart = reader.boolean("restart");
    if reader.has("command") == reader.has("signal") {
        reader.complain("`during` in [hooks] needs exactly one of `command` and `signal`");
    }
    if restart.is_some() && !reader.has("signal") {
        reader.complain("`restart` in [hooks.during] belongs to a `signal`");
    }
    reader.finish(&[]);
    let Some(signal) = signal else {
        return Some(During { at: at?, action: Action::Command(command?) });
    };
    let name = signal.strip_prefix("SIG").unwrap_or(&signal);
    let found = SIGNALS.iter().find(|(known, _)| *known == name);
    if found.is_none() {
        let names = quoted(&SIGNALS.map(|(name, _)| name));
        reader.wrong("signal", format!("unknown `signal` `{signal}`: accepted are {names}"));
    }
    let is_running = |variant: &&Variant| matches!(variant.target, Target::Url(_));
    if let Some(Variant { name, .. }) = variants.iter().find(is_running) {
        let why = format!("needs servers that the lab starts; `{name}` is a `url`");
        reader.refuse("signal", why);
    }
    let holds_others = |variant: &&Variant| {
        variant.cgroup.is_some() || matches!(variant.target, Target::Container(_))
    };
    if let Some(Variant { name, .. }) = variants.iter().find(holds_others) {
        let why = format!(
            "goes to the process that was started, and `{name}` has containers or a `cgroup`: use a \
             `command`, such as [\"docker\", \"kill\", …]"
        );
        reader.refuse("signal", why);
    }
    let action = Action::Signal { signal: found?.0, restart: restart.unwrap_or(false) };
    Some(During { at: at?, action })
}
