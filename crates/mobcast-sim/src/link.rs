//! One direction of a link: what waits to be sent, and how far it has got. Promises the order (control before every
//! payload message that has not begun and between the chunks of one that has; otherwise first in, first out) and exact
//! integer bookkeeping; the rate comes from [`crate::fluid`], the delay is added by [`crate::network`].
//!
//! Progress is one counter, `served`, in units of 1/(16·10^9) byte, that is one rate unit for one nanosecond. Each
//! message ends at a value of the counter, so a change of rate needs no change of the messages. The counter wraps;
//! values are compared by their difference.

use crate::fluid::RATE_UNITS;
use std::collections::VecDeque;

/// The longest message in bytes: its end must differ from the counter by less than half of the counter's range.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 28;

const UNITS_PER_BYTE: u64 = RATE_UNITS * 1_000_000_000;
/// A control message waits at most for the rest of a chunk: this many bytes, or what passes in `CHUNK_NS_MAX`.
const CHUNK_BYTES_MAX: u64 = 64 * 1024;
const CHUNK_NS_MAX: u64 = 50_000_000;

/// Which of two queues of a link a message waits in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Small and urgent: overtakes payload.
    Control,
    /// Bulk.
    Payload,
}

/// What became of a request to cancel a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// It had not begun and will not be sent.
    Removed,
    /// It has begun and will arrive.
    Begun,
    /// No payload message of this tag waits.
    Absent,
}

/// A message that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Given with the message.
    pub tag: u64,
    /// Its length.
    pub bytes: u32,
    /// Its queue.
    pub class: Class,
}

#[derive(Clone, Copy, Debug)]
struct Control {
    tag: u64,
    bytes: u32,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Payload {
    tag: u64,
    bytes: u32,
}

/// The sending side of one direction of a link.
#[derive(Debug, Default)]
pub struct SendQueue {
    rate: u64,
    served: u64,
    settled_at_ns: u64,
    control: VecDeque<Control>,
    payload: VecDeque<Payload>,
    /// Where the first payload message begins and ends, if there is one.
    head_begin: u64,
    head_end: u64,
}

impl SendQueue {
    /// Whether nothing waits or is under way.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.control.is_empty()
    }

    /// Payload messages that wait or are under way.
    pub fn payload_messages(&self) -> usize {
        self.payload.len()
    }

    /// Payload bytes that wait or are under way, whole messages counted.
    pub fn payload_bytes(&self) -> u64 {
        self.payload.iter().map(|message| u64::from(message.bytes)).sum()
    }

    /// The rate in units of 1/16 byte per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Goes on at `rate` (units of 1/16 byte per second) from `now_ns`.
    pub fn set_rate(&mut self, now_ns: u64, rate: u64) {
        self.advance(now_ns);
        self.rate = rate;
    }

    /// Puts in a payload message.
    pub fn push_payload(&mut self, now_ns: u64, tag: u64, bytes: u32) {
        self.advance(now_ns);
        self.payload.push_back(Payload { tag, bytes });
        if self.payload.len() == 1 {
            self.begin_head(self.served);
        }
    }

    /// Puts in a control message: behind other control messages, before payload that has not begun, and after the
    /// chunk that is under way.
    pub fn push_control(&mut self, now_ns: u64, tag: u64, bytes: u32) {
        self.advance(now_ns);
        let length = to_units(bytes);
        let begin = match self.control.back() {
            Some(last) => last.end,
            None => self.served.wrapping_add(self.rest_of_chunk()),
        };
        if !self.payload.is_empty() && after(self.head_end, begin) {
            self.head_end = self.head_end.wrapping_add(length);
            if !after(self.served, self.head_begin) {
                self.head_begin = self.head_begin.wrapping_add(length);
            }
        }
        self.control.push_back(Control { tag, bytes, end: begin.wrapping_add(length) });
    }

    /// Takes out the first payload message of this tag that has not begun.
    pub fn cancel(&mut self, now_ns: u64, tag: u64) -> Cancelled {
        self.advance(now_ns);
        let Some(place) = self.payload.iter().position(|message| message.tag == tag) else {
            return Cancelled::Absent;
        };
        if place == 0 && after(self.served, self.head_begin) {
            let again = self.payload.iter().skip(1).position(|message| message.tag == tag);
            let Some(later) = again else { return Cancelled::Begun };
            self.payload.remove(later + 1);
            return Cancelled::Removed;
        }
        self.payload.remove(place);
        if place == 0 && !self.payload.is_empty() {
            self.begin_head(self.head_begin);
        }
        Cancelled::Removed
    }

