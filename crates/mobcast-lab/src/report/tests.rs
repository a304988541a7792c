//! Reports of a few hand-made records.

use std::io::Write;

use expect_test::expect;
use mobcast_topology::record::{Case, Emulation, NodeRecord, Phases, RunOutcome, RunRecord, Settings, WanTraffic};

use super::{ReportError, charts, compare, markdown, read_noting};

/// A complete run of ours in the lab on M2, with 10 MB/s of optimum.
fn run(scenario: &str, repetition: u32, rate: f64) -> RunRecord {
    RunRecord {
        case: Case {
            experiment: "mob-1".into(),
            instrument: "lab".into(),
            topology: "m2".into(),
            nodes_per_cluster: vec![4, 4, 4, 4],
            scenario: scenario.into(),
            program: "mobcast".into(),
            strategy: "mob".into(),
            object_bytes: 100_000_000,
            named_clusters: true,
        },
        repetition,
        seed: 7,
        date: "2026-11-20T10:00:00Z".into(),
        machine: "2 cores".into(),
        versions: [("mobcast".to_owned(), "0.1.0".to_owned())].into(),
        outcome: RunOutcome::Complete,
        seconds: 100.0 / rate,
        throughput_mb_per_s: rate,
        optimum_mb_per_s: 10.0,
        optimum_upper_mb_per_s: 10.0,
        fraction: rate / 10.0,
        phases: Phases { start_seconds: 0.5, steady_mb_per_s: rate + 0.5, tail_seconds: 0.25 },
        wan_copies: [("B".to_owned(), 1.004), ("C".to_owned(), 1.001)].into(),
        wan: vec![WanTraffic { unique_bytes: 990, repeated_bytes: 10, lost_in_queue: 3, ..WanTraffic::default() }],
        emulation: Some(Emulation { cpu_busy_percent: 40.0 + rate, late_p99_ms: 0.5, ..Emulation::default() }),
        ..RunRecord::default()
    }
}

fn rival(mut record: RunRecord, name: &str) -> RunRecord {
    record.case.program = name.into();
    record.case.strategy.clear();
    record.phases = Phases::default();
    record.wan_copies.clear();
    record
}

fn ended(mut record: RunRecord, outcome: RunOutcome, reason: &str) -> RunRecord {
    record.outcome = outcome;
    record.reason = Some(reason.into());
    record
}

fn simulated(mut record: RunRecord) -> RunRecord {
    record.case.instrument = "sim-fluid".into();
    record.emulation = None;
    record
}

/// Ours and a rival, two scenarios, one run void and one failed.
fn few() -> Vec<RunRecord> {
    let mayhem = |rate| RunRecord { optimum_mb_per_s: 4.6, optimum_upper_mb_per_s: 5.5, ..run("mayhem", 0, rate) };
    vec![
        run("fast", 0, 9.5),
        rival(run("fast", 0, 3.8), "openmpi"),
        mayhem(4.5),
        run("fast", 1, 9.4),
        ended(run("fast", 2, 99.0), RunOutcome::Void, "the processor was 93 % busy"),
        run("fast", 3, 9.1),
        ended(rival(mayhem(0.0), "openmpi"), RunOutcome::Failed, "B2 hung | killed"),
    ]
}

