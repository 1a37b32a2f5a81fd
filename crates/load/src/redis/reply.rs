//! Replies of RESP, version 2.

/// Most bytes of one reply.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// Most members of all lists of one reply: each takes more memory than its bytes.
const MAX_MEMBERS: usize = 1 << 20;

/// Lists in lists of one reply.
const MAX_DEPTH: usize = 32;

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Number(i64),
    Nil,
    Error(String),
    List(Vec<Self>),
}

/// The bytes of a reply are not those of RESP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Reply {
    /// The reply at the start of these bytes and its length; `None` when they end before it does.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut parser = Parser { bytes, at: 0, members: 0 };
        let reply = parser.reply(0)?;
        Ok(reply.map(|reply| (reply, parser.at)))
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Of all lists so far.
    members: usize,
}

impl<'a> Parser<'a> {
    fn reply(&mut self, depth: usize) -> Result<Option<Reply>, Malformed> {
        let Some(line) = self.line() else { return Ok(None) };
        let (kind, rest) = line.split_first().ok_or(Malformed)?;
        match kind {
            b'+' => Ok(Some(Reply::Text(rest.to_vec()))),
            b'-' => Ok(Some(Reply::Error(String::from_utf8_lossy(rest).into_owned()))),
            b':' => Ok(Some(Reply::Number(number(rest)?))),
            b'$' | b'*' if rest == b"-1" => Ok(Some(Reply::Nil)),
            b'$' => self.text(length(rest)?),
            b'*' if depth < MAX_DEPTH => self.list(length(rest)?, depth),
            _ => Err(Malformed),
        }
    }

    fn text(&mut self, length: usize) -> Result<Option<Reply>, Malformed> {
        if length > MAX_BYTES {
            return Err(Malformed);
        }
        let end = self.at + length + 2;
        let Some(text) = self.bytes.get(self.at..end) else { return Ok(None) };
        self.at = end;
        Ok(Some(Reply::Text(text.strip_suffix(b"\r\n").ok_or(Malformed)?.to_vec())))
    }

    fn list(&mut self, length: usize, depth: usize) -> Result<Option<Reply>, Malformed> {
        // The length is only believed as far as there are members.
        let mut list = Vec::new();
        for _ in 0..length {
            self.members += 1;
            if self.members > MAX_MEMBERS {
                return Err(Malformed);
            }
            let Some(member) = self.reply(depth + 1)? else { return Ok(None) };
            list.push(member);
        }
        Ok(Some(Reply::List(list)))
    }

    /// The next line without its end.
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.windows(2).position(|end| end == b"\r\n")?;
        self.at += length + 2;
        Some(&rest[..length])
    }
}

fn length(text: &[u8]) -> Result<usize, Malformed> {
    usize::try_from(number(text)?).map_err(|_| Malformed)
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

/// Any bytes: only a whole reply is one, whatever follows it.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Ok(Some((reply, length))) = Reply::parse(bytes) else { return };
    assert_eq!(Reply::parse(&bytes[..length - 1]), Ok(None));
    assert_eq!(Reply::parse(&bytes[..length]), Ok(Some((reply, length))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_when_they_are_complete() {
        let text = |text: &str| Reply::Text(text.into());
        let nested = Reply::List(vec![text("a\r\n"), Reply::Nil, Reply::List(vec![])]);
        for (bytes, expected) in [
            ("+OK\r\n", text("OK")),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
            (":-12\r\n", Reply::Number(-12)),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("*3\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n", nested),
        ] {
            let whole = format!("{bytes}+next\r\n");
            assert_eq!(Reply::parse(whole.as_bytes()), Ok(Some((expected, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(Reply::parse(&bytes.as_bytes()[..end]), Ok(None), "{bytes:?} to {end}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_rejected() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        for bytes in
            ["\r\n", "?\r\n", ":x\r\n", "$-2\r\n", "$1\r\nab\r\n", "$99999999999\r\n", &deep]
        {
            assert_eq!(Reply::parse(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
    }
}
