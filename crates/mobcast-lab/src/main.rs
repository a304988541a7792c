//! The command `mobcast-lab`.

#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use mobcast_lab::cli::{self, Cli};
use mobcast_lab::error::LabError;
use mobcast_lab::hub::carry;
use mobcast_lab::hub::control::Links;
use mobcast_lab::interrupt::Interrupt;
use mobcast_lab::lab::{self, Lab};
use mobcast_lab::{calibrate, plan, report, run};
use mobcast_topology::files::TopologyFile;
use mobcast_topology::{ClusterIndex, Scenario, is_upper_bound, optimum};

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
    let interrupt = Interrupt::watch()?;
    let lab = Lab::build(&topology, &args.name, false, &interrupt)?;
    let begun = lab.begin(Links::new(&Scenario::steady(topology), args.seed));
    if let Err(error) = begun.and_then(|()| interrupt.check()) {
        lab::down(&args.name)?;
        return Err(error);
    }
    println!(
        "the lab {:?} is up; a command on a node: mobcast-lab exec --name {0} {1} -- ip address",
        lab.name(),
        lab.nodes()[0].name
    );
    for node in lab.nodes() {
        println!("{}\t{}\t{}", node.name, node.cluster, node.address);
    }
    Ok(())
}

fn exec(args: &cli::ExecArgs) -> Result<(), LabError> {
    let lab = Lab::open(&args.name)?;
    let node = lab.node(&args.node)?;
    let error = Command::new("ip").args(["netns", "exec", &node.namespace]).args(&args.command).exec();
    Err(LabError::Tool { tool: "ip".into(), error: error.to_string() })
}

fn down(args: &cli::DownArgs) -> Result<(), LabError> {
    if let Some(name) = &args.name {
        lab::down(name)?;
        println!("removed the lab {name:?}");
        return Ok(());
    }
    let labs = lab::labs();
    if labs.is_empty() {
        println!("there is no lab");
    }
    for (name, owner) in labs {
        if let Some(pid) = owner {
            println!(
                "left the lab {name:?} to process {pid}, which uses it (`mobcast-lab down --name {name}` takes it away)"
            );
        } else {
            lab::down(&name)?;
            println!("removed the lab {name:?}");
        }
    }
    Ok(())
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
            "binding": binding,
        });
        println!("{json}");
    } else {
        let label = if is_upper_bound(&topology) { "optimum at most" } else { "optimum" };
        println!("{label:<16} {}", mb(best.rate_bytes_per_s));
        println!("payload optimum  {}", mb(best.payload_bytes_per_s));
        println!("bound by         {binding}");
    }
    Ok(())
}

fn print_report(args: &cli::ReportArgs) -> Result<(), LabError> {
    let records = report::read(&args.files).map_err(|error| LabError::Usage(error.to_string()))?;
    let report::Lines { runs, striping } = &records;
    let table = match args.compare {
        true => report::compare(runs),
        false if runs.is_empty() && !striping.is_empty() => report::striping_markdown(striping),
        false => report::markdown(runs) + &report::striping_markdown(striping),
    };
    print!("{table}");
    let Some(directory) = &args.output else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(LabError::at(directory))?;
    let charts = match args.compare {
        true => Vec::new(),
        false => [report::charts(runs), report::striping_charts(striping)].concat(),
    };
    let name = if args.compare { "compare.md" } else { "report.md" };
    for (name, text) in charts.into_iter().chain([(name.to_owned(), table)]) {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(LabError::at(&path))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
