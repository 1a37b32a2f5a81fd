/// Escapes text between tags or in a quoted attribute.
pub(crate) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in HTML.
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Escapes JSON in a `script` element, where `</script` and `<!--` have a meaning. JSON has `<` only in strings.
pub(crate) fn json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_can_be_a_tag_or_end_an_attribute() {
        assert_eq!(text("<b a='\"'>&\u{1}"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn embedded_json_stays_the_same_json() {
        let value = serde_json::json!({"a</script>": "<!-- é"});
        let embedded = json(&value.to_string());
        assert!(!embedded.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&embedded).unwrap(), value);
    }
}
