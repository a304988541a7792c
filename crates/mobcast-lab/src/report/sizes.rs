//! Throughput over the size of the object, a curve for each program, for experiments with many sizes (MOB paper, experiment 4; Figures 3
//! and 4 of "MPI vs BitTorrent").

use super::curves::{Curve, Plot, Scale};
use super::summary::{Summary, grouped};

/// The chart of these cases, which differ in program and size, as SVG.
pub fn over_sizes(title: String, cases: &[&Summary<'_>]) -> String {
    let megabytes = |summary: &Summary<'_>| summary.case.object_bytes as f64 / 1e6;
    let sorted = |mut points: Vec<(f64, f64)>| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let curve = |(label, members): (String, Vec<&&Summary<'_>>)| {
        let point =
            |summary: &&&Summary<'_>| Some((megabytes(summary), summary.spread(|run| run.throughput_mb_per_s)?.median));
        Curve { label, points: sorted(members.iter().filter_map(point).collect()) }
    };
    let mut curves: Vec<Curve> = grouped(cases, |summary| summary.label()).into_iter().map(curve).collect();
    let optima = grouped(cases, |summary| summary.case.object_bytes).into_iter();
    let optima = optima.filter_map(|(_, members)| Some((megabytes(members[0]), members[0].optimum()?.0)));
    curves.push(Curve { label: "optimum".into(), points: sorted(optima.collect()) });
    curves.retain(|curve| !curve.points.is_empty());
    let (across, scale) = (Scale::Logarithmic, Scale::Logarithmic);
    Plot { title, x: "MB", y: "MB/s, medians of complete runs", across, scale, curves }.draw()
}
