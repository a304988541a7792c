//! Memory of nodes that carry an object far larger than memory should be.

use super::super::Scenario;
use super::super::network::Network;
use super::super::programs::{self, Payload, Transfer};
use super::super::samples::{Bound, Goal, MEMORY};

const GENERATED: &str = "mobcast --verify-only";

/// Generated at the root, verified and dropped at the receiver.
pub const LARGE_OBJECT: Scenario = Scenario {
    name: "large-object",
    about: "20 GiB of generated data, verified and not kept",
    references: &[],
    goals: &[Goal { subject: GENERATED, quantity: MEMORY, beside: None, bound: Bound::AtMost(96.0) }],
    round: |setting| {
        let bytes = setting.bytes_or(20 << 30);
        let from = format!("synthetic:{bytes}");
        let to = |_| vec!["--verify-only".to_owned()];
        let transfer = Transfer { from, bytes, payload: Payload::Tls, to: &to };
        Ok(programs::mobcast(setting, &Network::wire()?, &transfer)?.samples(GENERATED).to_vec())
    },
};
