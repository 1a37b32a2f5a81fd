//! k6's environment variables. Each sets an option or is refused by its name. Variables left out here have no effect:
//! those for colours, the cloud, the browser, extensions, settings of outputs and k6's internals. Names unknown to k6
//! are ignored, because they may be a script's own.

use serde_json::Value;

use super::layer::OPTIONS;
use super::script::{Result, pairs, read_option};
use super::{Layer, OptionsError, all};
use crate::http::Proxies;

/// The alternative to variables whose option exists.
const OPTION: &str = "the script's options and --config have it";

/// Variables of k6 that are not supported, and the alternative. k6 itself ignores K6_HOSTS, K6_THRESHOLDS and
/// K6_TLS_VERSION, but a user who sets them expects an effect: the options exist.
const MISSING: &[(&str, &str)] = &[
    ("K6_EXIT_ON_RUNNING", ""),
    ("K6_HOSTS", OPTION),
    ("K6_LINGER", "there is no server that could stay"),
    ("K6_LOCAL_IPS", "requests come from the address that the system chooses"),
    ("K6_NEW_MACHINE_READABLE_SUMMARY", "--report FILE writes everything measured as JSON"),
    ("K6_PAUSED", "there is no server through which it could go on"),
    ("K6_THRESHOLDS", OPTION),
    ("K6_TLSAUTH", OPTION),
    ("K6_TLS_CIPHER_SUITES", OPTION),
    ("K6_TLS_VERSION", OPTION),
    ("K6_TRACES_OUTPUT", "nothing is traced"),
    ("K6_TYPE", "run the script itself: archives are not read"),
    ("K6_WEB_DASHBOARD", "--html FILE writes everything measured as one page"),
];

/// True for values of unsupported variables that ask for the default.
fn changes_nothing(name: &str, value: &str) -> bool {
    match name {
        "K6_TYPE" => value == "js",
        "K6_TRACES_OUTPUT" => value == "none",
        "K6_EXIT_ON_RUNNING"
        | "K6_LINGER"
        | "K6_NEW_MACHINE_READABLE_SUMMARY"
        | "K6_PAUSED"
        | "K6_WEB_DASHBOARD" => matches!(value, "0" | "f" | "false" | "False" | "FALSE"),
        _ => false,
    }
}

impl Layer {
    /// Reads the environment variables k6 reads (`K6_VUS`, `K6_DURATION`, …).
    ///
    /// # Errors
    /// For a value that cannot be used, or a variable that is not supported.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable = |name: &str| variable(name).filter(|text| !text.is_empty());
        let mut layer = Self::default();
        let missing = MISSING.iter().map(|(name, instead)| match variable(name) {
            Some(value) if !changes_nothing(name, &value) => {
                let what = format!("the environment variable `{name}`");
                Err(OptionsError::unsupported(what, instead))
            }
            _ => Ok(()),
        });
        let with_variable = OPTIONS.iter().filter(|(_, name)| !name.is_empty());
        let read = with_variable.map(|(option, name)| {
            let Some(text) = variable(name) else { return Ok(()) };
            layer.set(option, &text).map_err(|error| match error {
                OptionsError::Invalid { problem, .. } => OptionsError::invalid(*name, problem),
                other => other,
            })
        });
        all(missing.chain(read))?;
        let proxies = Proxies::from_environment(variable);
        layer.proxies = Some(proxies).filter(|proxies| *proxies != Proxies::default());
        Ok(layer)
    }

    /// Sets an option by name (`batchPerHost`, `dns`, …) from the text of k6's variable or flag for it.
    ///
    /// # Errors
    /// For an unknown name or a value that cannot be used.
    pub fn set(&mut self, option: &str, text: &str) -> Result<()> {
        read_option(self, option, &value(option, text)?)
    }
}

/// The text of a variable in the form the option has in a script.
fn value(option: &str, text: &str) -> Result<Value> {
    let is_switch = Layer::default().read(option, &Value::Bool(true)).is_ok_and(|known| known);
    Ok(match option {
        _ if is_switch => match text {
            "1" | "t" | "true" | "TRUE" => Value::from(true),
            "0" | "f" | "false" | "FALSE" => Value::from(false),
            _ => Value::from(text),
        },
        "summaryTrendStats" => Value::from(text.split(',').map(str::trim).collect::<Vec<_>>()),
        "tags" => tags(text)?,
        _ => Value::from(text),
    })
}

