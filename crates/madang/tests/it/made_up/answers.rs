//! What comes back, read strictly: anything that is no well-formed answer is a finding.

use serde_json::Value;

/// One answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub closes: bool,
    /// Bytes of the buffer that it took.
    pub length: usize,
}

/// Reads the first answer of a buffer; nothing while it is not complete. Those before the last (1xx) are passed over.
pub fn read(bytes: &[u8], to_head: bool, is_end: bool) -> Result<Option<Answer>, String> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no text")?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default())?;
    let (mut length, mut chunked, mut closes, mut kind, mut waits) =
        (None, false, false, "", false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("a header {line:?}"))?;
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty()
            || !name.bytes().all(is_token)
            || value.contains(|c: char| c.is_control() && c != '\t')
        {
            return Err(format!("a header {line:?}"));
        }
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let parsed = value.parse::<usize>().map_err(|_| format!("a length {value:?}"))?;
                if length.replace(parsed).is_some() {
                    return Err("two lengths".to_owned());
                }
            }
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => closes = value.eq_ignore_ascii_case("close"),
            "content-type" => kind = value,
            "retry-after" => waits = value.parse::<u32>().is_ok_and(|seconds| seconds > 0),
            _ => {}
        }
    }
    let start = end + 4;
    if status < 200 {
        let rest = read(&bytes[start..], to_head, is_end)?;
        return Ok(rest.map(|answer| Answer { length: answer.length + start, ..answer }));
    }
    if chunked && length.is_some() {
        return Err("a length and chunks".to_owned());
    }
    let has_none = to_head || matches!(status, 204 | 304);
    let body = match length {
        _ if has_none => Some(&[][..]),
        Some(length) => bytes.get(start..start + length),
        None if chunked => return Err("a body in chunks, which no answer here needs".to_owned()),
        None if closes => is_end.then(|| &bytes[start..]),
        None => return Err("a body without an end".to_owned()),
    };
    let Some(body) = body else { return Ok(None) };
    if !has_none {
        check(status, kind, waits, body)?;
    }
    // The HTTP library closes after what it cannot read, and need not say so.
    let closes = closes || status >= 400 && body.is_empty() && !has_none;
    Ok(Some(Answer { status, closes, length: start + body.len() }))
}

fn status(line: &str) -> Result<u16, String> {
    let wrong = || format!("a status line {line:?}");
    let rest = line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| line.strip_prefix("HTTP/1.0 "))
        .ok_or_else(wrong)?;
    let status = rest.get(..3).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    if (100..600).contains(&status) { Ok(status) } else { Err(wrong()) }
}

/// What a refusal must say.
fn check(status: u16, kind: &str, waits: bool, body: &[u8]) -> Result<(), String> {
    if matches!(status, 429 | 503) && !waits {
        return Err(format!("{status} without Retry-After"));
    }
    if status >= 500 && !matches!(status, 501 | 503 | 504 | 505) {
        return Err(format!("{status}: {}", String::from_utf8_lossy(body)));
    }
    // The HTTP library refuses what it cannot read as HTTP, without words.
    if status < 400 || body.is_empty() && matches!(status, 400 | 414 | 431 | 505) {
        return Ok(());
    }
    let problem: Value =
        serde_json::from_slice(body).map_err(|error| format!("{status} is no JSON: {error}"))?;
    if kind != "application/problem+json"
        || problem["status"] != status
        || !problem["type"].is_string()
    {
        return Err(format!("{status} is no problem: {kind} {problem}"));
    }
    Ok(())
}
