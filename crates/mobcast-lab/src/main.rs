//! The command `mobcast-lab`.

#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;
use mobcast_lab::cli::{self, Cli, print, say};
use mobcast_lab::error::LabError;
use mobcast_lab::hub::carry;
use mobcast_lab::hub::control::Links;
use mobcast_lab::interrupt::Interrupt;
use mobcast_lab::lab::{self, Lab};
use mobcast_lab::{calibrate, plan, report, run};
use mobcast_topology::files::TopologyFile;
use mobcast_topology::{ClusterIndex, Scenario, optimum};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        cli::Command::Up(args) => up(&args),
        cli::Command::Exec(args) => exec(&args),
        cli::Command::Run(args) => run::run(args),
        cli::Command::Report(args) => print_report(&args),
        cli::Command::Optimum(args) => print_optimum(&args),
        cli::Command::Calibrate(args) => calibrate::run(&args),
        cli::Command::Down(args) => down(&args),
        cli::Command::Hub(args) => carry::run(&args.namespaces, &args.socket, args.attached).map_err(LabError::Hub),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mobcast-lab: {error}");
            error.status().into()
        }
    }
}

fn up(args: &cli::UpArgs) -> Result<(), LabError> {
    let topology = TopologyFile::load(&args.topology)?.topology;
    plan::check(&topology, &args.topology)?;
    plan::say_without_effect(&topology);
    let interrupt = Interrupt::watch()?;
    let lab = Lab::build(&topology, &args.name, false, &interrupt)?;
    let begun = lab.begin(Links::new(&Scenario::steady(topology), args.seed));
    if let Err(error) = begun.and_then(|()| interrupt.check()) {
        lab::down(&args.name)?;
        return Err(error);
    }
    let (name, first) = (lab.name(), &lab.nodes()[0].name);
    say(format!("the lab {name:?} is up; a command on a node: mobcast-lab exec --name {name} {first} -- ip address"))?;
    lab.nodes().iter().try_for_each(|node| say(format!("{}\t{}\t{}", node.name, node.cluster, node.address)))
}

fn exec(args: &cli::ExecArgs) -> Result<(), LabError> {
    lab::check_root()?;
    let lab = Lab::open(&args.name)?;
    let node = lab.node(&args.node)?;
    let error = Command::new("ip").args(["netns", "exec", &node.namespace]).args(&args.command).exec();
    Err(LabError::Tool { tool: "ip".into(), error: error.to_string() })
}

fn down(args: &cli::DownArgs) -> Result<(), LabError> {
    lab::check_root()?;
    if let Some(name) = &args.name {
        lab::down(name)?;
        return say(format!("removed the lab {name:?}"));
    }
    let labs = lab::labs();
    if labs.is_empty() {
        say("there is no lab")?;
    }
    // What one does not let go is no reason to leave the others.
    let mut done = Ok(());
    for (name, owner) in labs {
        if let Some(pid) = owner {
            say(format!(
                "left the lab {name:?} to process {pid}, which uses it (`mobcast-lab down --name {name}` takes it away)"
            ))?;
            continue;
        }
        match lab::down(&name) {
            Ok(()) => say(format!("removed the lab {name:?}"))?,
            Err(error) if done.is_ok() => done = Err(error),
            Err(error) => eprintln!("mobcast-lab: {error}"),
        }
    }
    done
}

fn print_optimum(args: &cli::OptimumArgs) -> Result<(), LabError> {
    let topology = TopologyFile::load(&args.topology)?.topology;
    let best = optimum(&topology, ClusterIndex(0));
    let mb = |rate: Option<u64>| rate.map_or("unlimited".to_owned(), |rate| format!("{:.3} MB/s", rate as f64 / 1e6));
    let binding = best.binding.describe(&topology);
    if args.json {
        let json = serde_json::json!({
            "optimum_mb_per_s": best.rate_bytes_per_s.map(|rate| rate as f64 / 1e6),
            "payload_optimum_mb_per_s": best.payload_bytes_per_s.map(|rate| rate as f64 / 1e6),
            "is_upper_bound": best.is_upper_bound,
            "binding": binding,
        });
        say(json)
    } else {
        let labels =
            if best.is_upper_bound { ["optimum at most", "payload at most"] } else { ["optimum", "payload optimum"] };
        let [label, of_payload] = labels;
        let [rate, payload] = [best.rate_bytes_per_s, best.payload_bytes_per_s].map(mb);
        say(format!("{label:<16} {rate}\n{of_payload:<16} {payload}\nbound by         {binding}"))
    }
}

fn print_report(args: &cli::ReportArgs) -> Result<(), LabError> {
    let records = report::read(&args.files).map_err(|error| LabError::Usage(error.to_string()))?;
    let report::Lines { runs, striping } = &records;
    let table = match args.compare {
        true => report::compare(runs),
        false if runs.is_empty() && !striping.is_empty() => report::striping_markdown(striping),
        false => report::markdown(runs) + &report::striping_markdown(striping),
    };
    if let Some(directory) = &args.output {
        write_report(&records, directory, &table, args.compare)?;
    }
    print(&table)
}

/// The charts, and the table beside them.
fn write_report(records: &report::Lines, directory: &Path, table: &str, compare: bool) -> Result<(), LabError> {
    std::fs::create_dir_all(directory).map_err(LabError::at(directory))?;
    let charts = match compare {
        true => Vec::new(),
        false => [report::charts(&records.runs), report::striping_charts(&records.striping)].concat(),
    };
    let name = if compare { "compare.md" } else { "report.md" };
    for (name, text) in charts.into_iter().chain([(name.to_owned(), table.to_owned())]) {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(LabError::at(&path))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
