//! k6's command line: flags that set an option, and flags without effect here.

use anyhow::Context as _;
use madang_load::{
    ConfigFile, Layer, LogFormat, Messages, OptionsError, OutputSpec, Secrets, SecretsError,
    SummaryMode,
};
use std::path::PathBuf;

/// Looks up an environment variable.
type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// Flags with the values of the options of the same name.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Requests that one http.batch() has under way at a time [default: 20]
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// The same, to one host; 0 is no limit [default: 6]
    #[arg(long, value_name = "N")]
    batch_per_host: Option<String>,
    /// Accept any certificate
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Addresses that no request may go to, such as 10.0.0.0/8; may be repeated
    #[arg(long, value_name = "RANGE")]
    blacklist_ip: Vec<String>,
    /// Host names that no request may go to, such as *.example; may be repeated
    #[arg(long, value_name = "NAMES")]
    block_hostnames: Vec<String>,
    /// Look-up of names [default: ttl=5m,select=random,policy=preferIPv4]
    #[arg(long, value_name = "SETTINGS")]
    dns: Option<String>,
    /// Show the headers of every request and response; with `full` the bodies as well
    #[arg(long, value_name = "full", num_args = 0..=1, require_equals = true, default_missing_value = "headers")]
    http_debug: Option<String>,
    /// Options as JSON that the script's own win over [environment: K6_CONFIG]
    #[arg(long, short = 'c', value_name = "FILE")]
    config: Option<PathBuf>,
    /// Requests per second over all virtual users
    #[arg(long, value_name = "N")]
    rps: Option<String>,
    /// System tags of values, such as status,url; also vu, iter and ip
    #[arg(long, value_name = "NAMES")]
    system_tags: Vec<String>,
    /// Write every single value: json=FILE, csv=FILE, or csv=fileName=FILE,timeFormat=unix_milli,saveInterval=1s; `-`
    /// is standard output, a name with .gz is compressed; influxdb=http://HOST:8086/DATABASE pushes them;
    /// experimental-prometheus-rw and opentelemetry push sums (K6_PROMETHEUS_RW_…, K6_OTEL_…); may be repeated
    #[arg(long, short = 'o', value_name = "OUTPUT")]
    out: Vec<String>,
    /// Values for k6/secrets, hidden in all messages: file=PATH with a NAME=VALUE in each line, or mock=NAME=VALUE,…;
    /// may be repeated, with a name=NAME
    #[arg(long, value_name = "SOURCE")]
    secret_source: Vec<String>,
    /// Append what the script writes with console to this file [environment: K6_CONSOLE_OUTPUT]
    #[arg(long, value_name = "FILE")]
    console_output: Option<PathBuf>,
    /// Where messages go: stderr (the default), stdout, none or file=PATH[,level=LEVEL] [environment: K6_LOG_OUTPUT]
    #[arg(long, value_name = "OUTPUT")]
    log_output: Option<String>,
    /// Format of messages: text (the default), json or raw [environment: K6_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Extent of the summary: compact (the default), full (each scenario and group, and more metrics), legacy
    /// (as before k6 1.0) or disabled
    #[arg(long, value_name = "MODE", value_parser = ["compact", "full", "legacy", "disabled"])]
    summary_mode: Option<String>,
    /// Accepted, changes nothing
    #[arg(long, hide = true)]
    no_usage_report: bool,
    /// Accepted, changes nothing: there is one language
    #[arg(long, hide = true, value_parser = ["extended", "base", "experimental_enhanced"])]
    compatibility_mode: Option<String>,
    /// Accepted, changes nothing
    #[arg(long = "type", short = 't', hide = true, value_parser = ["js"])]
    kind: Option<String>,
    /// Accepted, changes nothing: there is no server to be asked
    #[arg(long, short = 'a', hide = true)]
    address: Option<String>,
    /// Show messages of level debug, too, such as those of console.debug()
    #[arg(long, short = 'v')]
    pub verbose: bool,
}

impl Flags {
    /// Overrides options of `layer`.
    pub(crate) fn set(&self, layer: &mut Layer) -> Result<(), OptionsError> {
        let skip = self.insecure_skip_tls_verify.then(|| "true".to_owned());
        let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
        let mut problems = Vec::new();
        for (option, value) in [
            ("batch", self.batch.clone()),
            ("batchPerHost", self.batch_per_host.clone()),
            ("insecureSkipTLSVerify", skip),
            ("blacklistIPs", list(&self.blacklist_ip)),
            ("blockHostnames", list(&self.block_hostnames)),
            ("dns", self.dns.clone()),
            ("httpDebug", self.http_debug.clone()),
            ("rps", self.rps.clone()),
            ("systemTags", list(&self.system_tags)),
        ] {
            let wrong = value.and_then(|text| layer.set(option, &text).err());
            problems.extend(wrong);
        }
        match problems.len() {
            0 => Ok(()),
            _ => Err(OptionsError::Several(problems)),
        }
    }