    /// Drops the payload messages that have not begun.
    pub fn drop_waiting_payload(&mut self, now_ns: u64) {
        self.advance(now_ns);
        let begun = !self.payload.is_empty() && after(self.served, self.head_begin);
        self.payload.truncate(usize::from(begun));
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = SendQueue { served: self.served, settled_at_ns: self.settled_at_ns, ..SendQueue::default() };
    }

    /// The next message that has left by `now_ns`.
    pub fn pop_sent(&mut self, now_ns: u64) -> Option<Sent> {
        self.advance(now_ns);
        let control_end = self.control.front().map(|message| message.end);
        let payload_end = (!self.payload.is_empty()).then_some(self.head_end);
        match (control_end, payload_end) {
            (Some(end), payload) if payload.is_none_or(|other| !after(end, other)) => self.pop_control(end),
            (_, Some(end)) => self.pop_payload(end),
            _ => None,
        }
    }

    /// When the next message will have left at the present rate, in nanoseconds; `None` when nothing is under way.
    pub fn next_end_ns(&self) -> Option<u64> {
        let control = self.control.front().map(|message| message.end.wrapping_sub(self.served));
        let payload = (!self.payload.is_empty()).then(|| self.head_end.wrapping_sub(self.served));
        let left = match (control, payload) {
            (Some(control), Some(payload)) => signed(control).min(signed(payload)),
            (left, other) => signed(left.or(other)?),
        };
        if left <= 0 {
            return Some(self.settled_at_ns);
        }
        (self.rate > 0).then(|| self.settled_at_ns.saturating_add((left as u64).div_ceil(self.rate)))
    }

    fn pop_control(&mut self, end: u64) -> Option<Sent> {
        if after(end, self.served) {
            return None;
        }
        let Control { tag, bytes, .. } = self.control.pop_front()?;
        Some(Sent { tag, bytes, class: Class::Control })
    }

    fn pop_payload(&mut self, end: u64) -> Option<Sent> {
        if after(end, self.served) {
            return None;
        }
        let Payload { tag, bytes } = self.payload.pop_front()?;
        if !self.payload.is_empty() {
            self.begin_head(end);
        }
        Some(Sent { tag, bytes, class: Class::Payload })
    }

    /// The first payload message begins at `at`, or when the control messages have left.
    fn begin_head(&mut self, at: u64) {
        let behind_control = self.control.back().map_or(at, |last| last.end);
        self.head_begin = if after(behind_control, at) { behind_control } else { at };
        self.head_end = self.head_begin.wrapping_add(to_units(self.payload[0].bytes));
    }

    /// What is left of the payload chunk under way, in units, when no control message waits.
    fn rest_of_chunk(&self) -> u64 {
        let Some(head) = self.payload.front().filter(|_| after(self.served, self.head_begin)) else { return 0 };
        let chunk = CHUNK_BYTES_MAX * UNITS_PER_BYTE;
        let left = self.head_end.wrapping_sub(self.served).min(to_units(head.bytes));
        let done = to_units(head.bytes) - left;
        let rest = if done.is_multiple_of(chunk) { 0 } else { chunk - done % chunk };
        rest.min(left).min(self.rate.saturating_mul(CHUNK_NS_MAX))
    }

    fn advance(&mut self, now_ns: u64) {
        let elapsed = now_ns - self.settled_at_ns;
        self.settled_at_ns = now_ns;
        if self.rate > 0 && elapsed > 0 {
            // Idle time counts for nothing, and a counter that ran past everything that waits would only wrap.
            if self.is_empty() {
                return;
            }
            let served = u128::from(self.rate) * u128::from(elapsed);
            self.served = self.served.wrapping_add(served as u64);
        }
    }
}

fn to_units(bytes: u32) -> u64 {
    u64::from(bytes) * UNITS_PER_BYTE
}

fn signed(difference: u64) -> i64 {
    difference as i64
}

