//! Frames and messages (RFC 6455 §5), with the checks and messages of gorilla/websocket, which k6 uses.

use thiserror::Error;

use super::{MAX_MESSAGE_BYTES, deflate};

/// Payload of one frame to send; gorilla's write buffer. Longer messages are sent in fragments.
const FRAGMENT_BYTES: usize = 4096;

/// Capacity of an empty buffer that is kept for the next message; an idle socket holds no more.
const KEPT_BUFFER_BYTES: usize = 256;

/// Space reserved for the declared length of a frame.
const TRUSTED_BYTES: usize = 64 * 1024;

const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const CONTINUATION: u8 = 0;

/// Kinds of messages to send, by their numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Not checked for UTF-8, as in k6.
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

/// Reason why reading or writing ended, in gorilla's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum End {
    /// The server closed; 1006 when it did so without a close frame.
    #[error("{}", describe(*code, text))]
    Closed { code: u16, text: String },
    /// The server broke the protocol.
    #[error("websocket: {0}")]
    Protocol(String),
    /// A message is larger than [`MAX_MESSAGE_BYTES`].
    #[error("websocket: read limit exceeded")]
    TooLarge,
    #[error("websocket: close sent")]
    CloseSent,
    #[error("{0}")]
    Failed(String),
}

impl End {
    /// The end of the stream where a frame was expected.
    pub(super) fn eof() -> Self {
        Self::Closed { code: 1006, text: "unexpected EOF".to_owned() }
    }

    /// True if k6 reports it as an error. It does not report a broken protocol; a message beyond the limit is an
    /// error here, because the limit is this engine's.
    pub(crate) fn is_unexpected(&self) -> bool {
        match self {
            Self::Closed { code, .. } => !matches!(code, 1000 | 1001),
            Self::TooLarge => true,
            Self::Protocol(_) | Self::CloseSent | Self::Failed(_) => false,
        }
    }
}

fn describe(code: u16, text: &str) -> String {
    let name = match code {
        1000 => " (normal)",
        1001 => " (going away)",
        1002 => " (protocol error)",
        1003 => " (unsupported data)",
        1005 => " (no status)",
        1006 => " (abnormal closure)",
        1007 => " (invalid payload data)",
        1008 => " (policy violation)",
        1009 => " (message too big)",
        1010 => " (mandatory extension missing)",
        1011 => " (internal server error)",
        1015 => " (TLS handshake error)",
        _ => "",
    };
    let separator = if text.is_empty() { "" } else { ": " };
    format!("websocket: close {code}{name}{separator}{text}")
}

/// Payload of a close frame; 1005 stands for none.
pub(crate) fn close_payload(code: u16, text: &str) -> Vec<u8> {
    match code {
        1005 => Vec::new(),
        _ => [&code.to_be_bytes(), text.as_bytes()].concat(),
    }
}

/// Appends a message to `out`, masked, in as many frames as k6 uses. A `compressed` payload is a result of
/// [`deflate::compress`].
pub(super) fn encode(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], compressed: bool) {
    let mut first = opcode as u8 | if compressed { COMPRESSED } else { 0 };
    let mut rest = payload;
    loop {
        let (fragment, after) = rest.split_at(rest.len().min(FRAGMENT_BYTES));
        rest = after;
        let last = if rest.is_empty() { FINAL } else { 0 };
        encode_frame(out, first | last, fragment);
        if rest.is_empty() {
            return;
        }
        first = CONTINUATION;
    }
}

fn encode_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    const MASKED: u8 = 0x80;
    out.push(first);
    // A fragment's length always fits into 16 bits.
    match payload.len() {
        length @ ..126 => out.push(MASKED | length as u8),
        length => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    let key = fastrand::u32(..).to_ne_bytes();
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    for chunk in out[start..].chunks_mut(key.len()) {
        chunk.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    }
}

struct Header {
    opcode: u8,
    is_final: bool,
    is_compressed: bool,
    payload: u64,
    /// Length of the header itself.
    length: usize,
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    pub(super) inflates: bool,
    /// Unused bytes are `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
    message: Vec<u8>,
    /// Opcode of the message whose fragments are being read; 0 for none.
    opcode: u8,
    is_compressed: bool,
    /// Bytes of the current data frame still to come.
    frame_left: Option<u64>,
    is_last_frame: bool,
}

