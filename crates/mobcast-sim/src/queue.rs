//! The one event queue of a simulation: events come out by time, and among equal times in the order in which they were
//! put in. Promises that nothing else sways the order; what an event means is left to others.

use mobcast_proto::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT_BITS: u32 = 24;
/// Events that may wait at the same time: 2^24 of 100,000 nodes are 167 for each.
pub const EVENTS_MAX: usize = 1 << SLOT_BITS;

/// Names one scheduled event. Never names another one later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(u64);

/// Events by time, then by the order of insertion.
///
/// An entry of the heap is one number: time, then sequence, then the slot that holds the event. Cancelling empties the
/// slot; the entry is dropped when it comes up.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<u128>>,
    slots: Vec<(Token, Option<T>)>,
    free: Vec<u32>,
    sequence: u64,
    len: usize,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), sequence: 0, len: 0 }
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> EventQueue<T> {
        EventQueue::default()
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts in an event that comes out at `at`, after all that were put in for the same time before.
    pub fn push(&mut self, at: Time, event: T) -> Token {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < EVENTS_MAX, "more than {EVENTS_MAX} events wait: something schedules in a loop");
            self.slots.push((Token(0), None));
            (self.slots.len() - 1) as u32
        });
        let token = Token(self.sequence << SLOT_BITS | u64::from(slot));
        self.sequence += 1;
        self.slots[slot as usize] = (token, Some(event));
        self.heap.push(Reverse(u128::from(at.0) << 64 | u128::from(token.0)));
        self.len += 1;
        token
    }

    /// Takes an event out; `None` when it has come out or was cancelled before.
    pub fn cancel(&mut self, token: Token) -> Option<T> {
        let slot = (token.0 & (EVENTS_MAX as u64 - 1)) as usize;
        let (holder, event) = self.slots.get_mut(slot)?;
        if *holder != token {
            return None;
        }
        let event = event.take()?;
        self.free.push(slot as u32);
        self.len -= 1;
        Some(event)
    }

    /// The next event and its time.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        loop {
            let Reverse(entry) = self.heap.pop()?;
            if let Some(event) = self.cancel(Token(entry as u64)) {
                return Some((Time((entry >> 64) as u64), event));
            }
        }
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<Time> {
        loop {
            let Reverse(entry) = *self.heap.peek()?;
            let token = Token(entry as u64);
            let (holder, event) = &self.slots[(token.0 & (EVENTS_MAX as u64 - 1)) as usize];
            if *holder == token && event.is_some() {
                return Some(Time((entry >> 64) as u64));
            }
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_times_keep_the_order_of_insertion() {
        let mut queue = EventQueue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            queue.push(Time(at), name);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn a_cancelled_event_does_not_come_out_and_its_token_names_no_other() {
        let mut queue = EventQueue::new();
        let first = queue.push(Time(1), 'a');
        assert_eq!(queue.cancel(first), Some('a'));
        let second = queue.push(Time(2), 'b');
        assert_eq!(queue.cancel(first), None, "the slot has another event");
        assert_eq!((queue.len(), queue.next_time()), (1, Some(Time(2))));
        assert_eq!(queue.pop(), Some((Time(2), 'b')));
        assert_eq!(queue.cancel(second), None);
        assert_eq!((queue.next_time(), queue.pop()), (None, None));
    }

    /// Many at one time, and some far ahead.
    fn ahead() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0..3_u64, 0..1_000_000_000_000_u64]
    }

    proptest! {
        #[test]
        fn comes_out_as_from_a_sorted_list(steps in proptest::collection::vec((ahead(), 0..4_u8), 1..300)) {
            let (mut queue, mut model, mut now) = (EventQueue::new(), std::collections::BTreeMap::new(), 0);
            let mut tokens = Vec::new();
            for (number, (ahead, what)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        tokens.push((queue.push(Time(now + ahead), number), (now + ahead, number)));
                        model.insert((now + ahead, number), number);
                    }
                    2 if !tokens.is_empty() => {
                        let (token, key) = tokens[ahead as usize % tokens.len()];
                        prop_assert_eq!(queue.cancel(token), model.remove(&key));
                    }
                    _ => {
                        prop_assert_eq!(queue.next_time(), model.keys().next().map(|&(at, _)| Time(at)));
                        let first = model.pop_first().map(|((at, _), number)| (Time(at), number));
                        prop_assert_eq!(queue.pop(), first);
                        now = first.map_or(now, |(at, _)| at.0);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            let rest: Vec<(Time, usize)> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert!(rest.into_iter().eq(model.into_iter().map(|((at, _), number)| (Time(at), number))));
        }
    }
}
