//! Bar charts: a group of bars for each scenario, or each layout of nodes where there is one scenario, a bar for each program, the optimum
//! as a line across each group. Here is decided what stands where; how it is drawn is `svg`'s.

use mobcast_topology::record::{RunOutcome, RunRecord};

use super::sizes::over_sizes;
use super::summary::{Spread, Summary, grouped, layout, megabytes, optimum_of, summaries};
use super::svg::{Anchor, Drawing, Stroke, round_step};

const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const PLOT_HEIGHT: f64 = 280.0;
const SLOT: f64 = 32.0;
const BAR: f64 = 24.0;
const GROUP_GAP: f64 = 28.0;
const WIDTH_MIN: f64 = 480.0;
const LEGEND_ROW: f64 = 20.0;
/// Room for the value above the highest bar.
const HEADROOM: f64 = 1.06;
const NOTE: &str =
    "Bars: median of complete runs; whiskers: least and greatest. Line: optimum; dashed: its upper bound.";

/// Bars of one chart.
struct Chart {
    title: String,
    /// Labels of the programs, in the order of the legend.
    series: Vec<String>,
    groups: Vec<Group>,
}

/// Bars of one scenario or layout.
struct Group {
    label: String,
    bars: Vec<Bar>,
    /// Lower and upper bound, MB/s.
    optimum: Option<(f64, f64)>,
}

struct Bar {
    series: usize,
    height: Height,
}

impl Group {
    fn width(&self) -> f64 {
        (self.bars.len() as f64 * SLOT).max(text_width(&self.label) + 8.0 - GROUP_GAP)
    }

    /// Where the lines of the optimum stand: its lower bound, and its upper one where it differs.
    fn lines(&self, axis: &Axis) -> Vec<f64> {
        let Some((lower, upper)) = self.optimum else { return Vec::new() };
        let differs = format!("{lower:.2}") != format!("{upper:.2}");
        [Some(lower), differs.then_some(upper)].into_iter().flatten().map(|rate| axis.y(rate)).collect()
    }
}

enum Height {
    Measured(Spread),
    /// No run counts; why.
    Missing(&'static str),
}

/// More sizes of object than this make curves over the size.
const SIZES_IN_BARS_MAX: usize = 2;

/// Charts of all records as (file name, SVG): bars for each experiment, topology, layout of nodes and size of object. Where an experiment has
/// one scenario, layouts stand in one chart, and many sizes make curves.
pub fn charts(records: &[RunRecord]) -> Vec<(String, String)> {
    let all = summaries(records);
    let mut charts: Vec<(String, String)> = Vec::new();
    let mut add = |parts: &[&str], svg: String| {
        let stem = file_stem(parts);
        let taken = charts.iter().filter(|(name, _)| is_numbered(name, &stem)).count();
        charts.push((if taken == 0 { format!("{stem}.svg") } else { format!("{stem}-{}.svg", taken + 1) }, svg));
    };
    let network = |summary: &&Summary<'_>| (summary.case.experiment.clone(), summary.case.topology.clone());
    let nodes_of = |summary: &Summary<'_>| layout(&summary.case.nodes_per_cluster);
    for ((experiment, topology), cases) in grouped(&all, network) {
        let number_of = |what: &dyn Fn(&Summary<'_>) -> String| grouped(cases.iter(), |case| what(case)).len();
        let is_one = number_of(&|case| case.case.scenario.clone()) == 1;
        if is_one && number_of(&|case| case.case.object_bytes.to_string()) > SIZES_IN_BARS_MAX {
            for (nodes, cases) in grouped(cases, |case| nodes_of(case)) {
                let title = format!("{experiment} on {topology}: {nodes} nodes");
                add(&[&experiment, &topology, &nodes.replace(" × ", "x")], over_sizes(title, &cases));
            }
            continue;
        }
        let in_one_chart = is_one && number_of(&nodes_of) > 1;
        let place = |summary: &&Summary<'_>| {
            let nodes = (!in_one_chart).then(|| nodes_of(summary));
            (nodes, summary.case.object_bytes)
        };
        for ((nodes, bytes), cases) in grouped(cases, place) {
            let size = megabytes(bytes);
            let words = nodes.as_ref().map_or(String::new(), |nodes| format!("{nodes} nodes, "));
            let title = format!("{experiment} on {topology}: {words}{size} MB");
            let label = |summary: &Summary<'_>| match in_one_chart {
                true => nodes_of(summary),
                false => summary.case.scenario.clone(),
            };
            let svg = draw(&gather(title, &cases, label));
            let nodes = nodes.unwrap_or_default().replace(" × ", "x");
            add(&[&experiment, &topology, &nodes, &format!("{size}mb")], svg);
        }
    }
    charts
}