    /// The file of options, empty without one.
    pub(crate) fn config_file(&self, variable: Variables<'_>) -> anyhow::Result<ConfigFile> {
        let named = || named(variable, "K6_CONFIG").map(PathBuf::from);
        let Some(path) = self.config.clone().or_else(named) else {
            return Ok(ConfigFile::default());
        };
        let shown = || format!("the file of options {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(shown)?;
        ConfigFile::parse(&text).with_context(shown)
    }

    /// Outputs of single values: from the flags, else K6_OUT, else the file of options.
    pub(crate) fn outputs(
        &self,
        variable: Variables<'_>,
        file: &ConfigFile,
    ) -> Result<Vec<OutputSpec>, OptionsError> {
        let named = variable("K6_OUT").unwrap_or_default();
        let named: Vec<_> =
            named.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        let sources = [&self.out, &named, &file.outputs];
        let outputs = sources.into_iter().find(|list| !list.is_empty());
        outputs.into_iter().flatten().map(|one| OutputSpec::parse(one, variable)).collect()
    }

    /// Sources of `k6/secrets`: from the flags, else K6_SECRET_SOURCE.
    pub(crate) fn secrets(&self, variable: Variables<'_>) -> Result<Secrets, SecretsError> {
        let mut secrets = Secrets::default();
        let named: Vec<_> = named(variable, "K6_SECRET_SOURCE").into_iter().collect();
        let sources = if self.secret_source.is_empty() { &named } else { &self.secret_source };
        sources.iter().try_for_each(|source| secrets.add(source))?;
        Ok(secrets)
    }

    pub(crate) fn console_output(&self, variable: Variables<'_>) -> Option<PathBuf> {
        self.console_output
            .clone()
            .or_else(|| named(variable, "K6_CONSOLE_OUTPUT").map(PathBuf::from))
    }

    pub(crate) fn messages(&self, variable: Variables<'_>) -> anyhow::Result<Messages> {
        let named = self.log_output.clone().or_else(|| named(variable, "K6_LOG_OUTPUT"));
        let output = named.map(|text| Messages::parse(&text)).transpose();
        Ok(output.map_err(anyhow::Error::msg)?.unwrap_or_default())
    }

    pub(crate) fn log_format(&self, variable: Variables<'_>) -> anyhow::Result<LogFormat> {
        let named = self.log_format.clone().or_else(|| named(variable, "K6_LOG_FORMAT"));
        let format = named.map(|text| LogFormat::parse(&text)).transpose();
        Ok(format.map_err(anyhow::Error::msg)?.unwrap_or_default())
    }

    /// Mode of the summary; `None` disables it.
    pub(crate) fn summary(&self, variable: Variables<'_>) -> anyhow::Result<Option<SummaryMode>> {
        let mode = self.summary_mode.clone().or_else(|| named(variable, "K6_SUMMARY_MODE"));
        let mode = match mode.as_deref() {
            None | Some("compact") => SummaryMode::Compact,
            Some("full") => SummaryMode::Full,
            Some("legacy") => SummaryMode::Legacy,
            Some("disabled") => return Ok(None),
            Some(mode) => {
                anyhow::bail!(
                    "K6_SUMMARY_MODE = {mode}: compact, full, legacy or disabled is expected"
                )
            }
        };
        let hides = switch(variable, "K6_NO_SUMMARY")?;
        Ok(Some(mode).filter(|_| !hides))
    }
}

/// Value of a variable that is not empty.
pub(crate) fn named(variable: Variables<'_>, name: &str) -> Option<String> {
    variable(name).filter(|text| !text.is_empty())
}

pub(crate) fn switch(variable: Variables<'_>, name: &str) -> anyhow::Result<bool> {
    Ok(choice(variable, name)?.unwrap_or(false))
}

/// A boolean variable; `None` if it is not set.
pub(crate) fn choice(variable: Variables<'_>, name: &str) -> anyhow::Result<Option<bool>> {
    let Some(text) = named(variable, name) else { return Ok(None) };
    let value = parse_bool(&text);
    value.map(Some).with_context(|| format!("{name} = {text}: true or false is expected"))
}

/// Parses a boolean as Go does.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Headers for Prometheus, each from a variable.
pub(crate) fn headers(variables: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let named = variables.filter_map(|(name, value)| {
        let name = name.strip_prefix("K6_PROMETHEUS_RW_HEADERS_")?;
        (!name.is_empty()).then(|| (name.to_owned(), value))
    });
    named.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser, Debug)]
    pub(crate) struct Typed {
        #[command(flatten)]
        args: super::super::Args,
    }

    fn args(typed: &[&str]) -> super::super::Args {
        Typed::try_parse_from([&["load", "s.js"], typed].concat()).unwrap().args
    }

    #[test]
    fn flags_set_options() {
        let flags =
            args(&["--batch", "3", "--dns", "select=first", "--blacklist-ip=10.0.0.0/8"]).more;
        let mut layer = Layer::default();
        flags.set(&mut layer).unwrap();
        assert_eq!((layer.batch, layer.blacklist_ips.map(|list| list.len())), (Some(3), Some(1)));
        assert!(layer.dns.is_some());
        let flags = args(&["--block-hostnames", "a b"]).more;
        assert!(flags.set(&mut Layer::default()).is_err());
    }

    #[test]
    fn outputs_of_flags_win_over_those_of_the_environment_and_these_over_the_file() {
        let count = |typed: &[&str], set: &str| {
            let variable = |name: &str| (name == "K6_OUT").then(|| set.to_owned());
            let file = ConfigFile::parse(r#"{ "out": ["json=1", "json=2", "json=3"] }"#).unwrap();
            let outputs = args(typed).more.outputs(&variable, &file);
            outputs.map(|outputs| outputs.len()).map_err(|error| error.to_string())
        };
        let names = |typed: &[&str]| count(typed, "json=a.json,csv=a.csv");
        assert_eq!((names(&[]), names(&["-o", "json"])), (Ok(2), Ok(1)));
        assert_eq!(count(&[], ""), Ok(3));
        let error = names(&["--out", "json", "--out=cloud"]).unwrap_err();
        assert_eq!(error, "the output `cloud` is not supported yet");
    }

    #[test]
    fn variables_switch_what_flags_switch() {
        let shown = |flags: &[&str], name: &str, value: &str| {
            let variable = |wanted: &str| (wanted == name).then(|| value.to_owned());
            args(flags).more.summary(&variable).map_err(|error| error.to_string())
        };
        assert_eq!(shown(&[], "K6_NO_SUMMARY", "true"), Ok(None));
        assert_eq!(shown(&[], "K6_NO_SUMMARY", ""), Ok(Some(SummaryMode::Compact)));
        assert_eq!(shown(&[], "K6_SUMMARY_MODE", "disabled"), Ok(None));
        let full = Ok(Some(SummaryMode::Full));
        assert_eq!(shown(&["--summary-mode=full"], "K6_SUMMARY_MODE", "disabled"), full);
        assert!(shown(&[], "K6_SUMMARY_MODE", "all").unwrap_err().contains("is expected"));
        assert!(shown(&[], "K6_NO_SUMMARY", "yes").unwrap_err().contains("K6_NO_SUMMARY"));
        let console =
            |flags: &[&str]| args(flags).more.console_output(&|_| Some("of.env".to_owned()));
        assert_eq!(console(&[]), Some("of.env".into()));
        assert_eq!(console(&["--console-output=a"]), Some("a".into()));
        let format =
            |flags: &[&str]| args(flags).more.log_format(&|_| Some("json".to_owned())).unwrap();
        assert_eq!(format(&[]), LogFormat::Json);
        assert_eq!(format(&["--log-format=raw"]), LogFormat::Raw);
        let output = |flags: &[&str]| args(flags).more.messages(&|_| Some("loki".to_owned()));
        assert!(output(&[]).unwrap_err().to_string().contains("`loki` is not supported yet"));
        assert!(matches!(output(&["--log-output=none"]), Ok(Messages::None)));
    }

    #[test]
    fn a_file_of_options_is_named_by_the_flag_or_else_by_the_environment() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for (name, text) in [("one", r#"{ "vus": 1 }"#), ("two", r#"{ "vus": 2 }"#), ("bad", "{")] {
            std::fs::write(path(name), text).unwrap();
        }
        let read = |typed: &[&str]| {
            let variable = |name: &str| (name == "K6_CONFIG").then(|| path("one"));
            let file = args(typed).more.config_file(&variable);
            file.map(|file| file.options.vus).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(read(&[]), Ok(Some(1)));
        assert_eq!(read(&["-c", &path("two")]), Ok(Some(2)));
        for name in ["bad", "none"] {
            let error = read(&["--config", &path(name)]).unwrap_err();
            assert!(error.contains(&path(name)), "{error}");
        }
    }

    #[test]
    fn lists_may_be_one_text_or_several_flags() {
        assert_eq!(args(&["--stage", "1s:1,2s:2", "-s", "3s:3"]).stages.len(), 3);
        let tags = |flags: &[&str]| {
            let mut layer = Layer::default();
            args(flags).more.set(&mut layer).unwrap();
            layer.system_tags
        };
        let both = tags(&["--system-tags", "url,status"]);
        assert_eq!(tags(&["--system-tags", "url", "--system-tags=status"]), both);
        assert_ne!(tags(&["--system-tags=status"]), both);
        args(&["--compatibility-mode=experimental_enhanced"]);
    }

    #[test]
    fn secrets_and_headers_come_from_the_environment() {
        let wrong = |typed: &[&str]| {
            let variable = |name: &str| (name == "K6_SECRET_SOURCE").then(|| "nope".to_owned());
            args(typed).more.secrets(&variable).is_err()
        };
        assert!(wrong(&[]) && !wrong(&["--secret-source=mock=a=b"]));
        let variables = ["K6_PROMETHEUS_RW_HEADERS_X-Scope", "K6_PROMETHEUS_RW_HEADERS_", "PATH"];
        let variables = variables.map(|name| (name.to_owned(), "a".to_owned()));
        assert_eq!(headers(variables.into_iter()), [("X-Scope".to_owned(), "a".to_owned())]);
    }
}
