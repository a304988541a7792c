//! Words and progress on standard error: bars redrawn in place on a terminal, plain lines every few seconds elsewhere,
//! nothing with `--quiet`.
//!
//! Promises: at most ten draws a second; a message never tears a bar apart; when it is dropped, the cursor stands at
//! the beginning of an empty line. What is shown is decided by [`view`].

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

pub mod view;

use crate::output::{is_behind, printable, tell};

pub use view::{ClusterProgress, Snapshot};

/// Shortest time between two draws on a terminal.
pub const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Time over which the rate is taken.
const RATE_TIME: Duration = Duration::from_secs(3);

/// The person's view of what happens.
pub struct Screen {
    mode: Mode,
    rate: RateMeter,
}

enum Mode {
    Quiet,
    Lines {
        /// When the last line was due.
        last: Instant,
        /// The last line: it is not repeated while nothing happens.
        line: String,
    },
    Bars {
        last: Option<Instant>,
        /// Lines on the terminal that the next draw replaces.
        drawn: Vec<String>,
    },
}

impl Screen {
    /// Chooses by what standard error is.
    pub fn new(quiet: bool) -> Screen {
        let mode = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Bars { last: None, drawn: Vec::new() },
            (false, false) => Mode::Lines { last: Instant::now(), line: String::new() },
        };
        Screen { mode, rate: RateMeter::default() }
    }

    /// Writes a line of words above the bars.
    pub fn say(&mut self, words: &str) {
        if !matches!(self.mode, Mode::Quiet) {
            self.signal(words);
        }
    }

    /// Writes a line that a program waits for, above the bars and also with `--quiet`.
    pub fn signal(&mut self, line: &str) {
        self.clear();
        tell(&format!("{}\n", printable(line)));
    }

    /// Shows how far it is, if it is time to; fills in the rate.
    pub fn update(&mut self, snapshot: &mut Snapshot) {
        let now = Instant::now();
        snapshot.rate_bytes_per_s = self.rate.update(snapshot.bytes, now);
        // Words wait for a terminal that is stopped; how far it is can be shown later.
        if is_behind() {
            return;
        }
        match &mut self.mode {
            Mode::Lines { last, line } if now.duration_since(*last) >= LINE_INTERVAL => {
                *last = now;
                let before = std::mem::replace(line, snapshot.line());
                if *line != before {
                    tell(&format!("{line}\n"));
                }
            }
            Mode::Bars { last, .. } if last.is_none_or(|last| now.duration_since(last) >= DRAW_INTERVAL) => {
                *last = Some(now);
                self.draw(snapshot.bars(terminal_width()));
            }
            _ => {}
        }
    }

    fn draw(&mut self, lines: Vec<String>) {
        let Mode::Bars { drawn, .. } = &mut self.mode else { return };
        if *drawn != lines {
            tell(&redraw(drawn.len(), &lines));
            *drawn = lines;
        }
    }

    /// Takes the bars off the terminal.
    fn clear(&mut self) {
        self.draw(Vec::new());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Moves up over `drawn` lines, erases everything from there on, and writes `lines`.
fn redraw(drawn: usize, lines: &[String]) -> String {
    let mut text = if drawn == 0 { String::new() } else { format!("\x1b[{drawn}A\r\x1b[J") };
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Columns of the terminal, less one, as some terminals wrap a line that fills them.
fn terminal_width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| size.ws_col);
    if columns == 0 { 79 } else { usize::from(columns) - 1 }
}

/// The rate over the last seconds.
#[derive(Default)]
struct RateMeter {
    /// Bytes at some times of the last [`RATE_TIME`], oldest first; at most one for each draw.
    samples: std::collections::VecDeque<(Instant, u64)>,
}

impl RateMeter {
    fn update(&mut self, bytes: u64, now: Instant) -> u64 {
        let is_due = self.samples.back().is_none_or(|(last, _)| now.duration_since(*last) >= DRAW_INTERVAL);
        if is_due {
            self.samples.push_back((now, bytes));
        }
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= RATE_TIME {
            self.samples.pop_front();
        }
        let Some(&(first, then)) = self.samples.front() else { return 0 };
        let seconds = now.duration_since(first).as_secs_f64();
        if seconds > 0.0 { (bytes.saturating_sub(then) as f64 / seconds) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut meter = RateMeter::default();
        let start = Instant::now();
        assert_eq!(meter.update(0, start), 0);
        for tenth in 1..=50 {
            meter.update(tenth * 1_000, start + Duration::from_millis(100 * tenth));
        }
        let mut rate = 0;
        for tenth in 51..=100 {
            rate = meter.update(50_000, start + Duration::from_millis(100 * tenth));
        }
        assert_eq!(rate, 0, "nothing came in the last five seconds");
        assert!(meter.samples.len() <= 32);
    }

    #[test]
    fn a_draw_replaces_the_one_before() {
        let lines = ["one".to_owned(), "two".to_owned()];
        assert_eq!(redraw(0, &lines), "one\ntwo\n");
        assert_eq!(redraw(2, &lines[..1]), "\x1b[2A\r\x1b[Jone\n");
        assert_eq!(redraw(1, &[]), "\x1b[1A\r\x1b[J");
    }
}
