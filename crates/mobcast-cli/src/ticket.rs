//! The ticket's way from `send` to `recv`: through a file, standard input, the environment or the command line.
//!
//! Promises: a ticket file appears complete or not at all, and only its owner may read it; a link, named pipe or device
//! in its place stays what it is. A ticket is a secret, so no message quotes one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mobcast::Ticket;
use tokio::time::{timeout, timeout_at};

use crate::failure::{Failure, Outcome, Status};
use crate::output;

/// How often a ticket file is looked for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// No ticket is nearly as long, bytes; what is longer is some other file.
const TEXT_BYTES_MAX: u64 = 4096;
/// What has so many of a ticket's characters behind its beginning is one, perhaps damaged: the secret follows the first twenty.
const SECRET_CHARS_MIN: usize = 40;

/// Where a ticket comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TicketSource {
    /// This text.
    Text(String),
    /// A file, which may not be there yet.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl TicketSource {
    /// Reads `TICKET`, `@FILE` or `@-`.
    pub fn of(argument: &OsStr) -> Outcome<TicketSource> {
        let [b'@', path @ ..] = argument.as_bytes() else {
            return Ok(TicketSource::Text(argument.to_string_lossy().into_owned()));
        };
        let name = String::from_utf8_lossy(path);
        match path {
            b"-" => Ok(TicketSource::Stdin),
            // A file would be waited for, and named.
            _ if without_tickets(&name) != name => Err(Failure::new(
                Status::Usage,
                "a ticket stands where the name of its file should: leave the @ out, or give the file that holds it",
            )),
            _ => Ok(TicketSource::File(OsStr::from_bytes(path).into())),
        }
    }

    /// Sorts the two optional arguments of `recv` out: where the environment has a ticket, a single argument that
    /// does not look like one is the destination.
    pub fn sort(
        first: Option<OsString>,
        second: Option<OsString>,
        environment: Option<OsString>,
    ) -> Outcome<(TicketSource, Option<PathBuf>)> {
        let environment = environment.filter(|ticket| !ticket.is_empty());
        match (first, second, environment) {
            (Some(destination), None, Some(ticket)) if !looks_like_ticket(&destination) => {
                Ok((TicketSource::of(&ticket)?, Some(destination.into())))
            }
            (Some(ticket), destination, _) => Ok((TicketSource::of(&ticket)?, destination.map(PathBuf::from))),
            (None, destination, Some(ticket)) => Ok((TicketSource::of(&ticket)?, destination.map(PathBuf::from))),
            (None, _, None) => Err(Failure::new(
                Status::Usage,
                "there is no ticket: give the line that mobcast send printed, @FILE, @- or MOBCAST_TICKET",
            )),
        }
    }

    /// Reads and decodes the ticket. A file is waited for until `deadline`; `say` tells the person of the wait, and
    /// of a file that others may read.
    pub async fn read(&self, deadline: Instant, say: &mut impl FnMut(&str)) -> Outcome<Ticket> {
        let text = match self {
            TicketSource::Text(text) => text.clone(),
            TicketSource::Stdin => tokio::task::spawn_blocking(|| read_lines(io::stdin().lock()))
                .await
                .unwrap_or_else(|panic| Err(io::Error::other(panic)))
                .map_err(|error| Failure::new(Status::LocalIo, format_args!("cannot read standard input: {error}")))?,
            TicketSource::File(path) => wait_for(path, deadline, say).await?,
        };
        text.parse().map_err(|error| Failure::new(Status::NotAdmitted, error))
    }

    /// Whether the ticket could still be read from where it came from: a file of an earlier `send` is removed by the
    /// next one.
    pub fn is_current(&self, ticket: &Ticket) -> bool {
        match self {
            TicketSource::File(path) if !is_special(path) => ticket_in(path).is_some_and(|there| there == *ticket),
            TicketSource::File(_) | TicketSource::Text(_) | TicketSource::Stdin => true,
        }
    }

    /// Returns when the ticket is another one than `ticket`: `send` has been started anew. Never returns for what
    /// is not a file.
    pub async fn replaced(&self, ticket: &Ticket) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let TicketSource::File(path) = self else { continue };
            if ticket_in(path).is_some_and(|other| other != *ticket) {
                return;
            }
        }
    }
}

