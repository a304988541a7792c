//! Pipes by which the pages of a file reach a socket without being copied: for payload that travels in the clear.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// A pipe that holds one span: references to the pages of a file, no bytes of its own.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: usize,
}

impl Pipe {
    /// An empty pipe for this many bytes of whole pages. An error if the system does not permit pipes so large.
    pub fn new(bytes: usize) -> io::Result<Pipe> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        if fcntl_setpipe_size(&writer, bytes)? < bytes {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Pipe { reader, writer, held: 0 })
    }

    /// Takes `bytes` of `file` from `offset` on, which begins a page; blocks while the disk brings them. Without all of
    /// them the pipe is of no more use.
    pub fn fill(&mut self, file: BorrowedFd<'_>, mut offset: u64, bytes: usize) -> io::Result<()> {
        while self.held < bytes {
            match splice(file, Some(&mut offset), &self.writer, None, bytes - self.held, SpliceFlags::NONBLOCK)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => self.held += more,
            }
        }
        Ok(())
    }

    /// The end that is read.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// So many were read.
    pub fn took(&mut self, bytes: usize) {
        self.held -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_taken_from_a_file_comes_out() {
        let mut file = tempfile::tempfile().expect("a file");
        let data: Vec<u8> = (0..3 * 4096).map(|i| (i / 7) as u8).collect();
        file.write_all(&data).expect("room");
        let mut pipe = Pipe::new(64 << 10).expect("a pipe");
        pipe.fill(file.as_fd(), 4096, 5000).expect("the file has them");
        assert_eq!(pipe.held(), 5000);
        let mut read = vec![0; 5000];
        File::from(pipe.reader.try_clone().expect("a descriptor")).read_exact(&mut read).expect("they are there");
        assert_eq!(read, data[4096..9096]);
    }

    #[test]
    fn a_file_that_ends_too_early_is_an_error() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 100]).expect("room");
        assert!(Pipe::new(64 << 10).expect("a pipe").fill(file.as_fd(), 0, 101).is_err());
    }
}