/// Parses `name:value,name:value`.
fn tags(text: &str) -> Result<Value> {
    let wrong = || OptionsError::invalid("tags", format!("`{text}` is not NAME:VALUE,NAME:VALUE"));
    let tags = pairs(text, ':').ok_or_else(wrong)?;
    Ok(tags.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn one(name: &str, value: &str) -> Result<Layer> {
        Layer::from_environment(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn environment_variables_are_read_by_their_k6_names() {
        let variables = |name: &str| match name {
            "K6_VUS" => Some("12".to_owned()),
            "K6_DURATION" => Some("1m".to_owned()),
            "K6_STAGES" => Some("5s:10,10s:0".to_owned()),
            "K6_TAGS" => Some("a:b,c:d:e".to_owned()),
            _ => None,
        };
        let layer = Layer::from_environment(variables).unwrap();
        assert_eq!((layer.vus, layer.duration), (Some(12), Some(Duration::from_secs(60))));
        assert_eq!(layer.stages.unwrap().len(), 2);
        let tags = [("a", "b"), ("c", "d:e")];
        assert_eq!(layer.tags, tags.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_wrong_environment_variable_is_named() {
        for (name, value) in [("K6_VUS", "many"), ("K6_TAGS", "a:b,c")] {
            let error = one(name, value).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn unsupported_variables_are_refused_by_name() {
        for (name, instead) in MISSING {
            let expected = format!("the environment variable `{name}` is not supported yet");
            let error = one(name, "1").unwrap_err().to_string();
            assert!(error.starts_with(&expected) && error.ends_with(instead), "{error}");
            assert_eq!(one(name, ""), Ok(Layer::default()));
        }
        for (name, value) in
            [("K6_PAUSED", "false"), ("K6_TRACES_OUTPUT", "none"), ("K6_TYPE", "js")]
        {
            assert_eq!(one(name, value), Ok(Layer::default()), "{name}");
        }
    }

    #[test]
    fn every_wrong_variable_is_reported() {
        let variable = |name: &str| match name {
            "K6_VUS" | "K6_HOSTS" | "K6_TLSAUTH" | "K6_DURATION" => Some("many".to_owned()),
            _ => None,
        };
        let error = Layer::from_environment(variable).unwrap_err().to_string();
        for name in ["K6_VUS", "K6_HOSTS", "K6_TLSAUTH", "K6_DURATION"] {
            assert!(error.lines().any(|line| line.contains(name)), "{error}");
        }
        assert_eq!(error.lines().count(), 4, "{error}");
    }

    /// All of them, after `envconfig` in k6 1.8.1 and the look-ups of its commands; without variables of flags that
    /// are no options, such as `K6_OUT`, which are read with the flag.
    #[test]
    fn every_option_of_k6_that_a_variable_sets_is_known() {
        for name in "BATCH BATCH_PER_HOST BLACKLIST_IPS BLOCK_HOSTNAMES \
                     DISCARD_RESPONSE_BODIES DNS DURATION HOSTS HTTP_DEBUG INSECURE_SKIP_TLS_VERIFY \
                     ITERATIONS LINGER LOCAL_IPS MAX_REDIRECTS MIN_ITERATION_DURATION \
                     NO_CONNECTION_REUSE NO_COOKIES_RESET NO_SETUP NO_TEARDOWN \
                     NO_VU_CONNECTION_REUSE PAUSED RPS SETUP_TIMEOUT STAGES \
                     SUMMARY_TIME_UNIT SUMMARY_TREND_STATS SYSTEM_TAGS \
                     TAGS TEARDOWN_TIMEOUT THRESHOLDS THROW TLSAUTH TLS_CIPHER_SUITES USER_AGENT VUS"
            .split_whitespace()
        {
            let name = format!("K6_{name}");
            let read = OPTIONS.iter().any(|(_, known)| *known == name);
            assert!(read || MISSING.iter().any(|(missing, _)| *missing == name), "{name}");
        }
    }
}
