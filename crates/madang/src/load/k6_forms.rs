//! Forms of k6's command line that clap does not accept, and reasons for missing flags.

use clap::Args as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

use super::flags::parse_bool;

/// Missing flags of k6, with the reason or an alternative.
const REFUSED: &[(&str, &str)] = &[
    ("--local-ips", "requests come from the address that the system chooses"),
    ("--execution-segment", "one process runs the whole test"),
    ("--execution-segment-sequence", "one process runs the whole test"),
    ("--paused", "there is no server through which it could go on"),
    ("-p", "there is no server through which it could go on"),
    ("--linger", "there is no server that could stay"),
    ("-l", "there is no server that could stay"),
    ("--traces-output", "nothing is traced"),
    ("--new-machine-readable-summary", "--report FILE writes everything measured as JSON"),
    ("--profiling-enabled", "perf can look at the process"),
];

/// The error for a missing flag of k6.
pub(crate) fn explain(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let (flag, instead) = REFUSED.iter().find(|(known, _)| known == flag)?;
    Some(format!("madang: {flag} is not supported yet; {instead}"))
}

/// Rewrites a command line for clap: without k6's `run`, with a flag for `vendor`, and switches without `=true`.
pub(crate) fn normalize_args(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<_> = args.collect();
    if args.get(1).is_none_or(|word| word != "load") {
        return args;
    }
    let command = super::Args::augment_args(clap::Command::new("load"));
    let word = first_word(&command, &args);
    if word + 1 < args.len() {
        if args[word] == "run" {
            args.remove(word);
        } else if args[word] == "vendor" {
            args[word] = "--vendor".into();
        }
    }
    let switches = command.get_arguments().filter(|one| !one.get_action().takes_values());
    let switches: Vec<_> = switches.filter_map(clap::Arg::get_long).collect();
    let mut plain: Vec<OsString> = Vec::new();
    for arg in args {
        match switched(&arg, &switches) {
            None => plain.push(arg),
            // The last one wins.
            Some((flag, is_on)) => {
                plain.retain(|one| *one != *flag);
                plain.extend(is_on.then(|| flag.into()));
            }
        }
    }
    plain
}

/// Parses `--flag=true` or `=false` of a flag without a value.
fn switched(arg: &OsString, switches: &[&str]) -> Option<(String, bool)> {
    let (flag, value) = arg.to_str()?.split_once('=')?;
    let is_known = switches.contains(&flag.strip_prefix("--")?);
    is_known.then_some((flag.to_owned(), parse_bool(value)?))
}

/// Position of the first word after `load` that is neither a flag nor a flag's value.
fn first_word(command: &clap::Command, args: &[OsString]) -> usize {
    let mut at = 2;
    while let Some(flag) = args.get(at).and_then(|arg| arg.to_str()?.strip_prefix('-')) {
        let takes_value = command.get_arguments().any(|one| {
            let is_it = match flag.strip_prefix('-') {
                Some(long) => one.get_long() == Some(long),
                None => one.get_short().is_some_and(|short| flag == short.to_string()),
            };
            is_it && one.get_action().takes_values() && !one.is_require_equals_set()
        });
        at += if takes_value { 2 } else { 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::flags::tests::Typed;
    use clap::{CommandFactory as _, Parser as _};

    /// Flags of `k6 run` in 1.8.1, from its `internal/cmd`.
    const OF_K6: &str = "--vus --duration --iterations --stage --execution-segment --execution-segment-sequence \
        --paused --no-setup --no-teardown --max-redirects --batch --batch-per-host --rps --user-agent --http-debug \
        --insecure-skip-tls-verify --no-connection-reuse --no-vu-connection-reuse --min-iteration-duration --throw \
        --blacklist-ip --block-hostnames --summary-trend-stats --summary-time-unit --system-tags --tag \
        --console-output --discard-response-bodies --local-ips --dns --include-system-env-vars \
        --compatibility-mode --type --env --no-thresholds --no-summary --summary-mode --summary-export \
        --new-machine-readable-summary --traces-output --out --linger --no-usage-report --secret-source \
        --log-output --log-format --config --no-color --verbose --quiet --address --profiling-enabled";

    #[test]
    fn every_flag_of_k6_is_taken_or_refused_by_its_name() {
        let command = Typed::command();
        for flag in OF_K6.split_whitespace() {
            let taken =
                command.get_arguments().any(|arg| arg.get_long() == flag.strip_prefix("--"));
            let refused = REFUSED.iter().any(|(known, _)| *known == flag);
            assert!(taken != refused, "{flag}");
        }
    }

    #[test]
    fn a_missing_flag_is_told_with_what_to_do_instead() {
        for flag in ["--local-ips=x", "-p", "--linger"] {
            let error = Typed::try_parse_from(["load", "s.js", flag]).unwrap_err();
            let reason = explain(&error).unwrap_or_else(|| panic!("{error}"));
            assert!(reason.contains("is not supported yet; "), "{reason}");
        }
        let error = Typed::try_parse_from(["load", "s.js", "--vuss", "3"]).unwrap_err();
        assert_eq!(explain(&error), None);
    }

    #[test]
    fn switches_may_be_said_to_be_true_or_false() {
        let command = Typed::command();
        let mut count = 0;
        for arg in command.get_arguments().filter(|one| !one.get_action().takes_values()) {
            let Some(flag) = arg.get_long().filter(|name| !["help", "vendor"].contains(name))
            else {
                continue;
            };
            let plain = |typed: &[String]| {
                let words = ["madang", "load", "s.js"].map(str::to_owned);
                let args = normalize_args(words.iter().chain(typed).map(OsString::from));
                let parsed = Typed::command().try_get_matches_from(&args[1..]);
                parsed
                    .unwrap_or_else(|error| panic!("{flag}: {error}"))
                    .get_flag(arg.get_id().as_str())
            };
            let (on, off) = (format!("--{flag}=true"), format!("--{flag}=false"));
            assert!(plain(std::slice::from_ref(&on)), "{flag}");
            assert!(!plain(&[on, off.clone()]) && !plain(&[format!("--{flag}"), off]), "{flag}");
            count += 1;
        }
        assert!(count >= 14, "{count}");
        let args = ["madang", "load", "s.js", "--no-setup=maybe"].map(OsString::from);
        let error = Typed::try_parse_from(&normalize_args(args.into_iter())[1..]).unwrap_err();
        assert!(error.to_string().contains("--no-setup"), "{error}");
    }

    #[test]
    fn run_is_left_out_where_k6_has_it() {
        for (typed, expected) in [
            ("load run s.js -u 1", "load s.js -u 1"),
            ("load vendor s.js", "load --vendor s.js"),
            ("load run", "load run"),
            ("load --quiet run s.js", "load --quiet s.js"),
            ("load -v --config run run s.js", "load -v --config run s.js"),
            ("load --report run s.js", "load --report run s.js"),
            ("load -u 1 --http-debug run s.js", "load -u 1 --http-debug s.js"),
            ("compare run s.js", "compare run s.js"),
            ("load s.js run", "load s.js run"),
        ] {
            let line = format!("madang {typed}");
            let args = normalize_args(line.split(' ').map(OsString::from));
            let args = args.join(&OsString::from(" ")).into_string().unwrap();
            assert_eq!(args, format!("madang {expected}"));
        }
    }
}