/// Whether a file's name is this stem, alone or with a number.
fn is_numbered(name: &str, stem: &str) -> bool {
    let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(".svg"));
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok()))
}

/// Letters, digits and single dashes.
fn file_stem(parts: &[&str]) -> String {
    let text: String =
        parts.join("-").chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let words: Vec<&str> = text.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

fn gather(title: String, cases: &[&Summary<'_>], label: impl Fn(&Summary<'_>) -> String) -> Chart {
    let series: Vec<String> = grouped(cases, |summary| summary.label()).into_iter().map(|(label, _)| label).collect();
    let group = |(label, members): (String, Vec<&&Summary<'_>>)| {
        let bar = |summary: &Summary<'_>| Bar {
            series: series.iter().position(|label| *label == summary.label()).unwrap_or_default(),
            height: height(summary),
        };
        let mut bars: Vec<Bar> = members.iter().map(|summary| bar(summary)).collect();
        bars.sort_by_key(|bar| bar.series);
        let runs: Vec<&RunRecord> = members.iter().flat_map(|summary| summary.runs.iter().copied()).collect();
        Group { label, bars, optimum: optimum_of(runs.into_iter()) }
    };
    let groups = grouped(cases, |summary| label(summary)).into_iter().map(group).collect();
    Chart { title, series, groups }
}

fn height(summary: &Summary<'_>) -> Height {
    match summary.spread(|run| run.throughput_mb_per_s) {
        Some(spread) => Height::Measured(spread),
        None if summary.count(RunOutcome::Failed) > 0 => Height::Missing("failed"),
        None => Height::Missing("void"),
    }
}

/// The axis: where it ends, and the distance of its ticks.
struct Axis {
    top: f64,
    step: f64,
}

impl Axis {
    /// The shortest axis with round ticks for values up to `highest`.
    fn for_values_up_to(highest: f64) -> Axis {
        let highest = if highest > 0.0 && highest.is_finite() { highest } else { 1.0 };
        let step = round_step(highest);
        Axis { top: (highest / step).ceil() * step, step }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + PLOT_HEIGHT * (1.0 - value.clamp(0.0, self.top) / self.top)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let count = (self.top / self.step).round() as u32;
        (0..=count).map(move |i| {
            let value = f64::from(i) * self.step;
            (value, format!("{value:.decimals$}"))
        })
    }
}

impl Chart {
    fn highest(&self) -> f64 {
        let of_group = |group: &Group| {
            let bars = group.bars.iter().map(|bar| match bar.height {
                Height::Measured(spread) => spread.max,
                Height::Missing(_) => 0.0,
            });
            bars.fold(group.optimum.map_or(0.0, |(_, upper)| upper), f64::max)
        };
        self.groups.iter().map(of_group).fold(0.0, f64::max)
    }

    fn plot_width(&self) -> f64 {
        let groups: f64 = self.groups.iter().map(Group::width).sum();
        let width = groups + (self.groups.len() + 1) as f64 * GROUP_GAP;
        width.max(WIDTH_MIN - LEFT - RIGHT).max(text_width(&self.title) * 1.35 - LEFT).max(text_width(NOTE) - LEFT)
    }

    /// What a listener is told instead of the picture.
    fn description(&self) -> String {
        let bar = |bar: &Bar| match &bar.height {
            Height::Measured(spread) => format!("{} {:.2}", self.series[bar.series], spread.median),
            Height::Missing(why) => format!("{} {why}", self.series[bar.series]),
        };
        let group = |group: &Group| {
            let bars: Vec<String> = group.bars.iter().map(bar).collect();
            let optimum = group.optimum.map_or(String::new(), |(lower, _)| format!(", optimum {lower:.2}"));
            format!("{}: {}{optimum}", group.label, bars.join(", "))
        };
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        format!("MB/s. {}.", groups.join("; "))
    }
}

