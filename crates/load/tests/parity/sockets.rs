//! WebSockets of the test server: an echo that keeps every frame, and does other things when told to.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Answers a handshake, then frames until the client is gone.
pub fn serve(mut reader: BufReader<&TcpStream>, target: &str, key: &str, log: &Mutex<Vec<String>>) {
    let accept = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = BASE64_STANDARD.encode(Sha1::digest(accept));
    let protocol =
        if target.contains("stomp") { "Sec-WebSocket-Protocol: v12.stomp\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Set-Cookie: ws=1\r\nSec-WebSocket-Accept: {accept}\r\n{protocol}\r\n"
    );
    let mut stream = *reader.get_ref();
    stream.write_all(head.as_bytes()).unwrap();
    while let Some((first, payload)) = read_frame(&mut reader) {
        let text = String::from_utf8_lossy(&payload).into_owned();
        // What is long is told by its length. `k6/ws` does not wait for the answer to its close frame, which may be read
        // after the run.
        let told = if text.len() > 100 { text.len().to_string() } else { text.clone() };
        if first & 0x0f != CLOSE || target.starts_with("/wsw") {
            keep(&mut log.lock().unwrap(), target, format!("{target} {first:#04x} {told}"));
        }
        let answer = match (first & 0x0f, text.as_str()) {
            (PONG, _) => continue,
            (PING, _) => frame(0x80 | PONG, &payload),
            (CLOSE, _) => {
                // A client that has closed already reads nothing any more.
                let _ = stream.write_all(&frame(0x80 | CLOSE, &payload));
                return;
            }
            (_, "drop") => return,
            (_, "break") => frame(0x83, b""),
            (_, "ping me") => frame(0x80 | PING, b"from the server"),
            (_, "close 4001") => {
                frame(0x80 | CLOSE, &[&4001u16.to_be_bytes()[..], b"bye"].concat())
            }
            (_, "close 1000") => frame(0x80 | CLOSE, &1000u16.to_be_bytes()),
            (_, "fragments") => {
                [frame(TEXT, b"in "), frame(0, b"three "), frame(0x80, b"parts")].concat()
            }
            _ => frame(first, &payload),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Keeps a frame behind what came before it on its connection: the next connection may have been quicker.
fn keep(log: &mut Vec<String>, target: &str, frame: String) {
    let is_of_connection = |told: &String| told.split(' ').take(2).any(|word| word == target);
    let last = log.iter().rposition(is_of_connection).expect("the request is kept");
    log.insert(last + 1, frame);
}

/// First byte and payload of a masked frame.
fn read_frame(reader: &mut impl std::io::Read) -> Option<(u8, Vec<u8>)> {
    let mut start = [0; 2];
    reader.read_exact(&mut start).ok()?;
    assert!(start[1] & 0x80 != 0, "clients mask their frames");
    let mut length = usize::from(start[1] & 0x7f);
    if length == 126 {
        let mut long = [0; 2];
        reader.read_exact(&mut long).ok()?;
        length = usize::from(u16::from_be_bytes(long));
    }
    let mut key = [0; 4];
    reader.read_exact(&mut key).ok()?;
    let mut payload = vec![0; length];
    reader.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    Some((start[0], payload))
}

/// An unmasked frame; payloads are at most 65,535 bytes.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        length @ ..126 => out.push(length as u8),
        length => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
    out
}
