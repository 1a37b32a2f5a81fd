//! Messages between owner and supervisor, over the supervisor's standard input, which is one end of
//! a socket pair: it carries both directions, needs no agreed file descriptor number, and its end of
//! file shows the supervisor that the owner is gone.

use std::time::Duration;

use crate::Exit;

/// Message of the supervisor to its owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The command runs, with this process id.
    Started(u32),
    /// The command could not be executed, with the kernel's error number.
    Failed(i32),
    /// The command ended. End of file follows when all its descendants have, too.
    Exited(Exit),
}

impl Event {
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Failed(errno) => format!("failed {errno}\n"),
            Self::Exited(Exit::Code(code)) => format!("exited {code}\n"),
            Self::Exited(Exit::Signal(signal)) => format!("signalled {signal}\n"),
            Self::Exited(Exit::Unknown) => "lost 0\n".to_owned(),
        }
    }

    pub(crate) fn decode(line: &str) -> Option<Self> {
        let (word, number) = line.trim_end().split_once(' ')?;
        let number: i32 = number.parse().ok()?;
        match word {
            "started" => Some(Self::Started(u32::try_from(number).ok()?)),
            "failed" => Some(Self::Failed(number)),
            "exited" => Some(Self::Exited(Exit::Code(number))),
            "signalled" => Some(Self::Exited(Exit::Signal(number))),
            "lost" => Some(Self::Exited(Exit::Unknown)),
            _ => None,
        }
    }
}

/// Order of the owner: SIGTERM now, SIGKILL to the whole tree after `grace`.
pub(crate) fn encode_stop(grace: Duration) -> String {
    format!("stop {}\n", grace.as_millis())
}

pub(crate) fn decode_stop(line: &str) -> Option<Duration> {
    line.trim_end().strip_prefix("stop ")?.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        let events = [
            Event::Started(7),
            Event::Failed(2),
            Event::Exited(Exit::Code(3)),
            Event::Exited(Exit::Signal(9)),
            Event::Exited(Exit::Unknown),
        ];
        for event in events {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
        let grace = Duration::from_millis(1500);
        assert_eq!(decode_stop(&encode_stop(grace)), Some(grace));
    }

    #[test]
    fn noise_is_no_message() {
        for line in ["", "started", "started x", "started -1", "hello 3", "stop", "stop -5"] {
            assert_eq!(Event::decode(line), None, "{line:?}");
            assert_eq!(decode_stop(line), None, "{line:?}");
        }
    }
}
