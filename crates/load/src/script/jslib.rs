//! Libraries that scripts import from `jslib.k6.io`, built in: a run needs no network, and no version can change
//! under it. They are written anew; only Papa Parse, and Chai in k6chaijs, are as npm has them.

/// The start of all addresses; name, version and `/index.js` follow.
const HOST: &str = "https://jslib.k6.io/";

/// Makes a CommonJS module, such as Chai and Papa Parse, usable inside an ES module.
const COMMONJS: &str = "const module = { exports: {} }, exports = module.exports;";

const PAPAPARSE_EXPORTS: &str =
    "export default module.exports; export const { parse, unparse } = module.exports;";

/// The name of the library at `address`; empty for other addresses.
fn name(address: &str) -> &str {
    let path = address.strip_prefix(HOST).and_then(|rest| rest.strip_suffix("/index.js"));
    let Some((name, version)) = path.and_then(|path| path.split_once('/')) else { return "" };
    let is_version =
        !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_version { name } else { "" }
}

/// True for the library `url`, which is not written in JavaScript alone.
pub(super) fn is_url(address: &str) -> bool {
    name(address) == "url"
}

/// The parts of the library at `address`, the same for all versions; empty when it is not built in.
fn parts(address: &str) -> &'static [&'static str] {
    match name(address) {
        "formdata" => &[include_str!("jslib/formdata.js")],
        "httpx" => &[include_str!("jslib/httpx.js")],
        "k6-utils" => {
            &[include_str!("jslib/k6_utils_stages.js"), include_str!("jslib/k6_utils.js")]
        }
        "k6chaijs" => {
            &[COMMONJS, include_str!("jslib/chai.min.js"), include_str!("jslib/k6chaijs.js")]
        }
        "k6-summary" => &[include_str!("jslib/k6_summary.js")],
        "papaparse" => &[COMMONJS, include_str!("jslib/papaparse.min.js"), PAPAPARSE_EXPORTS],
        _ => &[],
    }
}

pub(super) fn is_built_in(address: &str) -> bool {
    is_url(address) || !parts(address).is_empty()
}

pub(super) fn source(address: &str) -> String {
    parts(address).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_some_libraries_is_built_in_and_nothing_else_is() {
        for name in [
            "k6-utils/1.4.0", "k6-summary/0.0.2", "k6-summary/0.1.0", "papaparse/5.1.1",
            "url/1.0.0", "k6chaijs/4.3.4.3",
        ] {
            assert!(is_built_in(&format!("https://jslib.k6.io/{name}/index.js")), "{name}");
        }
        for address in [
            "https://jslib.k6.io/k6-utils//index.js",
            "https://jslib.k6.io/k6-utils/1.4.0/other.js",
            "https://jslib.k6.io/k6-utils/../x/index.js",
            "https://jslib.k6.io/k6-testing/0.5.0/index.js",
            "https://evil.example/k6-utils/1.4.0/index.js",
        ] {
            assert!(!is_built_in(address), "{address}");
        }
    }
}
