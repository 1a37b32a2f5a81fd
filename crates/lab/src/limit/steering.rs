//! Whether a script takes the rate of a search itself.

use serde::{Deserialize, Serialize};

/// How the rate gets to the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// The script reads `__ENV.RATE` and does the rest.
    Script,
    /// The generator starts the script's default function at the rate.
    Generator,
}

impl Steering {
    /// By what stands in the script itself, not in what it imports.
    pub(super) fn of(script: &str) -> Self {
        let script = without_comments(script);
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let name = |after: &str| {
            let ends = |rest: &str| !rest.starts_with(is_name);
            let after = after.strip_prefix('?').unwrap_or(after);
            after.strip_prefix(".RATE").is_some_and(ends)
                || ["['RATE']", "[\"RATE\"]"].iter().any(|index| after.starts_with(index))
                || [".['RATE']", ".[\"RATE\"]"].iter().any(|index| after.starts_with(index))
        };
        // `const { RATE, USERS } = __ENV`
        let taken_apart = |before: &str| {
            let pattern = before.trim_end().strip_suffix('=').map(str::trim_end);
            let pattern = pattern.and_then(|before| before.strip_suffix('}')?.rsplit_once('{'));
            pattern
                .is_some_and(|(_, names)| names.split(|c| !is_name(c)).any(|name| name == "RATE"))
        };
        let mut parts = script.split("__ENV");
        let mut before = parts.next().unwrap_or_default();
        let reads = parts.any(|after| {
            let reads = name(after) || taken_apart(before);
            before = after;
            reads
        });
        if reads { Self::Script } else { Self::Generator }
    }
}

/// A script with its comments left out, but not what stands in a text such as `"*/*"`. What a regular
/// expression has in it is taken for code, so that a quote in one hides at most the comments of its line.
fn without_comments(script: &str) -> String {
    let mut code = String::with_capacity(script.len());
    let mut text_until: Option<char> = None;
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let comment = text_until.is_none().then(|| {
            let line = rest.strip_prefix("//").map(|rest| (rest, "\n"));
            line.or_else(|| rest.strip_prefix("/*").map(|rest| (rest, "*/")))
        });
        if let Some((inside, end)) = comment.flatten() {
            code.push(' ');
            rest = inside.split_once(end).map_or("", |(_, after)| after);
            continue;
        }
        let mut taken = c.len_utf8();
        match text_until {
            _ if c == '\\' => taken += rest[taken..].chars().next().map_or(0, char::len_utf8),
            None if matches!(c, '\'' | '"' | '`') => text_until = Some(c),
            Some(quote) if c == quote || (c == '\n' && quote != '`') => text_until = None,
            _ => {}
        }
        code.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_reads_the_rate_is_known_from_one_that_does_not() {
        let reads = ["rate: __ENV.RATE,", "+__ENV.RATE", "__ENV['RATE']", "__ENV[\"RATE\"] || 1"];
        assert!(reads.iter().all(|script| Steering::of(script) == Steering::Script));
        let apart = ["const { RATE } = __ENV;", "let {VUS, RATE: rate = 5}=__ENV", "__ENV?.RATE"];
        assert!(apart.iter().all(|script| Steering::of(script) == Steering::Script));
        let others = [
            "",
            "RATE",
            "__ENV.RATES",
            "__ENV.BASE_URL + RATE",
            "__ENV.RATE_2",
            "// as __ENV.RATE says\nx()",
            "/* __ENV.RATE */",
            "const { RATES } = __ENV",
        ];
        let url = "const u = 'http://127.0.0.1'; const r = __ENV.RATE;";
        assert_eq!(Steering::of(url), Steering::Script);
        assert!(others.iter().all(|script| Steering::of(script) == Steering::Generator));
    }

    #[test]
    fn what_stands_in_a_text_begins_no_comment_and_ends_none() {
        let reads = [
            "const h = { Accept: '*/*' }, all = '/*'; rate: __ENV.RATE",
            "const u = \"http://x\" + '//y'; const r = __ENV.RATE;",
            "const u = `//\n//${__ENV.RATE}`",
            r"const q = 'it\'s // '; __ENV.RATE",
            r"const slashes = /^https?:\/\//; __ENV.RATE",
            "// don't\nconst r = __ENV.RATE",
            "/* \" */ __ENV.RATE",
            "/*/ ' */ __ENV.RATE",
        ];
        for script in reads {
            assert_eq!(Steering::of(script), Steering::Script, "{script}");
        }
        let others = [
            "const all = '*/*'; // __ENV.RATE",
            "const u = \"http://x\"; /* __ENV.RATE */",
            "const u = 'open\n// __ENV.RATE",
            "x(`a`) // `__ENV.RATE",
            "/*/ __ENV.RATE */",
            "/* __ENV.RATE",
        ];
        for script in others {
            assert_eq!(Steering::of(script), Steering::Generator, "{script}");
        }
    }
}
