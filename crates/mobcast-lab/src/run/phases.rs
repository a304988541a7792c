//! Where the time of a run went, from the hub's counters over time.

use mobcast_topology::record::Phases;

use crate::hub::carry::SAMPLE_NS;
use crate::hub::control::Counts;

/// The steady part of the imports: between these fractions.
const STEADY: (f64, f64) = (0.1, 0.9);
/// Samples of the steady part at least: what is between two of them is not known.
const SAMPLES_MIN: u64 = 5;

/// Start, steady rate and tail of the broadcast: the steady part is from when all clusters had the first of the fractions until all
/// had the second, as in the simulator. `offset_s` is the start of the sender after the hub's `Begin`; `seconds` the whole.
pub fn phases(counts: &Counts, object_bytes: u64, offset_s: f64, seconds: f64) -> Phases {
    let clusters = counts.links.iter().map(|link| link.to).max().map_or(0, |last| last + 1);
    let imports: Vec<(f64, f64)> = (1..clusters).filter_map(|cluster| steady(counts, cluster, offset_s)).collect();
    let latest = |of: fn(&(f64, f64)) -> f64| imports.iter().map(of).max_by(f64::total_cmp);
    let (Some(from_s), Some(to_s)) = (latest(|import| import.0), latest(|import| import.1)) else {
        return Phases::default();
    };
    if to_s - from_s < (SAMPLES_MIN * SAMPLE_NS) as f64 / 1e9 {
        return Phases::default();
    }
    let bytes = object_bytes as f64;
    let steady_bytes_per_s = (STEADY.1 - STEADY.0) * bytes / (to_s - from_s);
    Phases {
        start_seconds: from_s - STEADY.0 * bytes / steady_bytes_per_s,
        steady_mb_per_s: steady_bytes_per_s / 1e6,
        tail_seconds: seconds - to_s - (1.0 - STEADY.1) * bytes / steady_bytes_per_s,
    }
}

/// When a cluster had imported the first and the last fraction of [`STEADY`], of all that it imported.
fn steady(counts: &Counts, cluster: u32, offset_s: f64) -> Option<(f64, f64)> {
    let into: Vec<usize> = (0..counts.links.len()).filter(|i| counts.links[*i].to == cluster).collect();
    let series: Vec<(f64, f64)> = counts
        .samples
        .iter()
        .map(|(at, bytes)| (*at as f64 / 1e9 - offset_s, into.iter().map(|i| bytes[*i] as f64).sum()))
        .collect();
    let total = series.last().map(|(_, bytes)| *bytes).filter(|total| *total > 0.0)?;
    let when = |part: f64| {
        let reached = series.iter().position(|(_, bytes)| *bytes >= part * total)?;
        let ((t0, b0), (t1, b1)) = (series[reached.saturating_sub(1)], series[reached]);
        Some(if b1 > b0 { t0 + (t1 - t0) * (part * total - b0) / (b1 - b0) } else { t1 })
    };
    Some((when(STEADY.0)?, when(STEADY.1)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::control::LinkCounts;

    #[test]
    fn time_lost_at_both_ends_is_told_from_the_steady_rate() {
        // 100 MB: nothing for a second, 10 MB/s up to 95 MB, then 2.5 MB/s; the last node is complete a half later.
        let link = |from, to| LinkCounts { from, to, ..LinkCounts::default() };
        let bytes = |s: f64| (10e6 * (s - 1.0)).clamp(0.0, 95e6) + (2.5e6 * (s - 10.5)).clamp(0.0, 5e6);
        let samples = (0..150u64).map(|i| (i * 100_000_000, vec![bytes(i as f64 / 10.0) as u64, 0])).collect();
        let counts = Counts { links: vec![link(0, 1), link(1, 0)], samples, ..Counts::default() };
        let phases = phases(&counts, 100_000_000, 0.0, 13.0);
        assert!((phases.steady_mb_per_s - 10.0).abs() < 0.01, "{phases:?}");
        assert!((phases.start_seconds - 1.0).abs() < 0.01, "{phases:?}");
        assert!(
            (phases.tail_seconds - 2.0).abs() < 0.01,
            "10 s of 13 would have been enough after the first: {phases:?}"
        );
        let later = super::phases(&counts, 100_000_000, 0.25, 12.75);
        assert!((later.start_seconds - 0.75).abs() < 0.01, "{later:?}");
    }

    #[test]
    fn the_whole_is_as_slow_as_its_last_clusters() {
        // 100 MB: B begins at once and brings 10 MB/s; C has a tenth after 4 s, and nine tenths after 10 s.
        let link = |to| LinkCounts { from: 0, to, ..LinkCounts::default() };
        let bytes = |s: f64| {
            let c = if s < 4.0 { 2.5e6 * s } else { 10e6 + 80e6 / 6.0 * (s - 4.0) };
            vec![(10e6 * s).min(100e6) as u64, c.min(100e6) as u64]
        };
        let samples = (0..150u64).map(|i| (i * 100_000_000, bytes(i as f64 / 10.0))).collect();
        let counts = Counts { links: vec![link(1), link(2)], samples, ..Counts::default() };
        let phases = phases(&counts, 100_000_000, 0.0, 11.0);
        assert!((phases.steady_mb_per_s - 80.0 / 6.0).abs() < 0.01, "{phases:?}");
        assert!((phases.start_seconds - 3.25).abs() < 0.01, "{phases:?}");
        assert!((phases.start_seconds + 100.0 / phases.steady_mb_per_s + phases.tail_seconds - 11.0).abs() < 1e-6);
    }

    #[test]
    fn what_came_between_a_few_samples_has_none() {
        let link = LinkCounts { from: 0, to: 1, ..LinkCounts::default() };
        let of = |rate: f64| {
            let samples = (0..150u64).map(|i| (i * 100_000_000, vec![(rate * i as f64 / 10.0).min(10e6) as u64]));
            let counts = Counts { links: vec![link.clone()], samples: samples.collect(), ..Counts::default() };
            phases(&counts, 10_000_000, 0.0, 10e6 / rate)
        };
        assert_eq!(of(50e6), Phases::default());
        assert!((of(10e6).steady_mb_per_s - 10.0).abs() < 0.01);
    }

    #[test]
    fn without_wan_links_there_are_none() {
        assert_eq!(phases(&Counts::default(), 1, 0.0, 1.0), Phases::default());
    }
}