impl Decoder {
    /// `inflates`: `permessage-deflate` was negotiated.
    pub(super) fn new(inflates: bool) -> Self {
        Self { inflates, ..Self::default() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message; `None` when more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Incoming>, End> {
        loop {
            let found = match self.frame_left {
                Some(left) => self.take_payload(left)?,
                None => self.take_frame()?,
            };
            match found {
                Step::Message(message) => return Ok(Some(message)),
                Step::Again => {}
                Step::NeedsMore => {
                    self.compact();
                    return Ok(None);
                }
            }
        }
    }

    fn available(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
    }

    fn take_payload(&mut self, left: u64) -> Result<Step, End> {
        let available = self.buffer.len() - self.start;
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(available);
        self.message.extend_from_slice(&self.buffer[self.start..self.start + take]);
        self.start += take;
        let left = left - take as u64;
        if left > 0 {
            self.frame_left = Some(left);
            return Ok(Step::NeedsMore);
        }
        self.frame_left = None;
        if self.is_last_frame { self.finish().map(Step::Message) } else { Ok(Step::Again) }
    }

    /// The message whose last fragment has been read.
    fn finish(&mut self) -> Result<Incoming, End> {
        let mut payload = std::mem::take(&mut self.message);
        if self.is_compressed {
            let plain = deflate::decompress(&payload);
            payload =
                plain.map_err(|error| End::Failed(error.to_string()))?.ok_or(End::TooLarge)?;
        }
        let opcode = std::mem::take(&mut self.opcode);
        let is_text = opcode == Opcode::Text as u8;
        Ok(if is_text { Incoming::Text(payload) } else { Incoming::Binary(payload) })
    }

    fn take_frame(&mut self) -> Result<Step, End> {
        let Some(header) = self.header()? else { return Ok(Step::NeedsMore) };
        if header.opcode < Opcode::Close as u8 {
            return self.begin_data(&header);
        }
        let end = header.length + header.payload as usize;
        let Some(payload) = self.available().get(header.length..end) else {
            return Ok(Step::NeedsMore);
        };
        let payload = payload.to_vec();
        self.start += end;
        match header.opcode {
            9 => Ok(Step::Message(Incoming::Ping(payload))),
            10 => Ok(Step::Message(Incoming::Pong(payload))),
            _ => Err(closed(&payload)),
        }
    }

    fn begin_data(&mut self, header: &Header) -> Result<Step, End> {
        let total = (self.message.len() as u64).saturating_add(header.payload);
        if total > MAX_MESSAGE_BYTES as u64 {
            return Err(End::TooLarge);
        }
        self.start += header.length;
        if header.opcode != CONTINUATION {
            self.opcode = header.opcode;
            self.is_compressed = header.is_compressed;
        }
        self.is_last_frame = header.is_final;
        self.frame_left = Some(header.payload);
        self.message.reserve_exact((header.payload as usize).min(TRUSTED_BYTES));
        Ok(Step::Again)
    }

    fn header(&self) -> Result<Option<Header>, End> {
        let bytes = self.available();
        let &[first, second, ..] = bytes else { return Ok(None) };
        let (opcode, short) = (first & 0x0f, second & 0x7f);
        self.check(first, second)?;
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(extra) = bytes.get(2..2 + extended) else { return Ok(None) };
        let long = extra.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        Ok(Some(Header {
            opcode,
            is_final: first & FINAL != 0,
            is_compressed: first & COMPRESSED != 0,
            payload: if extended == 0 { u64::from(short) } else { long },
            length: 2 + extended,
        }))
    }

    /// Checks the first two bytes of a frame.
    fn check(&self, first: u8, second: u8) -> Result<(), End> {
        let (opcode, length) = (first & 0x0f, second & 0x7f);
        let (is_data, is_control) = (matches!(opcode, 1 | 2), matches!(opcode, 8..=10));
        let rules = [
            (first & COMPRESSED != 0 && !(self.inflates && is_data), "RSV1 set"),
            (first & 0x20 != 0, "RSV2 set"),
            (first & 0x10 != 0, "RSV3 set"),
            (is_control && length > 125, "len > 125 for control"),
            (is_control && first & FINAL == 0, "FIN not set on control"),
            (is_data && self.opcode != 0, "data before FIN"),
            (opcode == CONTINUATION && self.opcode == 0, "continuation after FIN"),
        ];
        let violated = rules.into_iter().filter(|(is_violated, _)| *is_violated);
        let mut violations: Vec<String> = violated.map(|(_, text)| text.to_owned()).collect();
        if !is_data && !is_control && opcode != CONTINUATION {
            violations.push(format!("bad opcode {opcode}"));
        }
        if second & 0x80 != 0 {
            violations.push("bad MASK".to_owned());
        }
        if violations.is_empty() { Ok(()) } else { Err(End::Protocol(violations.join(", "))) }
    }
}

enum Step {
    Message(Incoming),
    Again,
    NeedsMore,
}

fn closed(payload: &[u8]) -> End {
    let Some((code, text)) = payload.split_first_chunk() else {
        return End::Closed { code: 1005, text: String::new() };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1013 | 3000..=4999) {
        return End::Protocol(format!("bad close code {code}"));
    }
    match std::str::from_utf8(text) {
        Ok(text) => End::Closed { code, text: text.to_owned() },
        Err(_) => End::Protocol("invalid utf8 payload in close frame".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::websocket::fuzzing;

    /// A frame as a server sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            length @ ..126 => out.push(length as u8),
            length @ ..65_536 => {
                out.push(126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out
    }

    fn decode(bytes: &[u8]) -> (Vec<Incoming>, Option<End>) {
        let mut decoder = Decoder::default();
        // Byte by byte: a frame may be cut anywhere.
        let (messages, end) = fuzzing::decode(&mut decoder, bytes.chunks(1));
        assert!(end.is_some() || decoder.buffer.capacity() <= KEPT_BUFFER_BYTES);
        (messages, end)
    }

    #[test]
    fn fragments_are_one_message_and_control_frames_may_come_between() {
        let bytes = [
            frame(0x01, b"a\0"),
            frame(0x89, b"ping"),
            frame(0x00, b""),
            frame(0x80, b"b"),
            frame(0x82, &[7; 70_000]),
        ];
        let expected = [
            Incoming::Ping(b"ping".to_vec()),
            Incoming::Text(b"a\0b".to_vec()),
            Incoming::Binary(vec![7; 70_000]),
        ];
        assert_eq!(decode(&bytes.concat()), (expected.to_vec(), None));
    }

    #[test]
    fn a_close_frame_has_a_code_and_a_text() {
        let closed = |payload: &[u8]| decode(&frame(0x88, payload)).1.unwrap().to_string();
        assert_eq!(closed(b""), "websocket: close 1005 (no status)");
        assert_eq!(closed(&close_payload(1000, "")), "websocket: close 1000 (normal)");
        assert_eq!(closed(&close_payload(4001, "bye")), "websocket: close 4001: bye");
        assert_eq!(closed(&close_payload(1006, "")), "websocket: bad close code 1006");
        assert_eq!(closed(&[3, 232, 0xff]), "websocket: invalid utf8 payload in close frame");
    }

    #[test]
    fn violations_of_the_protocol_are_named() {
        for (bytes, message) in [
            (vec![0xf1, 0], "RSV1 set, RSV2 set, RSV3 set"),
            (vec![0x83, 0], "bad opcode 3"),
            (vec![0x81, 0x80], "bad MASK"),
            (vec![0x80, 0], "continuation after FIN"),
            (vec![0x01, 0, 0x01, 0], "data before FIN"),
            (vec![0x09, 0], "FIN not set on control"),
            (vec![0x89, 126], "len > 125 for control"),
        ] {
            assert_eq!(decode(&bytes).1, Some(End::Protocol(message.to_owned())));
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_by_its_length() {
        let mut header = vec![0x82, 127];
        header.extend_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(decode(&header).1, Some(End::TooLarge));
    }

    #[test]
    fn a_long_message_is_sent_in_fragments_of_four_kilobytes() {
        let mut out = Vec::new();
        encode(&mut out, Opcode::Binary, &[1; FRAGMENT_BYTES * 2], false);
        let second = 4 + 4 + FRAGMENT_BYTES;
        assert_eq!(out.len(), second * 2);
        assert_eq!((out[0], out[1]), (0x02, 0x80 | 126));
        assert_eq!((out[second], out[second + 1]), (0x80, 0x80 | 126));
        let key = [out[4], out[5], out[6], out[7]];
        assert!(out[8..second].iter().zip(key.iter().cycle()).all(|(byte, key)| byte ^ key == 1));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            decode(&bytes);
        }
    }
}
