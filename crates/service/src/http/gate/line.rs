//! The waiting line of a gate: one queue per address, served in turn. This is fair queueing (Nagle, RFC 970, 1985)
//! with requests in place of packets.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// The address of a request; `None` for work of the server itself.
pub(super) type Client = Option<IpAddr>;

/// Waiting requests; `T` wakes one.
#[derive(Debug)]
pub(super) struct Line<T> {
    queues: HashMap<Client, VecDeque<(u64, T)>>,
    /// Addresses with a queue, each once, in the order of their turns.
    turns: VecDeque<Client>,
    waiting: usize,
    next_ticket: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { queues: HashMap::new(), turns: VecDeque::new(), waiting: 0, next_ticket: 0 }
    }
}

impl<T> Line<T> {
    /// Number of waiting requests of all addresses.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Appends a request to its address's queue. The ticket identifies it in [`leave`](Self::leave).
    pub(super) fn join(&mut self, client: Client, waiter: T) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.queues.entry(client).or_default();
        if queue.is_empty() {
            self.turns.push_back(client);
        }
        queue.push_back((ticket, waiter));
        self.waiting += 1;
        ticket
    }

    /// Takes the next request: the oldest of the address served longest ago.
    pub(super) fn next(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&client)?;
        let (_, waiter) = queue.pop_front()?;
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some(waiter)
    }

    /// Takes the newest request of the address with the longest queue, if that queue is longer than the one of
    /// `client` would be with one more request.
    pub(super) fn displace(&mut self, client: Client) -> Option<T> {
        let own = self.queues.get(&client).map_or(0, VecDeque::len);
        let (longest, _) = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.len() > own + 1)
            .max_by_key(|(_, queue)| queue.len())?;
        let longest = *longest;
        // At least two requests long, so the queue stays.
        let (_, waiter) = self.queues.get_mut(&longest)?.pop_back()?;
        self.waiting -= 1;
        Some(waiter)
    }

    /// Removes a request that waits no longer, unless it was taken already.
    pub(super) fn leave(&mut self, client: Client, ticket: u64) {
        let Some(queue) = self.queues.get_mut(&client) else { return };
        // Tickets ascend within a queue.
        let Ok(at) = queue.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else { return };
        queue.remove(at);
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(&client);
            self.turns.retain(|turn| *turn != client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(n: u8) -> Client {
        Some(IpAddr::from([10, 0, 0, n]))
    }

    #[test]
    fn addresses_are_served_in_turn_and_each_in_order_of_arrival() {
        let mut line = Line::default();
        for request in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            line.join(client(request.as_bytes()[0]), request);
        }
        let served: Vec<_> = std::iter::from_fn(|| line.next()).collect();
        assert_eq!(served, ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn the_newest_request_of_the_longest_queue_is_displaced() {
        let mut line = Line::default();
        for request in ["a1", "a2", "a3", "b1", "b2"] {
            line.join(client(request.as_bytes()[0]), request);
        }
        assert_eq!(line.displace(client(b'a')), None, "its own queue is the longest");
        assert_eq!(line.displace(client(b'b')), None, "its queue would be as long");
        assert_eq!(line.displace(client(b'c')), Some("a3"));
        assert_eq!(line.len(), 4);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join(u8),
        Next,
        Leave(usize),
        Displace(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..4u8).prop_map(Step::Join),
            2 => Just(Step::Next),
            1 => any::<prop::sample::Index>().prop_map(|i| Step::Leave(i.index(64))),
            1 => (0..4u8).prop_map(Step::Displace),
        ]
    }

    proptest! {
        /// Compares the line with a plain list.
        #[test]
        fn nobody_is_lost_or_served_twice(steps in prop::collection::vec(step(), 0..200)) {
            let mut line = Line::default();
            let mut waiting: Vec<(u8, u64, usize)> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Join(who) => {
                        let ticket = line.join(client(who), n);
                        waiting.push((who, ticket, n));
                    }
                    Step::Next => match line.next() {
                        None => prop_assert!(waiting.is_empty()),
                        Some(served) => {
                            let at = waiting.iter().position(|w| w.2 == served);
                            let (who, ..) = waiting.remove(at.expect("it waited"));
                            let older = waiting.iter().any(|w| w.0 == who && w.2 < served);
                            prop_assert!(!older, "an older request of the address was passed over");
                        }
                    },
                    Step::Leave(at) if !waiting.is_empty() => {
                        let (who, ticket, _) = waiting.remove(at % waiting.len());
                        line.leave(client(who), ticket);
                        line.leave(client(who), ticket);
                    }
                    Step::Leave(_) => {}
                    Step::Displace(who) => {
                        let count = |who| waiting.iter().filter(|w| w.0 == who).count();
                        let longest = (0..4).map(count).max().unwrap_or(0);
                        let displaced = line.displace(client(who));
                        prop_assert_eq!(displaced.is_some(), longest > count(who) + 1);
                        if let Some(displaced) = displaced {
                            let at = waiting.iter().position(|w| w.2 == displaced);
                            waiting.remove(at.expect("it waited"));
                        }
                    }
                }
                prop_assert_eq!(line.len(), waiting.len());
                prop_assert_eq!(line.turns.len(), line.queues.len());
            }
        }
    }
}