fn looks_like_ticket(argument: &OsStr) -> bool {
    match argument.as_bytes() {
        [b'@', ..] => true,
        [b'm', b'o', b'b', version, rest @ ..] => {
            // Lines may be wrapped.
            let is_of_ticket = |c: &u8| c.is_ascii_alphanumeric() || b"-_".contains(c) || c.is_ascii_whitespace();
            version.is_ascii_digit() && rest.len() >= SECRET_CHARS_MIN && rest.iter().all(is_of_ticket)
        }
        _ => false,
    }
}

/// A text in which of each ticket only the beginning is left.
pub fn without_tickets(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("mob") {
        let (before, found) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = found.find(|c: char| !matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_'));
        let (word, after) = found.split_at(end.unwrap_or(found.len()));
        let is_ticket = word.starts_with(|c: char| c.is_ascii_digit()) && word.len() > SECRET_CHARS_MIN;
        if is_ticket {
            shown.push_str(&word[..1]);
            shown.push('…');
        }
        rest = if is_ticket { after } else { found };
    }
    shown + rest
}

fn read_text(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads until what was read is a ticket, so that a terminal or a pipe need not be closed behind it; terminals and
/// mails wrap lines.
fn read_lines(from: impl BufRead) -> io::Result<String> {
    let mut lines = from.take(TEXT_BYTES_MAX + 1);
    let mut text = String::new();
    while lines.read_line(&mut text)? > 0 && text.parse::<Ticket>().is_err() {}
    Ok(text)
}

/// What stands in a file, and whether others may read it. Something that is no file is opened and read on a thread of its own, which
/// nobody waits for beyond `deadline`.
async fn open_and_read(path: &Path, deadline: Instant, say: &mut impl FnMut(&str)) -> (io::Result<String>, bool) {
    if is_special(path) {
        let special = path.to_owned();
        let mut read = tokio::task::spawn_blocking(move || File::open(special).and_then(read_text));
        let read = match timeout(POLL_INTERVAL, &mut read).await {
            Ok(read) => Ok(read),
            Err(_) => {
                say_waiting(path, say);
                timeout_at(deadline.into(), read).await
            }
        };
        let late = |_| Ok(Err(io::Error::from(ErrorKind::TimedOut)));
        return (read.unwrap_or_else(late).unwrap_or_else(|panic| Err(io::Error::other(panic))), false);
    }
    let metadata = fs::metadata(path);
    let others_may_read = metadata.is_ok_and(|metadata| metadata.mode() & 0o077 != 0);
    (File::open(path).and_then(read_text), others_may_read)
}

/// Whether a ticket file that cannot be read is only not there: it is stale where another machine has removed or replaced it
/// while this one was about to read it.
fn is_to_come(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::NotFound | ErrorKind::TimedOut | ErrorKind::StaleNetworkFileHandle)
}

fn say_waiting(path: &Path, say: &mut impl FnMut(&str)) {
    say(&format!("waiting for the ticket in {}", path.display()));
}

async fn wait_for(path: &Path, deadline: Instant, say: &mut impl FnMut(&str)) -> Outcome<String> {
    let started = Instant::now();
    let (mut is_told, mut before) = (false, None);
    loop {
        let cannot = |error| Failure::new(Status::LocalIo, format_args!("cannot read {}: {error}", path.display()));
        let mut say_once = |words: &str| {
            if !std::mem::replace(&mut is_told, true) {
                say(words);
            }
        };
        let (there, others_may_read) = open_and_read(path, deadline, &mut say_once).await;
        let text = there.as_ref().ok();
        let is_empty = text.is_none_or(|text| text.trim().is_empty());
        // Whoever writes it may just have made it, or be about to replace it where a link leads.
        let is_settled = is_special(path) || text.is_some_and(|text| is_settled(text, before.as_ref()));
        before = text.cloned();
        match there {
            Ok(text) if (!is_empty && is_settled) || Instant::now() >= deadline => {
                if others_may_read {
                    let path = path.display();
                    say(&format!("warning: {path} holds a secret that others may read: chmod 600 {path}"));
                }
                return Ok(text);
            }
            Err(error) if !is_to_come(error.kind()) => return Err(cannot(error)),
            _ if Instant::now() < deadline => {
                if is_empty && !std::mem::replace(&mut is_told, true) {
                    say_waiting(path, say);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            _ => {
                let (path, seconds) = (path.display(), started.elapsed().as_secs());
                let message = format!(
                    "{path} did not appear within {seconds} s: start mobcast send --ticket-file {path}, or give a \
                     longer --wait"
                );
                return Err(Failure::new(Status::NotAdmitted, message));
            }
        }
    }
}

/// Whether what stands in a ticket file stays there: a ticket, or something else that was there at the last look, too.
fn is_settled(text: &str, before: Option<&String>) -> bool {
    text.parse::<Ticket>().is_ok() || before.is_some_and(|before| before == text)
}

/// Whether a path leads to something that is no file and may keep whoever opens it waiting, as a named pipe does.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// The ticket in a file, if there is one.
fn ticket_in(path: &Path) -> Option<Ticket> {
    if is_special(path) {
        return None;
    }
    File::open(path).and_then(read_text).ok()?.parse().ok()
}

/// Removes the ticket file of an earlier `send`, before this one can be reached: whoever is refused with the old ticket
/// then knows that another one will come.
pub fn remove_stale(path: &Path) {
    if ticket_in(path).is_some() {
        // If it cannot be removed, it cannot be replaced either, which is reported then.
        let _ = if path.is_symlink() { write_through(path, "") } else { fs::remove_file(path) };
    }
}

/// Writes a ticket file. What is no file of its own is written to; a named pipe when somebody reads it.
pub fn write_file(path: &Path, ticket: &Ticket) -> Outcome {
    let Some(name) = path.file_name() else {
        return Err(Failure::new(Status::Usage, format_args!("--ticket-file {} is not a file name", path.display())));
    };
    let text = format!("{ticket}\n");
    let cannot = |path: &Path, error| {
        Failure::new(Status::LocalIo, format_args!("cannot write the ticket to {}: {error}", path.display()))
    };
    if fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        let pipe = path.to_owned();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = write_through(&pipe, &text) {
                output::tell(&format!("warning: {}\n", cannot(&pipe, error)));
            }
        });
        return Ok(());
    }
    let written = match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => write_through(path, &text),
        _ => write_renamed(path, name, &text),
    };
    written.map_err(|error| cannot(path, error))
}

