//! Fuzz targets: each takes any bytes and panics if the protocol does with them what it must never do. The engine that
//! looks for new inputs (`main.rs`, libFuzzer) and the test that replays the known ones (`tests/corpus.rs`) run the
//! same functions. `fuzz/README.md` says how to run them and what was found.
//!
//! | module | what is fed |
//! |---|---|
//! | `codecs` | bytes to the decoders of frames, payload headers and tickets |
//! | `manifest` | a description and batches, right and wrong, to the manifest's chain |
//! | `tree` | bytes to the decoder of tree indexes |
//! | `node` | a sequence of frames, payload, timeouts and failures to a node |

#![forbid(unsafe_code)]

mod codecs;
mod manifest;
mod node;
mod tree;

/// Something to be fed with any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// By which it is asked for; also the directory of its corpus.
    pub name: &'static str,
    /// Longest input that is worth trying, bytes.
    pub input_bytes_max: usize,
    /// Feeds it.
    ///
    /// # Panics
    /// If the protocol does what it must not.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "frame", input_bytes_max: 4096, run: codecs::frame },
    Target { name: "payload_header", input_bytes_max: 32, run: codecs::payload_header },
    Target { name: "ticket", input_bytes_max: 512, run: codecs::ticket },
    Target { name: "manifest", input_bytes_max: 1024, run: manifest::run },
    Target { name: "tree", input_bytes_max: 2048, run: tree::run },
    Target { name: "member", input_bytes_max: 2048, run: node::member },
    Target { name: "coordinator", input_bytes_max: 2048, run: node::coordinator },
];

/// The target of that name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
