//! What can go wrong in the lab, in words that say what to do.

use std::path::PathBuf;

use thiserror::Error;

/// Why something could not be done.
#[derive(Debug, Error)]
pub enum LabError {
    /// A file is wrong. Exit status 2.
    #[error(transparent)]
    File(#[from] mobcast_topology::files::FileError),
    /// Something that was asked for makes no sense. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot have a lab. Exit status 2.
    #[error("{0}")]
    Missing(String),
    /// `ip`, `tc` or another program of the system did not do what it was told.
    #[error("{tool} failed: {error}")]
    Tool {
        /// The program.
        tool: String,
        /// What it said.
        error: String,
    },
    /// There is a lab of that name.
    #[error("the lab {0:?} exists: remove it with `mobcast-lab down --name {0}`, or give yours another --name")]
    Exists(String),
    /// There is none.
    #[error("there is no lab {0:?}: build one with `mobcast-lab up TOPOLOGY.toml --name {0}`")]
    NoLab(String),
    /// The hub cannot be reached or ended.
    #[error("the hub of the lab does not answer ({0}): remove the lab with `mobcast-lab down` and build it again")]
    Hub(std::io::Error),
    /// A file or directory.
    #[error("{}: {error}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A run failed, or all of them; it stands in their records. Exit status 1.
    #[error("{0}")]
    Failed(String),
    /// Interrupted by the user. Exit status 130.
    #[error("interrupted; the network is removed")]
    Interrupted,
}

impl LabError {
    /// For `map_err`: what happened to this path.
    pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> LabError {
        let path = path.into();
        move |error| LabError::Path { path, error }
    }

    /// The command's exit status.
    pub fn status(&self) -> u8 {
        match self {
            LabError::File(_)
            | LabError::Usage(_)
            | LabError::Missing(_)
            | LabError::Exists(_)
            | LabError::NoLab(_) => 2,
            LabError::Path { .. } => 5,
            LabError::Interrupted => 130,
            LabError::Tool { .. } | LabError::Hub(_) | LabError::Failed(_) => 1,
        }
    }
}