#[test]
fn the_table_has_medians_of_what_counts_and_names_the_rest() {
    expect![[r#"
        ## mob-1 on m2

        | scenario | nodes | MB | program | strategy | instrument | runs: complete/void/failed | MB/s | min–max | optimum | fraction | ms each | nodes at s: half, 99 %, all | start s | steady MB/s | tail s | WAN copies | repeated % | lost in queues | CPU busy % | hub late p99 ms | ours ÷ it |
        | --- | --- | --: | --- | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |
        | fast | 4 × 4 | 100 | mobcast | mob | lab | 3/1/0 | 9.40 | 9.10–9.50 | 10.00 | 0.940 | – | – | 0.50 | 9.90 | 0.25 | 1.004 | 1.00 | 3 | 50 | 0.5 | – |
        | fast | 4 × 4 | 100 | openmpi | – | lab | 1/0/0 | 3.80 | 3.80–3.80 | 10.00 | 0.380 | – | – | – | – | – | – | 1.00 | 3 | 44 | 0.5 | 2.47 |
        | mayhem | 4 × 4 | 100 | mobcast | mob | lab | 1/0/0 | 4.50 | 4.50–4.50 | 4.60–5.50 | 0.450 | – | – | 0.50 | 5.00 | 0.25 | 1.004 | 1.00 | 3 | 44 | 0.5 | – |
        | mayhem | 4 × 4 | 100 | openmpi | – | lab | 0/0/1 | – | – | 4.60–5.50 | – | – | – | – | – | – | – | – | – | – | – | – |

        Medians of the complete runs; WAN copies are those of the cluster that imported most, processor and lateness the highest of them; in parentheses what void runs gave, where no run counts; ours is the strategy of mobcast that stands first. 1 MB is 10^6 bytes of payload; the optimum is of payload too, with its lower and upper bound where links change.

        Not in the medians:

        - fast, 4 × 4 nodes, 100 MB, mob, no. 3: void: the processor was 93 % busy
        - mayhem, 4 × 4 nodes, 100 MB, openmpi, no. 1: failed: B2 hung \| killed

        Measured on 2026-11-20. Machine: 2 cores. Versions: mobcast 0.1.0.
    "#]].assert_eq(&markdown(&few()));
}

#[test]
fn where_no_run_counts_the_table_shows_void_ones_in_parentheses() {
    let void = ended(run("fast", 0, 9.0), RunOutcome::Void, "the processor was 93 % busy");
    let table = markdown(std::slice::from_ref(&void));
    assert!(table.contains("| 0/1/0 | (9.00) | (9.00–9.00) | 10.00 | (0.900) | – |"), "{table}");
    assert!(charts(&[void])[0].1.contains(">void<"));
}

#[test]
fn an_optimum_that_may_be_lower_is_at_most() {
    let record = RunRecord { optimum_at_most: true, ..run("fast", 0, 9.0) };
    assert_eq!(record.fraction_in_words(), ", at least 0.900 of the optimum");
    let table = markdown(&[record]);
    assert!(
        table.contains("| ≤ 10.00 | ≥ 0.900 |") && table.contains("; ≤ where the true one may be lower."),
        "{table}"
    );
}

#[test]
fn the_table_tells_when_half_99_of_100_and_all_receivers_were_complete() {
    let mut record = run("fast", 0, 9.0);
    // The root comes first and does not count.
    let node = |seconds: u32| NodeRecord { seconds: f64::from(seconds), ..NodeRecord::default() };
    record.nodes = (0..=200).map(node).collect();
    assert!(markdown(&[record]).contains("| 100.0, 198.0, 200.0 |"));
}

#[test]
fn lab_and_simulator_stand_side_by_side() {
    let records = [run("fast", 0, 9.0), simulated(run("fast", 0, 9.9)), run("slow", 0, 7.0)];
    expect![[r#"
        | experiment | scenario | nodes | MB | program | simulator | lab MB/s | simulated | difference % | lab steady MB/s | simulated | difference % | lab start s | simulated | lab tail s | simulated |
        |---|---|---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
        | mob-1 | fast | 4 × 4 | 100 | mob | sim-fluid | 9.00 | 9.90 | +10.0 | 9.50 | 10.40 | +9.5 | 0.50 | 0.50 | 0.25 | 0.25 |
    "#]].assert_eq(&compare(&records));
    let void = ended(run("fast", 0, 99.0), RunOutcome::Void, "busy");
    let row = compare(&[void, simulated(run("fast", 0, 9.9))]);
    assert!(row.contains("| sim-fluid | – | 9.90 | – | – | 10.40 | – | – | 0.50 | – | 0.25 |"), "{row}");
    assert_eq!(compare(&records[..1]), "No case ran both in the lab and in a simulator.\n");
}

#[test]
fn a_chart_has_a_bar_for_each_program_that_ran_and_the_optimum() {
    let drawn = charts(&few());
    let [(name, svg)] = &drawn[..] else { panic!("{} charts", drawn.len()) };
    assert_eq!(name, "mob-1-m2-4x4-100mb.svg");
    let count = |what: &str| svg.matches(what).count();
    // Three bars and two swatches; whiskers where runs differ; the void run of 99 MB/s does not stretch the axis.
    assert_eq!(count("style=\"fill:url(#f"), 5, "{svg}");
    assert_eq!(count("class=\"edge\" stroke-width=\"1.5\""), 3);
    assert_eq!((count("stroke-width=\"2\""), count("stroke-dasharray")), (3, 1), "two optima, one with a bracket");
    for text in [">fast<", ">mayhem<", ">1 mob<", ">2 openmpi<", ">9.40<", ">failed<", ">MB/s<", ">12<"] {
        assert_eq!(count(text), 1, "{text} in {svg}");
    }
    expect!["MB/s. fast: mob 9.40, openmpi 3.80, optimum 10.00; mayhem: mob 4.50, openmpi failed, optimum 4.60."]
        .assert_eq(svg.split("<desc>").nth(1).and_then(|rest| rest.split('<').next()).unwrap());
}

#[test]
fn with_one_scenario_layouts_stand_in_one_chart_and_many_sizes_make_curves() {
    let with = |nodes: u32, bytes: u64| {
        let mut record = run("steady", 0, f64::from(nodes));
        (record.case.nodes_per_cluster, record.case.object_bytes) = (vec![nodes, nodes], bytes);
        record
    };
    let layouts = charts(&[with(1, 1_000_000), with(8, 1_000_000)]);
    let [(name, svg)] = &layouts[..] else { panic!("{} charts", layouts.len()) };
    assert_eq!(name, "mob-1-m2-1mb.svg");
    assert!(svg.contains(">2 × 1<") && svg.contains(">2 × 8<"), "{svg}");
    let records: Vec<RunRecord> =
        [8, 1].iter().flat_map(|n| [1_000_000, 32_768, 8_000_000].map(|b| with(*n, b))).collect();
    let curves = charts(&records);
    let names: Vec<&str> = curves.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["mob-1-m2-2x8.svg", "mob-1-m2-2x1.svg"]);
    let curve = &curves[0].1;
    assert!(curve.contains(">0.01<") && curve.contains(">mob<") && curve.contains(">optimum<"), "{curve}");
}

#[test]
fn the_shapes_of_a_chart_stay_as_they_are() {
    let (_, svg) = charts(&[run("fast", 0, 9.5), run("fast", 1, 9.0)]).remove(0);
    let shapes = svg.split("</defs>\n").nth(1).unwrap();
    expect![[r#"
        <rect width="684" height="442" class="paper"/>
        <text x="16" y="24" text-anchor="start" class="title">mob-1 on m2: 4 × 4 nodes, 100 MB</text>
        <text x="16" y="46" text-anchor="start">MB/s</text>
        <line x1="60" y1="344" x2="660" y2="344" class="edge"/>
        <text x="52" y="348" text-anchor="end">0</text>
        <line x1="60" y1="297.3" x2="660" y2="297.3" class="grid"/>
        <text x="52" y="301.3" text-anchor="end">2</text>
        <line x1="60" y1="250.7" x2="660" y2="250.7" class="grid"/>
        <text x="52" y="254.7" text-anchor="end">4</text>
        <line x1="60" y1="204" x2="660" y2="204" class="grid"/>
        <text x="52" y="208" text-anchor="end">6</text>
        <line x1="60" y1="157.3" x2="660" y2="157.3" class="grid"/>
        <text x="52" y="161.3" text-anchor="end">8</text>
        <line x1="60" y1="110.7" x2="660" y2="110.7" class="grid"/>
        <text x="52" y="114.7" text-anchor="end">10</text>
        <line x1="60" y1="64" x2="660" y2="64" class="grid"/>
        <text x="52" y="68" text-anchor="end">12</text>
        <text x="104" y="358" text-anchor="middle" class="small">1</text>
        <rect x="92" y="128.2" width="24" height="215.8" class="edge" style="fill:url(#f0)"/>
        <line x1="104" y1="134" x2="104" y2="122.3" class="halo" stroke-width="4"/>
        <line x1="104" y1="134" x2="104" y2="122.3" class="edge" stroke-width="1.5"/>
        <line x1="100" y1="134" x2="108" y2="134" class="halo" stroke-width="4"/>
        <line x1="100" y1="134" x2="108" y2="134" class="edge" stroke-width="1.5"/>
        <line x1="100" y1="122.3" x2="108" y2="122.3" class="halo" stroke-width="4"/>
        <line x1="100" y1="122.3" x2="108" y2="122.3" class="edge" stroke-width="1.5"/>
        <text x="104" y="105.7" text-anchor="middle" class="small label">9.25</text>
        <line x1="82" y1="110.7" x2="126" y2="110.7" class="edge" stroke-width="2"/>
        <text x="104" y="378" text-anchor="middle">fast</text>
        <rect x="16" y="396" width="20" height="12" class="edge" style="fill:url(#f0)"/>
        <text x="42" y="406.5" text-anchor="start">1 mob</text>
        <text x="16" y="428" text-anchor="start" class="small">Bars: median of complete runs; whiskers: least and greatest. Line: optimum; dashed: its upper bound.</text>
        </svg>
    "#]].assert_eq(shapes);
}

#[test]
fn layouts_sizes_and_experiments_have_charts_of_their_own() {
    let mut others = vec![run("fast", 0, 9.0); 4];
    others[1].case.object_bytes = 12_500_000;
    others[2].case.nodes_per_cluster = vec![4, 12, 16];
    others[3].case.experiment = "MOB 1".into();
    let mut slow = others.clone();
    slow.iter_mut().for_each(|record| record.case.scenario = "slow".into());
    others.append(&mut slow);
    let names: Vec<String> = charts(&others).into_iter().map(|(name, _)| name).collect();
    let expected =
        ["mob-1-m2-4x4-100mb.svg", "mob-1-m2-4x4-12.5mb.svg", "mob-1-m2-4-12-16-100mb.svg", "mob-1-m2-4x4-100mb-2.svg"];
    assert_eq!(names, expected);
}

#[test]
fn names_cannot_break_the_drawing_or_the_table() {
    let mut record = run("<script>&", 0, 9.0);
    record.case.experiment = "a|b\n".into();
    let (name, svg) = charts(std::slice::from_ref(&record)).remove(0);
    assert_eq!(name, "a-b-m2-4x4-100mb.svg");
    assert!(svg.contains(">&lt;script&gt;&amp;<") && !svg.contains("<script"), "{svg}");
    assert!(markdown(&[record]).starts_with("## a\\|b  on m2\n"));
}

#[test]
fn the_last_line_of_a_run_counts_and_the_order_of_lines_does_not_matter_to_medians() {
    let repeated = [run("fast", 0, 2.0), run("fast", 0, 9.0)];
    assert!(markdown(&repeated).contains("| 1/0/0 | 9.00 | 9.00–9.00 |"), "{}", markdown(&repeated));
    let [a, b] = [run("fast", 0, 9.0), run("fast", 1, 8.0)];
    assert_eq!(markdown(&[a.clone(), b.clone()]), markdown(&[b, a]));
}

/// A run on a network that this text describes.
fn on(network: &str, changes: &str, record: RunRecord) -> RunRecord {
    let settings = Settings {
        network: network.into(),
        changes: changes.into(),
        piece_size: None,
        plain: false,
        gather: true,
        rounds: None,
        trust_members: false,
        gauge: true,
        timeout_s: 60.0,
    };
    RunRecord { settings: Some(settings), ..record }
}

#[test]
fn runs_of_a_network_that_was_edited_are_in_no_median_with_those_of_the_other() {
    let old = (0..5).map(|number| on("AB 3", "none", run("fast", number, 5.0)));
    let lines: Vec<RunRecord> = old.chain((0..3).map(|number| on("AB 6", "none", run("fast", number, 9.0)))).collect();
    let table = markdown(&lines);
    assert!(table.contains("| 3/0/0 | 9.00 | 9.00–9.00 |"), "{table}");
    let left_out = "5 runs with other settings or on another network than the last run are left out";
    assert!(table.contains(&format!("- fast, 4 × 4 nodes, 100 MB, mob: {left_out}\n")), "{table}");
    // One of five was made again, and then somebody interrupted it.
    let table = markdown(&lines[..6]);
    assert!(table.contains("| 1/0/0 | 9.00 |") && table.contains(left_out), "{table}");
    let both = [&lines[..], &lines.iter().cloned().map(simulated).collect::<Vec<_>>()].concat();
    assert!(compare(&both).contains("\n10 runs with other settings"), "{}", compare(&both));
    let without = [run("fast", 0, 5.0), lines[6].clone()];
    assert!(markdown(&without).contains("| 2/0/0 |"), "lines of versions without settings count");
}

#[test]
fn repetitions_whose_links_change_by_chance_belong_together() {
    let drawn = |number: u32| on(&format!("{number}"), &format!("40: {number}"), run("mayhem", number, 5.0));
    let mut lines: Vec<RunRecord> = (0..3).map(drawn).collect();
    // A void one is made again.
    lines.push(drawn(2));
    assert!(markdown(&lines).contains("| 3/0/0 |"), "{}", markdown(&lines));
    lines[0].settings.as_mut().unwrap().gather = false;
    let table = markdown(&lines);
    assert!(table.contains("| 2/0/0 |") && table.contains(": 1 run with other settings"), "{table}");
}

#[test]
fn nothing_measured_gives_an_empty_report() {
    assert_eq!((markdown(&[]), charts(&[])), (String::new(), vec![]));
    let failed = ended(run("fast", 0, 0.0), RunOutcome::Failed, "no root");
    assert!(charts(std::slice::from_ref(&failed))[0].1.contains(">failed<"));
    assert!(markdown(&[failed]).contains("0/0/1 | – | – | 10.00 | – |"));
}

fn file(lines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    file
}

#[test]
fn files_are_read_in_their_order_and_an_incomplete_last_line_is_left_out() {
    let line = |rate| serde_json::to_string(&run("fast", 0, rate)).unwrap();
    let first = file(&format!("{}\n\n{}\n{}", line(1.0), line(2.0), &line(3.0)[..40]));
    let second = file(&line(4.0));
    let mut notes = Vec::new();
    let records = read_noting(&[first.path(), second.path()], |note| notes.push(note)).unwrap();
    let rates: Vec<f64> = records.runs.iter().map(|record| record.throughput_mb_per_s).collect();
    assert_eq!(rates, [1.0, 2.0, 4.0]);
    let place = format!("{}:4: an incomplete last line", first.path().display());
    assert!(matches!(&notes[..], [note] if note.starts_with(&place)), "{notes:?}");
}

#[test]
fn a_broken_line_is_named_with_its_place() {
    let broken = file("{\"case\": 3}\n\n");
    let error = read_noting(&[broken.path()], |_| {}).unwrap_err();
    assert!(matches!(error, ReportError::BrokenLine { line: 1, .. }), "{error}");
    assert!(error.to_string().contains(":1: ") && error.to_string().contains("remove this line"), "{error}");
    let error = read_noting(&["/nowhere/at/all"], |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/at/all: "), "{error}");
}
