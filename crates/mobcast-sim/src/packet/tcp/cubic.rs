//! The congestion window of CUBIC (RFC 9438), with an end of slow start when a round trip takes longer than the one
//! before (HyStart++, RFC 9406, without its slower growth before the end). In segments.

/// How fast the window grows again, in segments per second cubed.
const SCALE: f64 = 0.4;
/// What is left of the window after a loss.
const DECREASE: f64 = 0.7;
/// A window that grows as slowly as Reno's does with this decrease (RFC 9438, 4.3).
const RENO_SCALE: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);
const WINDOW_MIN: f64 = 2.0;
/// Slow start does not end for delay before this window.
const HYSTART_WINDOW: f64 = 16.0;
/// Samples of a round before its delay counts.
const HYSTART_SAMPLES: u32 = 8;
/// An eighth of the shortest round trip, in these bounds, is too much more, in nanoseconds.
const HYSTART_MIN_NS: u64 = 4_000_000;
const HYSTART_MAX_NS: u64 = 16_000_000;

/// A window.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last loss.
    before_loss: f64,
    /// When growth after the last loss began, and where it leads.
    epoch: Option<Epoch>,
    /// What Reno would have.
    reno: f64,
    round: Round,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began_ns: u64,
    /// Seconds until the window is what it was.
    to_origin_s: f64,
    origin: f64,
}

/// A round trip in slow start.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Ends with this segment.
    end: u32,
    samples: u32,
    shortest_ns: Option<u64>,
    shortest_before_ns: Option<u64>,
}

impl Cubic {
    /// A window of so many segments.
    pub fn new(window: f64) -> Cubic {
        Cubic { window, threshold: f64::INFINITY, before_loss: 0.0, epoch: None, reno: window, round: Round::default() }
    }

    /// Segments that may be on their way.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// Whether it doubles in each round trip.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// A round trip was measured by the acknowledgement of all segments before `acknowledged`; `next` is sent next.
    pub fn handle_rtt(&mut self, rtt_ns: u64, acknowledged: u32, next: u32) {
        if acknowledged >= self.round.end {
            let shortest_before_ns = self.round.shortest_ns;
            self.round = Round { end: next, shortest_before_ns, ..Round::default() };
        }
        let round = &mut self.round;
        round.samples += 1;
        let shortest = round.shortest_ns.map_or(rtt_ns, |shortest| shortest.min(rtt_ns));
        round.shortest_ns = Some(shortest);
        let Some(before) = round.shortest_before_ns else { return };
        let more = (before / 8).clamp(HYSTART_MIN_NS, HYSTART_MAX_NS);
        let late = round.samples >= HYSTART_SAMPLES && shortest >= before + more;
        if late && self.in_slow_start() && self.window >= HYSTART_WINDOW {
            self.threshold = self.window;
            self.reno = self.window;
        }
    }

    /// `delivered` segments arrived while the window bound.
    pub fn open(&mut self, now_ns: u64, delivered: u32, srtt_ns: u64) {
        let delivered = f64::from(delivered);
        if self.in_slow_start() {
            self.window = (self.window + delivered).min(self.threshold.max(self.window));
            return;
        }
        let (window, before_loss) = (self.window, self.before_loss);
        let epoch = *self.epoch.get_or_insert_with(|| Epoch {
            began_ns: now_ns,
            to_origin_s: ((before_loss - window).max(0.0) / SCALE).cbrt(),
            origin: before_loss.max(window),
        });
        let seconds = (now_ns - epoch.began_ns + srtt_ns) as f64 / 1e9 - epoch.to_origin_s;
        let target = (epoch.origin + SCALE * seconds * seconds * seconds).clamp(window, 1.5 * window);
        self.reno += RENO_SCALE * delivered / window;
        self.window = (window + delivered * (target - window) / window).max(self.reno);
    }

    /// Segments were lost, for the first time in a window of data.
    pub fn lose(&mut self) {
        // Others need room, if it had to give way before it was back (fast convergence).
        let gives_way = self.window < self.before_loss;
        self.before_loss = if gives_way { self.window * (1.0 + DECREASE) / 2.0 } else { self.window };
        self.window = (self.window * DECREASE).max(WINDOW_MIN);
        self.threshold = self.window;
        self.reno = self.window;
        self.epoch = None;
    }

    /// Nothing arrived for a whole timeout, the `first` one in a row: the others tell nothing new (RFC 5681, 3.1).
    pub fn start_over(&mut self, first: bool) {
        if first {
            self.lose();
        }
        self.window = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    #[test]
    fn a_loss_leaves_seven_tenths_and_the_window_comes_back_along_a_cubic() {
        let mut cubic = Cubic::new(100.0);
        cubic.lose();
        assert!((cubic.window() - 70.0).abs() < 1e-9 && !cubic.in_slow_start());
        // K = cbrt(30 / 0.4) = 4.217 s. One round trip of 100 ms after the other, a window in each.
        let mut windows = Vec::new();
        for round in 0..80u64 {
            cubic.open(round * 100 * MS, cubic.window() as u32, 100 * MS);
            windows.push(cubic.window());
        }
        // RFC 9438, equation 1: at t the window is 0.4 (t - K)^3 + 100; at 4.2 s it is back.
        assert!((windows[41] - 100.0).abs() < 1.0, "{}", windows[41]);
        assert!((windows[20] - 96.2).abs() < 1.0, "0.4 (2.1 - 4.217)^3 + 100: {}", windows[20]);
        assert!(windows[79] > 115.0, "and then it looks for more: {}", windows[79]);
    }

    #[test]
    fn on_short_round_trips_it_is_as_fast_as_reno() {
        let mut cubic = Cubic::new(10.0);
        cubic.lose();
        for round in 0..100u64 {
            cubic.open(round * MS, cubic.window() as u32, MS);
        }
        // 100 round trips add 0.53 segments each, where the cubic would stand still.
        assert!(cubic.window() > 45.0, "{}", cubic.window());
    }

    #[test]
    fn slow_start_ends_when_a_round_takes_longer() {
        let mut cubic = Cubic::new(10.0);
        let (mut acknowledged, mut next) = (0, 10);
        for round in 0..4u64 {
            let rtt = if round < 3 { 40 * MS } else { 46 * MS };
            let sent = next - acknowledged;
            for _ in 0..sent {
                cubic.handle_rtt(rtt, acknowledged, next);
                cubic.open(round * SECOND, 1, rtt);
                acknowledged += 1;
                next += 2;
            }
            next = acknowledged + cubic.window() as u32;
        }
        assert!(!cubic.in_slow_start());
        assert!((80.0..100.0).contains(&cubic.window()), "80, and eight of the last round: {}", cubic.window());
    }

    #[test]
    fn after_a_timeout_it_starts_with_one_segment() {
        let mut cubic = Cubic::new(50.0);
        cubic.start_over(true);
        assert!(cubic.in_slow_start());
        cubic.open(0, 1, 10 * MS);
        assert_eq!(cubic.window(), 2.0);
    }
}
