//! How well links are emulated.
use crate::cli::CalibrateArgs;
use crate::error::LabError;
/// Runs.
pub fn run(_: &CalibrateArgs) -> Result<(), LabError> {
    Ok(())
}
