//! `mobcast strategies`: the ways in which nodes can exchange pieces.

use clap::Args;
use clap::builder::BoolishValueParser;
use mobcast::{AUTO, STRATEGIES, StrategyKind};
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::{print_bytes, print_json};

/// List the strategies by which nodes exchange pieces
#[derive(Args, Debug)]
pub struct StrategiesArgs {
    /// Print an array of objects with name, summary, whether it is the default and whether it needs --gauge
    #[arg(long, env = "MOBCAST_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: &'static str,
    default: bool,
    needs_gauge: bool,
}

/// Prints one line for each, the default first.
pub fn run(args: StrategiesArgs) -> Outcome {
    let auto = Entry {
        name: AUTO,
        summary: "mob, or where all have gathered (--gather) a tree that a cost model predicts to be faster",
        default: true,
        needs_gauge: false,
    };
    let entry = |kind: &StrategyKind| Entry {
        name: kind.name,
        summary: kind.summary,
        default: false,
        needs_gauge: kind.needs_network,
    };
    let entries: Vec<Entry> = std::iter::once(auto).chain(STRATEGIES.iter().map(entry)).collect();
    if args.json {
        return print_json(&entries);
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let line = |entry: &Entry| {
        let mark = if entry.default { " (default)" } else { "" };
        format!("{:width$}  {}{mark}\n", entry.name, entry.summary)
    };
    print_bytes(entries.iter().map(line).collect::<String>().as_bytes())
}