fn draw(chart: &Chart) -> String {
    let axis = Axis::for_values_up_to(chart.highest() * HEADROOM);
    let plot_width = chart.plot_width();
    let mut drawing = Drawing::default();
    drawing.text((16.0, 24.0), Anchor::Start, "title", &chart.title);
    drawing.text((16.0, 46.0), Anchor::Start, "", "MB/s");
    for (value, text) in axis.ticks() {
        let y = axis.y(value);
        drawing.line((LEFT, y), (LEFT + plot_width, y), if value == 0.0 { Stroke::Thin } else { Stroke::Grid });
        drawing.text((LEFT - 8.0, y + 4.0), Anchor::End, "", &text);
    }
    let mut x = LEFT + GROUP_GAP;
    for group in &chart.groups {
        draw_group(&mut drawing, group, &axis, x);
        x += group.width() + GROUP_GAP;
    }
    let width = LEFT + plot_width + RIGHT;
    let bottom = draw_legend(&mut drawing, &chart.series, width);
    drawing.finish((width, bottom), &chart.title, &chart.description())
}

fn draw_group(drawing: &mut Drawing, group: &Group, axis: &Axis, left: f64) {
    let right = left + group.width();
    let lines = group.lines(axis);
    let first = (left + right - group.bars.len() as f64 * SLOT) / 2.0;
    for (i, bar) in group.bars.iter().enumerate() {
        draw_bar(drawing, bar, axis, first + (i as f64 + 0.5) * SLOT, &lines);
    }
    for (y, stroke) in lines.into_iter().zip([Stroke::Bold, Stroke::BoldDashed]) {
        drawing.line((left - 6.0, y), (right + 6.0, y), stroke);
    }
    let below = TOP + PLOT_HEIGHT;
    drawing.text(((left + right) / 2.0, below + 34.0), Anchor::Middle, "", &group.label);
}

fn draw_bar(drawing: &mut Drawing, bar: &Bar, axis: &Axis, middle: f64, lines: &[f64]) {
    let base = TOP + PLOT_HEIGHT;
    drawing.text((middle, base + 14.0), Anchor::Middle, "small", &(bar.series + 1).to_string());
    match &bar.height {
        Height::Missing(why) => drawing.upright_text((middle + 4.0, base - 4.0), Anchor::Start, "small", why),
        Height::Measured(spread) => {
            let (top, least, greatest) = (axis.y(spread.median), axis.y(spread.min), axis.y(spread.max));
            drawing.bar((middle - BAR / 2.0, top), (BAR, base - top), bar.series);
            if spread.max > spread.min {
                drawing.line((middle, least), (middle, greatest), Stroke::Rimmed);
                for y in [least, greatest] {
                    drawing.line((middle - 4.0, y), (middle + 4.0, y), Stroke::Rimmed);
                }
            }
            let y = clear_of(lines, greatest - 5.0);
            drawing.text((middle, y), Anchor::Middle, "small label", &three_digits(spread.median));
        }
    }
}

/// The height at `y` or above it at which a small text crosses none of these lines, the lowest of which comes first.
fn clear_of(lines: &[f64], y: f64) -> f64 {
    lines.iter().fold(y, |y, line| if (y - 10.0..=y + 3.0).contains(line) { line - 5.0 } else { y })
}

/// The legend below the plot, and the note on what is drawn. Returns where the drawing ends.
fn draw_legend(drawing: &mut Drawing, series: &[String], width: f64) -> f64 {
    let entries: Vec<String> = series.iter().enumerate().map(|(i, label)| format!("{} {label}", i + 1)).collect();
    let column = entries.iter().map(|text| text_width(text)).fold(0.0, f64::max) + 44.0;
    let columns = (((width - 16.0) / column) as usize).max(1);
    let top = TOP + PLOT_HEIGHT + 52.0;
    for (i, entry) in entries.iter().enumerate() {
        let (x, y) = (16.0 + (i % columns) as f64 * column, top + (i / columns) as f64 * LEGEND_ROW);
        drawing.bar((x, y), (20.0, 12.0), i);
        drawing.text((x + 26.0, y + 10.5), Anchor::Start, "", entry);
    }
    let bottom = top + entries.len().div_ceil(columns) as f64 * LEGEND_ROW;
    drawing.text((16.0, bottom + 12.0), Anchor::Start, "small", NOTE);
    bottom + 26.0
}

/// About how wide a text of the usual size is.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.6
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
