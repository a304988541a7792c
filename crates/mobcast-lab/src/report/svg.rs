//! The shapes of a chart as SVG text, written by hand. Text stays text; colours follow the reader's light or dark
//! scheme on a ground of their own, and each filling has a pattern, so that none needs its colour.

use std::fmt::Write;

/// Fillings that differ in pattern and colour.
pub const FILLINGS: usize = 8;

const STYLE: &str = "\
.paper{fill:#ffffff}.ink{fill:#1f2328}.edge{stroke:#1f2328;fill:none}.grid{stroke:#d0d7de}.halo{stroke:#ffffff}
text{font-family:sans-serif;font-size:12px;fill:#1f2328}.small{font-size:10px}.title{font-size:15px;font-weight:bold}
.label{paint-order:stroke;stroke:#ffffff;stroke-width:3px}
@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.edge{stroke:#e6edf3}.grid{stroke:#30363d}\
.halo{stroke:#0d1117}text{fill:#e6edf3}.label{stroke:#0d1117}}
";
/// Ground and pattern of each filling: colours that people with colour blindness can tell apart, neither very light
/// nor very dark.
const PATTERNS: [(&str, &str); FILLINGS] = [
    ("#0072b2", ""),
    ("#e69f00", "M0 8L8 0M-2 2L2-2M6 10L10 6"),
    ("#009e73", "M0 4H8"),
    ("#cc79a7", "M0 0L8 8M-2 6L2 10M6-2L10 2"),
    ("#56b4e9", "M4 0V8"),
    ("#d55e00", "M0 4H8M4 0V8"),
    ("#999999", "M0 0L8 8M8 0L0 8"),
    ("#f0e442", "M3 4H5"),
];

/// How curves are broken, once all colours are taken.
const DASHES: [&str; 2] = ["", " stroke-dasharray=\"6 4\""];
/// Curves of more points have no marks.
const MARKED_MAX: usize = 40;

/// Where a text is held.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// At its beginning.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub enum Stroke {
    /// Thin and pale.
    Grid,
    /// Thin.
    Thin,
    /// Thin, with a rim that keeps it apart from what is below.
    Rimmed,
    /// Thick.
    Bold,
    /// Thick and broken.
    BoldDashed,
}

/// An axis has at most so many steps.
const STEPS_MAX: f64 = 8.0;

/// The distance of round ticks (1, 2 or 5 of a power of ten) for an axis from zero to `highest`, which is above zero.
pub fn round_step(highest: f64) -> f64 {
    let decade = 10f64.powf((highest / STEPS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    steps.into_iter().find(|step| highest <= step * STEPS_MAX).unwrap_or(10.0 * decade)
}

/// A drawing that grows.
#[derive(Debug, Default)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// A line between two points.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        let ends = format!("x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", at(from.0), at(from.1), at(to.0), at(to.1));
        if matches!(stroke, Stroke::Rimmed) {
            let _ = writeln!(self.body, "<line {ends} class=\"halo\" stroke-width=\"4\"/>");
        }
        let look = match stroke {
            Stroke::Grid => "class=\"grid\"",
            Stroke::Thin => "class=\"edge\"",
            Stroke::Rimmed => "class=\"edge\" stroke-width=\"1.5\"",
            Stroke::Bold => "class=\"edge\" stroke-width=\"2\"",
            Stroke::BoldDashed => "class=\"edge\" stroke-width=\"2\" stroke-dasharray=\"6 4\"",
        };
        let _ = writeln!(self.body, "<line {ends} {look}/>");
    }

    /// A rectangle with one of the fillings.
    pub fn bar(&mut self, corner: (f64, f64), size: (f64, f64), filling: usize) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"edge\" style=\"fill:url(#f{})\"/>",
            at(corner.0),
            at(corner.1),
            at(size.0),
            at(size.1),
            filling % FILLINGS
        );
    }

    /// A line through points in one of the fillings' colours, with a mark at each of a few points.
    pub fn curve(&mut self, points: &[(f64, f64)], filling: usize) {
        let (colour, _) = PATTERNS[filling % FILLINGS];
        let dashes = DASHES[filling / FILLINGS % DASHES.len()];
        let text: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", at(*x), at(*y))).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            text.join(" ")
        );
        if points.len() <= MARKED_MAX {
            for (x, y) in points {
                let _ = writeln!(self.body, "<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{colour}\"/>", at(*x), at(*y));
            }
        }
    }

    /// A text; `class` is one of the style's, or empty.
    pub fn text(&mut self, place: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.turned_text(place, anchor, class, text, false);
    }

    /// A text that runs upwards.
    pub fn upright_text(&mut self, place: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        self.turned_text(place, anchor, class, text, true);
    }

    fn turned_text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str, turned: bool) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (at(x), at(y));
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let turn = if turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
        let text = escaped(text);
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"{class}{turn}>{text}</text>");
    }

    /// The whole file; `title` and `description` are for those who hear it.
    pub fn finish(&self, size: (f64, f64), title: &str, description: &str) -> String {
        let (width, height) = (at(size.0), at(size.1));
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{STYLE}</style>\n<defs>\n",
            escaped(title),
            escaped(description)
        );
        for (i, (ground, pattern)) in PATTERNS.iter().enumerate() {
            let _ = writeln!(
                text,
                "<pattern id=\"f{i}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
                 <rect width=\"8\" height=\"8\" fill=\"{ground}\"/>\
                 <path d=\"{pattern}\" stroke=\"#000000\" stroke-width=\"1.5\"/></pattern>"
            );
        }
        let _ = write!(
            text,
            "</defs>\n<rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n{}</svg>\n",
            self.body
        );
        text
    }
}

/// A coordinate, to a tenth.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn escaped(text: &str) -> String {
    let whole = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    whole.chars().filter(|c| !c.is_control()).collect()
}
