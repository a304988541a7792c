//! Line charts: curves of one quantity over another, told apart by colour, mark and number.

use super::svg::{Anchor, Drawing, Stroke, round_step};

const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEGEND_ROW: f64 = 18.0;
const LEGEND_COLUMN: f64 = 300.0;

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// From zero.
    Linear,
    /// From a power of ten to another.
    Logarithmic,
}

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub label: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// What lies to the right.
    pub x: &'static str,
    /// What lies above.
    pub y: &'static str,
    /// Of the horizontal axis.
    pub across: Scale,
    /// Of the vertical axis.
    pub scale: Scale,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// An axis from `low` to `high` with its ticks.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    scale: Scale,
}

impl Axis {
    fn of(scale: Scale, values: &[f64]) -> Axis {
        match scale {
            Scale::Linear => Axis::linear(values.iter().copied().fold(0.0, f64::max)),
            Scale::Logarithmic => Axis::logarithmic(values),
        }
    }

    fn linear(highest: f64) -> Axis {
        let highest = if highest > 0.0 && highest.is_finite() { highest } else { 1.0 };
        let step = round_step(highest);
        let count = (highest / step).ceil();
        let ticks = (0..=count as u32).map(|i| f64::from(i) * step).collect();
        Axis { low: 0.0, high: count * step, ticks, scale: Scale::Linear }
    }

    fn logarithmic(values: &[f64]) -> Axis {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let low = positive().fold(f64::INFINITY, f64::min).min(1.0).log10().floor() as i32;
        let high = positive().fold(1.0, f64::max).log10().ceil().max(f64::from(low + 1)) as i32;
        let ticks = (low..=high).map(|exponent| 10f64.powi(exponent)).collect();
        Axis { low: 10f64.powi(low), high: 10f64.powi(high), ticks, scale: Scale::Logarithmic }
    }

    /// A tick's value, with as many decimals as tell it from its neighbours.
    fn text(&self, tick: f64) -> String {
        let apart = match self.scale {
            Scale::Linear => self.ticks[1] - self.ticks[0],
            Scale::Logarithmic => tick,
        };
        let decimals = (-apart.log10().floor()).max(0.0) as usize;
        format!("{tick:.decimals$}")
    }

    /// Where a value stands, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        }
    }
}

impl Plot {
    /// The chart as SVG text.
    pub fn draw(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let across = Axis::of(self.across, &points().map(|(x, _)| x).collect::<Vec<_>>());
        let up = Axis::of(self.scale, &points().map(|(_, y)| y).collect::<Vec<_>>());
        let place = |(x, y): (f64, f64)| (LEFT + WIDTH * across.part(x), TOP + HEIGHT * (1.0 - up.part(y)));
        let mut drawing = Drawing::default();
        drawing.text((16.0, 24.0), Anchor::Start, "title", &self.title);
        drawing.text((16.0, 46.0), Anchor::Start, "", self.y);
        for &tick in &up.ticks {
            let (_, y) = place((0.0, tick));
            let stroke = if tick == up.low { Stroke::Thin } else { Stroke::Grid };
            drawing.line((LEFT, y), (LEFT + WIDTH, y), stroke);
            drawing.text((LEFT - 8.0, y + 4.0), Anchor::End, "", &up.text(tick));
        }
        for &tick in &across.ticks {
            let (x, y) = place((tick, up.low));
            drawing.line((x, y), (x, y + 4.0), Stroke::Thin);
            drawing.text((x, y + 18.0), Anchor::Middle, "", &across.text(tick));
        }
        drawing.text((LEFT + WIDTH / 2.0, TOP + HEIGHT + 36.0), Anchor::Middle, "", self.x);
        for (i, curve) in self.curves.iter().enumerate() {
            let placed: Vec<(f64, f64)> = curve.points.iter().map(|point| place(*point)).collect();
            drawing.curve(&placed, i);
        }
        let columns = ((LEFT + WIDTH) / LEGEND_COLUMN) as usize;
        let top = TOP + HEIGHT + 58.0;
        for (i, curve) in self.curves.iter().enumerate() {
            let (x, y) = (16.0 + (i % columns) as f64 * LEGEND_COLUMN, top + (i / columns) as f64 * LEGEND_ROW);
            drawing.curve(&[(x, y), (x + 24.0, y)], i);
            drawing.text((x + 32.0, y + 4.0), Anchor::Start, "", &curve.label);
        }
        let bottom = top + self.curves.len().div_ceil(columns) as f64 * LEGEND_ROW + 8.0;
        let names: Vec<&str> = self.curves.iter().map(|curve| curve.label.as_str()).collect();
        let description = format!("{} over {}: {}.", self.y, self.x, names.join("; "));
        drawing.finish((LEFT + WIDTH + RIGHT, bottom), &self.title, &description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_goes_from_power_to_power() {
        let axis = Axis::logarithmic(&[4.0, 413.0]);
        assert_eq!(axis.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((axis.part(100.0) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(Axis::logarithmic(&[]).ticks, [1.0, 10.0]);
    }

    #[test]
    fn a_ticks_text_tells_it_from_the_next() {
        let texts = |highest: f64| {
            let axis = Axis::linear(highest);
            axis.ticks.iter().map(|tick| axis.text(*tick)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(texts(4.0), "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0");
        assert_eq!(texts(0.6), "0.0 0.1 0.2 0.3 0.4 0.5 0.6");
        assert_eq!(texts(40.0), "0 5 10 15 20 25 30 35 40");
        let axis = Axis::logarithmic(&[0.05, 20.0]);
        assert_eq!(
            axis.ticks.iter().map(|tick| axis.text(*tick)).collect::<Vec<_>>(),
            ["0.01", "0.1", "1", "10", "100"]
        );
    }

    #[test]
    fn every_curve_is_drawn_and_named() {
        let curve = |label: &str| Curve { label: label.into(), points: vec![(1.0, 2.0), (3.0, 4.0)] };
        let curves = vec![curve("one"), curve("two <&")];
        let (across, scale) = (Scale::Linear, Scale::Linear);
        let plot = Plot { title: "t".into(), x: "a", y: "b", across, scale, curves };
        let svg = plot.draw();
        assert_eq!(svg.matches("<polyline").count(), 4, "two curves and their marks in the legend: {svg}");
        assert!(svg.contains("two &lt;&amp;"));
    }
}
