//! The few lines that owner and supervisor exchange over the supervisor's standard input, which
//! is one end of a socket pair: it carries both directions, needs no agreed file descriptor
//! number, and its end of file tells the supervisor that the owner is gone.

use std::time::Duration;

use crate::Exit;

/// From the supervisor to its owner.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The command runs, with this process id.
    Started(u32),
    /// The command could not be executed: the kernel's error number.
    Failed(i32),
    /// The command ended. End of file follows when all its descendants have, too.
    Exited(Exit),
}

/// From the owner to its supervisor.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// SIGTERM now, SIGKILL to the whole tree after this time.
    Stop(Duration),
}

impl Event {
    pub fn encode(&self) -> String {
        match self {
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Failed(errno) => format!("failed {errno}\n"),
            Self::Exited(Exit::Code(code)) => format!("exited {code}\n"),
            Self::Exited(Exit::Signal(signal)) => format!("signalled {signal}\n"),
            Self::Exited(Exit::Unknown) => "lost 0\n".to_owned(),
        }
    }

    pub fn decode(line: &str) -> Option<Self> {
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

impl Order {
    pub fn encode(&self) -> String {
        let Self::Stop(grace) = self;
        format!("stop {}\n", grace.as_millis())
    }

    pub fn decode(line: &str) -> Option<Self> {
        let grace = line.trim_end().strip_prefix("stop ")?.parse().ok()?;
        Some(Self::Stop(Duration::from_millis(grace)))
    }
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
        let order = Order::Stop(Duration::from_millis(1500));
        assert_eq!(Order::decode(&order.encode()), Some(order));
    }

    #[test]
    fn noise_is_no_message() {
        for line in ["", "started", "started x", "started -1", "hello 3", "stop", "stop -5"] {
            assert_eq!(Event::decode(line), None, "{line:?}");
            assert_eq!(Order::decode(line), None, "{line:?}");
        }
    }
}
