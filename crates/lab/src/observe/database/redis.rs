//! Redis and Valkey, by their protocol RESP version 2: a command is a list of strings, an answer a
//! line. Own code, because that is less than what a client crate brings along and has to be told
//! not to do (reconnect, pool, pipeline, speak to clusters).

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use super::{
    ANSWER_TIME, Address, CONNECT_TIME, Engine, Figure, QUERY_TIME, bounded, watching::Client,
};
use crate::run::cancel::Cancel;

const ACCEPTED: &str = "an address such as `redis://HOST:PORT`, `redis://:PASSWORD@HOST:PORT` or \
     `redis://USER:PASSWORD@HOST:PORT/NUMBER` is wanted";
const PORT: u16 = 6379;
/// `INFO` takes some kilobytes; whoever sends more is no Redis, or was asked for no number.
const ANSWER_BYTES: u64 = 1 << 20;

/// Where a Redis is, and as whom it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    user: Option<String>,
    password: Option<String>,
    database: Option<u32>,
}

impl Target {
    /// Reads an address.
    ///
    /// # Errors
    /// What is accepted.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("rediss://") {
            return Err("TLS is not supported".to_owned());
        }
        Self::parts(text).ok_or_else(|| ACCEPTED.to_owned())
    }

    fn parts(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("redis://")?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return None;
        }
        let (user, password) =
            match credentials.map(|text| text.split_once(':').unwrap_or((text, ""))) {
                None => (None, None),
                Some((user, password)) => (decoded(user)?, decoded(password)?),
            };
        let database = match database {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        Some(Self { host: host.to_owned(), port, user, password, database })
    }
}

/// A part of an address with its percent signs decoded (RFC 3986, section 2.1); `None` inside when
/// it is empty.
#[expect(clippy::option_option, reason = "wrong is not the same as empty")]
fn decoded(text: &str) -> Option<Option<String>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    Some((!text.is_empty()).then_some(text))
}

/// A connection whose every read ends in time, however slowly the other side sends.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Text(String),
    Integer(i64),
    Nil,
    List(usize),
}

/// One connection.
pub struct Connection {
    reader: BufReader<Timed>,
    time: Duration,
    asked: u64,
}

impl Connection {
    /// Connects, signs in and chooses the database.
    pub fn open(address: &Address, time: Duration) -> Result<Self, String> {
        let target = Target::parse(address.secret())?;
        let stream = connect(&target).map_err(|error| super::io_in_words(&error))?;
        let timed = Timed { stream, deadline: Instant::now() };
        let mut connection = Self { reader: BufReader::new(timed), time, asked: 0 };
        if let Some(password) = &target.password {
            let mut words = vec!["AUTH"];
            words.extend(target.user.as_deref());
            words.push(password);
            connection.ask(&words)?;
        }
        if let Some(number) = target.database {
            connection.ask(&["SELECT", &number.to_string()])?;
        }
        Ok(connection)
    }

    fn ask(&mut self, words: &[&str]) -> Result<Answer, String> {
        self.asked += 1;
        let exchanged = self.send(words).and_then(|()| self.receive());
        exchanged.map_err(|error| super::io_in_words(&error))?
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        let timed = self.reader.get_mut();
        timed.deadline = Instant::now() + self.time;
        timed.stream.set_write_timeout(Some(self.time))?;
        timed.stream.write_all(text.as_bytes())
    }

    /// An answer; inside, what Redis said was wrong.
    fn receive(&mut self) -> io::Result<Result<Answer, String>> {
        let foreign = || io::Error::other("its answer is not that of a Redis");
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(foreign)?;
        Ok(match kind {
            "+" => Ok(Answer::Text(rest.to_owned())),
            "-" => Err(rest.to_owned()),
            ":" => Ok(Answer::Integer(rest.parse().map_err(|_| foreign())?)),
            "$" if rest == "-1" => Ok(Answer::Nil),
            "$" => {
                let length: u64 = rest.parse().map_err(|_| foreign())?;
                Ok(Answer::Text(self.text(length)?))
            }
            "*" if rest == "-1" => Ok(Answer::Nil),
            "*" => Ok(Answer::List(rest.parse().map_err(|_| foreign())?)),
            _ => return Err(foreign()),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.reader).take(ANSWER_BYTES).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(io::Error::other("its answer is not that of a Redis")),
        }
    }