/// Writes to where a path leads, for its owner alone if that is a file; a reader sees nothing, or all of it. A file that holds
/// something else is left alone, as a log that `/dev/stderr` leads to. The system follows links as it permits; as `create` is
/// said, it also refuses what somebody else has laid out in a directory like `/tmp`, to read what is written to it.
fn write_through(path: &Path, text: &str) -> io::Result<()> {
    let mut there = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let metadata = there.metadata()?;
    if metadata.is_file() {
        if metadata.len() > 0 && ticket_in(path).is_none() {
            return Err(io::Error::other("it leads to a file that holds something else, which is left as it is"));
        }
        there.set_permissions(Permissions::from_mode(0o600))?;
        there.set_len(0)?;
    }
    there.write_all(text.as_bytes())
}

/// Writes a file under a temporary name with mode 0600, and renames it.
fn write_renamed(path: &Path, name: &OsStr, text: &str) -> io::Result<()> {
    let mut temporary_name = OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    let written = write_new(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // What a killed process of the same number has left is in the way of create_new.
    let _ = fs::remove_file(path);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(
        first: Option<&str>,
        second: Option<&str>,
        env: Option<&str>,
    ) -> Outcome<(TicketSource, Option<PathBuf>)> {
        TicketSource::sort(first.map(Into::into), second.map(Into::into), env.map(Into::into))
    }

    fn text(text: &str) -> TicketSource {
        TicketSource::Text(text.to_owned())
    }

    #[test]
    fn a_ticket_is_a_text_a_file_or_standard_input() {
        assert_eq!(TicketSource::of(OsStr::new("mob1abc")), Ok(text("mob1abc")));
        assert_eq!(TicketSource::of(OsStr::new("@/tmp/t")), Ok(TicketSource::File("/tmp/t".into())));
        assert_eq!(TicketSource::of(OsStr::new("@-")), Ok(TicketSource::Stdin));
    }

    #[test]
    fn of_a_ticket_only_the_beginning_is_shown() {
        let secret = "A1_-".repeat(SECRET_CHARS_MIN / 4);
        for (shown, of) in [
            ("'mob1…' found".to_owned(), format!("'mob1{secret}' found")),
            ("mobmob2…, mob1….".into(), format!("mobmob2{secret}x, mob1{secret}.")),
            (format!("mob{secret} mob1{} mob", &secret[1..]), format!("mob{secret} mob1{} mob", &secret[1..])),
        ] {
            assert_eq!(without_tickets(&of), shown);
        }
    }

    #[test]
    fn a_file_that_another_machine_has_just_replaced_is_waited_for() {
        let answers = [ErrorKind::NotFound, ErrorKind::StaleNetworkFileHandle, ErrorKind::PermissionDenied];
        assert_eq!(answers.map(is_to_come), [true, true, false]);
    }

    #[test]
    fn half_a_ticket_is_looked_at_once_more() {
        let (half, other) = ("mob1abc".to_owned(), "mob1abcd".to_owned());
        assert!(!is_settled(&half, None), "it may be being written");
        assert!(!is_settled(&half, Some(&other)));
        assert!(is_settled(&half, Some(&half)), "it is damaged");
    }

    #[test]
    fn the_environment_makes_the_ticket_optional() {
        let out = || Some(PathBuf::from("out"));
        assert_eq!(sorted(Some("mob1a"), Some("out"), None), Ok((text("mob1a"), out())));
        assert_eq!(sorted(Some("mob1a"), None, None), Ok((text("mob1a"), None)));
        assert_eq!(sorted(Some("out"), None, Some("mob1b")), Ok((text("mob1b"), out())));
        assert_eq!(sorted(Some("-"), None, Some("mob1b")), Ok((text("mob1b"), Some("-".into()))));
        assert_eq!(sorted(None, None, Some("@f")), Ok((TicketSource::File("f".into()), None)));
        let ticket = format!("mob1{}", "a".repeat(SECRET_CHARS_MIN));
        assert_eq!(sorted(Some(&ticket), None, Some("mob1b")), Ok((text(&ticket), None)), "the argument wins");
        let wrapped = format!("{ticket}\n{ticket}\n");
        assert_eq!(sorted(Some(&wrapped), None, Some("mob1b")), Ok((text(&wrapped), None)), "in two lines");
        // Too short for one, and with a character that none has.
        for image in ["mob2024.img", &format!("{ticket}.img")] {
            assert_eq!(sorted(Some(image), None, Some("mob1b")), Ok((text("mob1b"), Some(image.into()))));
        }
        assert_eq!(sorted(Some("mob"), None, Some("mob1b")), Ok((text("mob1b"), Some("mob".into()))));
        for environment in [None, Some("")] {
            assert_eq!(sorted(None, None, environment).map_err(|failure| failure.status), Err(Status::Usage));
        }
    }
}
