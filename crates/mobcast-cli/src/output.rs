//! Standard output, which carries the ticket, the payload or JSON, and nothing else; and standard error, which takes
//! words for the person.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use serde::Serialize;
use tokio::runtime::Builder;

use crate::failure::{Failure, Outcome, Status};
use crate::interrupt::Interrupt;

/// Longest wait of standard output for words that were told before.
const BEFORE_MAX: Duration = Duration::from_secs(1);
/// How often to look whether the last words are written that have taken longer than this.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Writes a line to standard output at once, and behind what was told before, unless that is stopped.
pub fn print_line(line: &str) -> Outcome {
    wait_for_words(BEFORE_MAX);
    print_bytes(format!("{line}\n").as_bytes())
}

/// Writes bytes to standard output at once. A reader that went away (`mobcast … | head`) is no failure.
pub fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Status::LocalIo, format_args!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Texts that wait until standard error takes them. Whoever has more to say waits, too.
const WAITING_MAX: usize = 10_000;

/// What the thread of standard error is given.
enum Told {
    Text(String),
    /// Dropped when all before it is written.
    Flush(SyncSender<()>),
}

/// The thread of standard error: a terminal may be stopped for as long as a person likes (Ctrl-S), and the node goes on. None if
/// the system has no thread for it.
static TELLER: OnceLock<Option<SyncSender<Told>>> = OnceLock::new();
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Writes text to standard error.
pub fn tell(text: &str) {
    match TELLER.get_or_init(start_teller) {
        Some(teller) => {
            WAITING.fetch_add(1, Ordering::Relaxed);
            let _ = teller.send(Told::Text(text.to_owned()));
        }
        None => write(text),
    }
}

fn start_teller() -> Option<SyncSender<Told>> {
    let (teller, told) = sync_channel(WAITING_MAX);
    let write_all = move || {
        for told in told {
            match told {
                Told::Text(text) => {
                    write(&text);
                    WAITING.fetch_sub(1, Ordering::Relaxed);
                }
                Told::Flush(pending) => drop(pending),
            }
        }
    };
    std::thread::Builder::new().name("mobcast-words".into()).spawn(write_all).is_ok().then_some(teller)
}

/// Nothing can be done for a person whose terminal is gone, and the exit status still tells how it ended.
fn write(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Standard error for whoever writes to it, as logs do.
pub struct Words;

impl Write for Words {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tell(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether something that was told is not written yet.
pub fn is_behind() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// Waits when it is dropped until everything that was told is written: at the end of the process, also by a panic. Where nobody reads it, a
/// signal that asks the process to end does end it.
pub struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        wait_for_words(BEFORE_MAX);
        if is_behind()
            && let Ok(runtime) = Builder::new_current_thread().enable_all().build()
        {
            runtime.block_on(written_or_interrupted());
        }
    }
}

async fn written_or_interrupted() {
    // The command's own has gone with it, and what it caught kills no more.
    let Ok(mut interrupt) = Interrupt::new() else { return };
    while is_behind() && tokio::time::timeout(LOOK_INTERVAL, interrupt.wait()).await.is_err() {}
}

/// Waits until everything that was told is written, but not longer than `limit`, nor where too much waits to say so.
fn wait_for_words(limit: Duration) {
    if let Some(Some(teller)) = TELLER.get() {
        let (pending, written) = sync_channel(0);
        let _ = teller.try_send(Told::Flush(pending));
        let _ = written.recv_timeout(limit);
    }
}

/// Text that may hold words of other machines: it must not move the cursor, or write over what stands there.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Writes a report as one line of JSON to standard output.
pub fn print_json(report: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(report)
        .map_err(|error| Failure::new(Status::Failed, format_args!("cannot write the report as JSON: {error}")))?;
    print_line(&text)
}

/// Standard output as a file, for the payload: not behind the lock and line buffer of [`io::stdout`].
pub fn payload() -> Outcome<File> {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    stdout
        .map(File::from)
        .map_err(|error| Failure::new(Status::LocalIo, format_args!("cannot write to standard output: {error}")))
}

/// Lets go of standard output, to which nothing more will be written: whoever reads the payload from it has its end, while this
/// process serves others.
pub fn close() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

/// Standard input as a file, for the payload.
pub fn source() -> Outcome<File> {
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    stdin
        .map(File::from)
        .map_err(|error| Failure::new(Status::LocalIo, format_args!("cannot read standard input: {error}")))
}

#[cfg(test)]
pub mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// One test at a time tells something.
    pub fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn the_last_words_are_written_also_where_a_panic_ends_it() {
        let _alone = alone();
        let ended = std::panic::catch_unwind(|| {
            let _words = LastWords;
            (0..1_000).for_each(|_| tell(""));
            std::panic::resume_unwind(Box::new("the end"));
        });
        assert!(ended.is_err() && !is_behind());
    }
}
