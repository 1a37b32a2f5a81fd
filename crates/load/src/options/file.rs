//! The file of `--config`: options below those of all other sources.

use serde_json::Value;

use super::script::{Result, boolean, list, object, read_option};
use super::{Layer, OptionsError, all};

/// Keys of k6's file without effect in a local run.
const WITHOUT_EFFECT: &[&str] = &["collectors", "noArchiveUpload", "webDashboard"];

/// The contents of a file of settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigFile {
    /// Options below those of the script.
    pub options: Layer,
    /// Outputs for single values (`out`), used unless another source names outputs.
    pub outputs: Vec<String>,
}

impl ConfigFile {
    /// Reads k6's JSON: options by their names in scripts, and `out`.
    ///
    /// # Errors
    /// If the text is no JSON object, or a key or value cannot be used.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |error: serde_json::Error| OptionsError::invalid("--config", error.to_string());
        let json: Value = serde_json::from_str(text).map_err(wrong)?;
        let mut file = Self::default();
        let read = |(key, value): (&String, &Value)| {
            match &**key {
                _ if value.is_null() => {}
                "out" => {
                    file.outputs = list(key, value)?.into_iter().map(str::to_owned).collect();
                }
                "linger" if !boolean(key, value)? => {}
                idle if WITHOUT_EFFECT.contains(&idle) => {}
                _ => read_option(&mut file.options, key, value)?,
            }
            Ok(())
        };
        all(object("--config", &json)?.iter().map(read))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_outputs_are_read() {
        let file = ConfigFile::parse(
            r#"{ "vus": 3, "userAgent": null, "out": ["json=a.json"], "linger": false,
                 "collectors": { "cloud": {} }, "noUsageReport": true }"#,
        );
        let options = Layer { vus: Some(3), ..Layer::default() };
        assert_eq!(file, Ok(ConfigFile { options, outputs: vec!["json=a.json".to_owned()] }));
    }

    #[test]
    fn unusable_files_are_refused() {
        for (text, named) in [
            ("vus: 3", "--config"),
            ("[]", "an object is expected"),
            (r#"{ "vsu": 3 }"#, "unknown option `vsu`"),
            (r#"{ "linger": true }"#, "option `linger` is not supported yet"),
            (r#"{ "out": 3 }"#, "option `out`"),
            (r#"{ "vus": -1 }"#, "option `vus`"),
        ] {
            let error = ConfigFile::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