    fn text(&mut self, length: u64) -> io::Result<String> {
        if length > ANSWER_BYTES {
            return Err(io::Error::other("its answer is longer than a number or a status"));
        }
        let mut bytes = vec![0; length as usize + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(length as usize);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Fields of `INFO`, in the order of the names.
    fn fields(&mut self, words: &[&str], names: &[&str]) -> Result<Vec<f64>, String> {
        let Answer::Text(page) = self.ask(words)? else {
            return Err("its answer to INFO is no text".to_owned());
        };
        names.iter().map(|name| field(&page, name)).collect()
    }
}

fn field(page: &str, name: &str) -> Result<f64, String> {
    let found = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = found.and_then(|value| value.trim().parse().ok());
    number.ok_or_else(|| format!("its INFO has no number `{name}`"))
}

fn connect(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address of that name");
    for address in (target.host.as_str(), target.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One kept connection to a Redis that is observed.
pub struct Info(Connection);

impl Info {
    pub fn connect(address: &Address) -> Result<Self, String> {
        Connection::open(address, ANSWER_TIME).map(Self)
    }
}

impl Client for Info {
    fn counters(&mut self) -> Result<Vec<f64>, String> {
        let names: Vec<&str> = Figure::of(Engine::Redis)
            .filter(Figure::is_counter)
            .map(|figure| figure.name)
            .collect();
        self.0.fields(&["INFO", "stats"], &names)
    }

    fn level(&mut self) -> Result<f64, String> {
        self.0.fields(&["INFO", "memory"], &["used_memory"]).map(|values| values[0])
    }

    fn asked(&self) -> u64 {
        self.0.asked
    }
}

/// The number that a command answers.
///
/// # Errors
/// Why there is none, in words.
pub fn number(address: &Address, command: &[String], cancel: &Cancel) -> Result<f64, String> {
    let (address, command) = (address.clone(), command.to_owned());
    bounded(QUERY_TIME, cancel, move || {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        value(Connection::open(&address, QUERY_TIME)?.ask(&words)?)
    })
}

fn value(answer: Answer) -> Result<f64, String> {
    match answer {
        Answer::Integer(number) => Ok(number as f64),
        Answer::Text(text) => {
            let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
            let start: String = text.chars().take(40).collect();
            number.ok_or_else(|| format!("the answer is no number but {start:?}"))
        }
        Answer::Nil => Err("the answer is nil: there is no such key or member".to_owned()),
        Answer::List(length) => Err(format!("the answer is a list of {length}, not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_parts() {
        let address = Target::parse("redis://me:p%40ss@[::1]:7000/2").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 7000));
        assert_eq!(address.user.as_deref(), Some("me"));
        assert_eq!((address.password.as_deref(), address.database), (Some("p@ss"), Some(2)));
        let plain = Target::parse("redis://cache").unwrap();
        assert_eq!(
            (plain.port, plain.user, plain.password, plain.database),
            (6379, None, None, None)
        );
        assert_eq!(Target::parse("redis://:only@cache").unwrap().user, None);
        assert!(Target::parse("redis://a:%zz@cache").is_err());
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let page = "# Memory\r\nused_memory_human:1M\r\nused_memory:1048576\r\nodd:x\r\n";
        assert_eq!(field(page, "used_memory"), Ok(1_048_576.0));
        assert!(field(page, "odd").is_err() && field(page, "used").is_err());
    }

    #[test]
    fn an_answer_that_is_no_number_is_named() {
        assert_eq!(value(Answer::Text(" 2.5 ".into())), Ok(2.5));
        assert_eq!(value(Answer::Integer(-3)), Ok(-3.0));
        for (answer, part) in [
            (Answer::Text("abc".into()), "\"abc\""),
            (Answer::Text("nan".into()), "\"nan\""),
            (Answer::Nil, "no such key"),
            (Answer::List(3), "a list of 3"),
        ] {
            let why = value(answer).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