/// Whether counter value `a` lies after `b`.
fn after(a: u64, b: u64) -> bool {
    signed(a.wrapping_sub(b)) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;
    /// 1 MB/s: a byte takes a microsecond.
    const RATE: u64 = 1_000_000 * RATE_UNITS;

    fn drain(queue: &mut SendQueue) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        while let Some(at) = queue.next_end_ns() {
            while let Some(message) = queue.pop_sent(at) {
                sent.push((message.tag, at / 1_000));
            }
        }
        sent
    }

    fn queue() -> SendQueue {
        SendQueue { rate: RATE, ..SendQueue::default() }
    }

    #[test]
    fn payload_is_first_in_first_out() {
        let mut queue = queue();
        queue.push_payload(0, 1, 1_000);
        queue.push_payload(0, 2, 500);
        assert_eq!(drain(&mut queue), [(1, 1_000), (2, 1_500)]);
    }

    #[test]
    fn a_change_of_rate_keeps_what_was_sent() {
        let mut queue = queue();
        queue.push_payload(0, 1, 1_000_000);
        queue.set_rate(SECOND / 2, RATE / 4);
        assert_eq!(queue.next_end_ns(), Some(SECOND / 2 + 2 * SECOND));
        queue.set_rate(SECOND, 0);
        assert_eq!(queue.next_end_ns(), None, "a cut link keeps its messages");
        queue.set_rate(7 * SECOND, RATE);
        assert_eq!(queue.next_end_ns(), Some(7 * SECOND + 375 * MS));
    }

    #[test]
    fn control_overtakes_payload_that_has_not_begun() {
        let mut queue = queue();
        queue.push_payload(0, 1, 1_000);
        queue.push_payload(0, 2, 1_000);
        queue.push_control(0, 3, 100);
        assert_eq!(drain(&mut queue), [(3, 100), (1, 1_100), (2, 2_100)]);
    }

    #[test]
    fn control_waits_for_the_chunk_under_way_and_delays_the_rest() {
        let mut queue = queue();
        // The limit of 50 ms of the rate (50,000 bytes) is longer than what is left of the first 64 KiB after 20 ms.
        queue.push_payload(0, 1, 200_000);
        queue.push_payload(0, 2, 1_000);
        queue.push_control(20 * MS, 3, 100);
        queue.push_control(30 * MS, 4, 50);
        assert_eq!(drain(&mut queue), [(3, 65_636), (4, 65_686), (1, 200_150), (2, 201_150)]);
    }

    #[test]
    fn on_a_slow_link_control_waits_fifty_milliseconds() {
        let mut queue = queue();
        queue.set_rate(0, RATE / 10);
        queue.push_payload(0, 1, 100_000);
        queue.push_control(10 * MS, 2, 10);
        assert_eq!(drain(&mut queue)[0], (2, 60_100));
    }

    #[test]
    fn control_that_falls_behind_the_head_delays_the_next_one() {
        let mut queue = queue();
        queue.push_payload(0, 1, 1_000);
        queue.push_payload(0, 2, 1_000);
        queue.push_control(MS / 2, 3, 100);
        assert_eq!(drain(&mut queue), [(1, 1_000), (3, 1_100), (2, 2_100)]);
    }

    #[test]
    fn only_what_has_not_begun_can_be_cancelled() {
        let mut queue = queue();
        for tag in [1, 2, 3] {
            queue.push_payload(0, tag, 1_000);
        }
        assert_eq!(queue.cancel(MS / 2, 1), Cancelled::Begun);
        assert_eq!(queue.cancel(MS / 2, 2), Cancelled::Removed);
        assert_eq!(queue.cancel(MS / 2, 2), Cancelled::Absent);
        assert_eq!(drain(&mut queue), [(1, 1_000), (3, 2_000)]);
        queue.push_payload(5 * MS, 4, 1_000);
        queue.push_payload(5 * MS, 5, 2_000);
        assert_eq!(queue.cancel(5 * MS, 4), Cancelled::Removed, "first of the queue, not begun");
        assert_eq!(drain(&mut queue), [(5, 7_000)]);
    }

    #[test]
    fn dropping_the_waiting_keeps_what_has_begun_and_control() {
        let mut queue = queue();
        queue.push_payload(0, 1, 1_000);
        queue.push_payload(0, 2, 1_000);
        queue.push_control(MS / 2, 3, 100);
        queue.drop_waiting_payload(MS / 2);
        assert_eq!(drain(&mut queue), [(1, 1_000), (3, 1_100)]);
        queue.push_payload(9 * MS, 4, 1);
        queue.clear();
        assert!(queue.is_empty() && queue.next_end_ns().is_none());
    }

    #[test]
    fn the_counter_may_wrap() {
        let mut queue = queue();
        queue.served = u64::MAX - 5;
        queue.push_payload(0, 1, MESSAGE_BYTES_MAX as u32);
        queue.push_payload(0, 2, 1_000_000);
        let end = MESSAGE_BYTES_MAX;
        assert_eq!(drain(&mut queue), [(1, end), (2, end + 1_000_000)]);
    }
}
