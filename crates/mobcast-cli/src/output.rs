//! Standard output, which carries the ticket, the payload or JSON, and nothing else; and standard error, which takes
//! words for the person.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use crate::failure::{Failure, Outcome, Status};

/// Writes a line to standard output at once.
pub fn print_line(line: &str) -> Outcome {
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

/// Writes text to standard error. Nothing can be done for a person whose terminal is gone, and the exit status still
/// tells how it ended.
pub fn tell(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
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
