//! How the command ends: the exit status that scripts rely on, and the one line that says what to do.

use std::fmt;
use std::process::ExitCode;

use crate::output::printable;
use crate::ticket::without_tickets;

/// The exit statuses of the command's contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Complete and verified everywhere.
    Done = 0,
    /// Failed for a reason that has no status of its own.
    Failed = 1,
    /// Wrong usage.
    Usage = 2,
    /// Not admitted to the group.
    NotAdmitted = 3,
    /// Incomplete: source or peers were lost.
    Incomplete = 4,
    /// This machine's files: no space, no permission, a destination in the way.
    LocalIo = 5,
    /// Interrupted by the user (128 + SIGINT).
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// Why a command ended without success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What the shell is told.
    pub status: Status,
    /// What the person is told: one line, without the leading `mobcast: `.
    pub message: String,
}

impl Failure {
    /// A failure with a message of one line, which quotes no ticket: one may stand in a file name's place.
    pub fn new(status: Status, message: impl fmt::Display) -> Failure {
        // An error of a library may have several lines; scripts count on one.
        let message = message.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Failure { status, message: printable(&without_tickets(&message)) }
    }

    /// The user interrupted the command.
    pub fn interrupted() -> Failure {
        Failure::new(Status::Interrupted, "interrupted")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The end of a command: `Ok` is [`Status::Done`].
pub type Outcome<T = ()> = Result<T, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let failure = Failure::new(Status::Failed, "two\n  lines ");
        assert_eq!(failure.to_string(), "two lines");
    }

    #[test]
    fn words_of_others_do_not_move_the_cursor() {
        let failure = Failure::new(Status::Failed, "aborted: \u{1b}[2Jall is well");
        assert_eq!(failure.to_string(), "aborted: \u{fffd}[2Jall is well");
    }
}
