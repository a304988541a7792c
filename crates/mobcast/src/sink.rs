//! Where the bytes of a broadcast go.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use mobcast_net::store::SinkTarget;

/// Where an object is put down.
pub struct Sink(pub(crate) SinkTarget);

impl Sink {
    /// To a path: a new name, or an existing directory that takes a file under its own name. Without a path, to the
    /// object's own name in the current directory.
    pub fn path(path: Option<PathBuf>) -> Sink {
        Sink(SinkTarget::Path(path))
    }

    /// Into memory, if the object has at most `max` bytes.
    pub fn bytes(max: u64) -> Sink {
        Sink(SinkTarget::Bytes { max })
    }

    /// In order to a writer, on a thread of its own. What arrives out of order waits in an unnamed temporary file.
    pub fn writer(writer: impl Write + Send + 'static) -> Sink {
        Sink(SinkTarget::Writer(Box::new(writer)))
    }

    /// Nowhere: it is only verified, and held for the peers that are served from it (generated data is generated
    /// again).
    pub fn verify_only() -> Sink {
        Sink(SinkTarget::Verify)
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SinkTarget::Path(path) => f.debug_tuple("Path").field(path).finish(),
            SinkTarget::Bytes { max } => write!(f, "Bytes(at most {max})"),
            SinkTarget::Writer(_) => f.write_str("Writer"),
            SinkTarget::Verify => f.write_str("VerifyOnly"),
        }
    }
}
