//! Replies of RESP, version 2.

use bytes::BytesMut;

/// Most bytes of one reply.
const MAX_BYTES: usize = 64 << 20;

/// Most members of all lists of one reply: each takes more memory than its bytes.
const MAX_MEMBERS: usize = 1 << 20;

/// Lists in lists of one reply.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Vec<u8>),
    Number(i64),
    Nil,
    Error(String),
    List(Vec<Self>),
}

/// The bytes of a reply are not RESP, or too many.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reply is malformed, or larger than {} MiB", MAX_BYTES >> 20)]
pub(crate) struct Malformed;

/// Reads one reply from bytes that come in pieces. Each byte is looked at once, however small the pieces.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: BytesMut,
    /// Length of the start of `bytes` that contains no line end.
    searched: usize,
    /// Length of the string that comes next.
    text: Option<usize>,
    /// Nested lists, each with the number of missing members.
    lists: Vec<(Vec<Reply>, usize)>,
    /// Number of members of all lists so far.
    members: usize,
    /// Number of bytes before `bytes`.
    taken: usize,
}

impl Reader {
    /// Buffer for the next bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        self.bytes.reserve(4096);
        &mut self.bytes
    }

    /// The reply, once it is complete.
    ///
    /// # Errors
    /// If the bytes are no reply, exceed [`MAX_BYTES`], or go on after the reply: no more was requested.
    pub(super) fn reply(&mut self) -> Result<Option<Reply>, Malformed> {
        if self.taken + self.bytes.len() > MAX_BYTES {
            return Err(Malformed);
        }
        while let Some(part) = self.part()? {
            if let Some(reply) = self.complete(part) {
                return if self.bytes.is_empty() { Ok(Some(reply)) } else { Err(Malformed) };
            }
        }
        Ok(None)
    }

    /// The next part: a reply that is no list, or a list without its members.
    fn part(&mut self) -> Result<Option<Part>, Malformed> {
        if let Some(length) = self.text {
            return Ok(self.text(length)?.map(|text| Part::Whole(Reply::Text(text))));
        }
        let Some(line) = self.line() else { return Ok(None) };
        let (kind, rest) = line.split_first().ok_or(Malformed)?;
        Ok(Some(Part::Whole(match kind {
            b'+' => Reply::Text(rest.to_vec()),
            b'-' => Reply::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Reply::Number(number(rest)?),
            b'$' | b'*' if rest == b"-1" => Reply::Nil,
            b'$' => {
                self.text = Some(length(rest)?);
                return self.part();
            }
            b'*' => return Ok(Some(Part::List(self.members(length(rest)?)?))),
            _ => return Err(Malformed),
        })))
    }

    fn members(&mut self, count: usize) -> Result<usize, Malformed> {
        self.members = self.members.saturating_add(count);
        let is_too_much = self.members > MAX_MEMBERS || self.lists.len() == MAX_DEPTH;
        if is_too_much { Err(Malformed) } else { Ok(count) }
    }

    /// Adds a part; returns the reply if it is complete.
    fn complete(&mut self, part: Part) -> Option<Reply> {
        let mut reply = match part {
            Part::Whole(reply) => reply,
            Part::List(0) => Reply::List(Vec::new()),
            Part::List(wanted) => {
                // No space is reserved: the length may be wrong.
                self.lists.push((Vec::new(), wanted));
                return None;
            }
        };
        while let Some((mut list, wanted)) = self.lists.pop() {
            list.push(reply);
            if wanted > 1 {
                self.lists.push((list, wanted - 1));
                return None;
            }
            reply = Reply::List(list);
        }
        Some(reply)
    }

    /// Reads a string of this length and its line end.
    fn text(&mut self, length: usize) -> Result<Option<Vec<u8>>, Malformed> {
        if length > MAX_BYTES {
            return Err(Malformed);
        }
        if self.bytes.len() < length + 2 {
            return Ok(None);
        }
        self.text = None;
        let text = self.take(length + 2);
        Ok(Some(text.strip_suffix(b"\r\n").ok_or(Malformed)?.to_vec()))
    }

    /// Reads the next line, without its end.
    fn line(&mut self) -> Option<BytesMut> {
        let rest = &self.bytes[self.searched..];
        let Some(at) = rest.windows(2).position(|end| end == b"\r\n") else {
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let length = self.searched + at;
        self.searched = 0;
        let mut line = self.take(length + 2);
        line.truncate(length);
        Some(line)
    }

    fn take(&mut self, length: usize) -> BytesMut {
        self.taken += length;
        self.bytes.split_to(length)
    }
}

/// A value, or the start of a list.
enum Part {
    Whole(Reply),
    /// Number of members.
    List(usize),
}

fn length(text: &[u8]) -> Result<usize, Malformed> {
    usize::try_from(number(text)?).map_err(|_| Malformed)
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

/// Reads a reply from bytes in pieces of this length.
#[cfg(any(test, feature = "fuzzing"))]
fn read(bytes: &[u8], piece: usize) -> Result<Option<Reply>, Malformed> {
    let (mut reader, mut reply) = (Reader::default(), None);
    for piece in bytes.chunks(piece) {
        if reply.is_some() {
            return Err(Malformed);
        }
        reader.buffer().extend_from_slice(piece);
        reply = reader.reply()?;
    }
    Ok(reply)
}

/// Fuzz target: the pieces in which bytes arrive make no difference.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, 1), whole);
    assert_eq!(read(bytes, 7), whole);
    if whole.is_ok_and(|reply| reply.is_some()) {
        assert_eq!(read(&bytes[..bytes.len() - 1], bytes.len()), Ok(None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_when_they_are_complete() {
        let text = |text: &str| Reply::Text(text.into());
        let nested = Reply::List(vec![text("a\r\n"), Reply::Nil, Reply::List(vec![])]);
        let deep = Reply::List(vec![Reply::List(vec![Reply::Number(1)]), Reply::Number(2)]);
        for (bytes, expected) in [
            ("+OK\r\n", text("OK")),
            ("+a\rb\r\n", text("a\rb")),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
            (":-12\r\n", Reply::Number(-12)),
            ("$-1\r\n", Reply::Nil),
            ("$0\r\n\r\n", text("")),
            ("*-1\r\n", Reply::Nil),
            ("*3\r\n$3\r\na\r\n\r\n$-1\r\n*0\r\n", nested),
            ("*2\r\n*1\r\n:1\r\n:2\r\n", deep),
        ] {
            for piece in [1, 2, 3, bytes.len()] {
                let reply = read(bytes.as_bytes(), piece);
                assert_eq!(reply, Ok(Some(expected.clone())), "{bytes:?} by {piece}");
                let longer = format!("{bytes}+next\r\n");
                assert_eq!(read(longer.as_bytes(), piece), Err(Malformed), "not requested");
            }
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes.as_bytes()[..end], 1), Ok(None), "{bytes:?} to {end}");
            }
        }
    }

    /// If every piece led to a look at all bytes so far, this would take minutes.
    #[test]
    fn a_long_list_in_small_pieces_is_read_once() {
        let count = 200_000;
        let bytes = format!("*{count}\r\n{}", ":1\r\n".repeat(count));
        let Ok(Some(Reply::List(list))) = read(bytes.as_bytes(), 1) else { panic!("a list") };
        assert_eq!(list.len(), count);
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        for bytes in
            ["\r\n", "?\r\n", ":x\r\n", "$-2\r\n", "$1\r\nab\r\n", "$99999999999\r\n", &deep]
        {
            assert_eq!(read(bytes.as_bytes(), bytes.len()), Err(Malformed), "{bytes:?}");
        }
    }
}
