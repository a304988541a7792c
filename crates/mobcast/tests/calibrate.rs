//! Measuring the machine: numbers that a model can reckon with, and that are taken by a group.

use mobcast::{Costs, GroupOptions, calibrate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_costs_something_and_not_everything() {
    let costs = calibrate().await.expect("loopback is there");
    assert!(costs.bytes_per_s.is_finite() && costs.bytes_per_s > 1e6, "{costs:?}");
    for time in [costs.piece, costs.hop] {
        assert!((1e-6..1.0).contains(&time.as_secs_f64()), "{costs:?}");
    }
    assert_eq!(GroupOptions::default().costs, Costs::USUAL);
}
