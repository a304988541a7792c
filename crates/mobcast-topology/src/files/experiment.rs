//! An experiment as a file: a topology, what happens to it, what is run on it and how often.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::error::{FileError, Text, stem};
use super::rival::RivalFile;
use super::topology::{Ends, NODES_MAX, TopologyFile, cluster_of};
use crate::network::{ClusterIndex, LinkRef, Topology};
use crate::optimum::optimal_rate;

/// Most changes of a run; they are all kept in memory.
const CHANGES_MAX: f64 = 1e6;
/// Most pieces of an object, as mobcast has it.
pub const PIECES_MAX: u64 = 1 << 19;
/// Most broadcasts of a run.
const ROUNDS_MAX: u32 = 10_000;
const ROOT: ClusterIndex = ClusterIndex(0);

/// An experiment, checked. [`Experiment::runs`] makes the list of its runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// The file's name without extension.
    pub name: String,
    /// One line for headings.
    pub title: String,
    /// Name of the topology.
    pub topology_name: String,
    /// The topology as its file gives it, before layouts and changes. A caller whose links carry no headers sets its
    /// payload factor to one before it asks for the runs.
    pub topology: Topology,
    /// What is varied.
    pub extent: Extent,
    /// What is varied with `--quick`; none if the file does not say.
    pub quick: Option<Extent>,
    /// What happens to the network, by name.
    pub scenarios: Vec<ScenarioPlan>,
    /// From which everything that chance decides follows.
    pub seed: u64,
    /// Whether nodes are told their cluster.
    pub named_clusters: bool,
    /// Bytes of a piece; none for the automatic choice.
    pub piece_size: Option<u32>,
    /// Whether payload goes without encryption.
    pub plain: bool,
    /// Whether all nodes are members of the group before the clock starts.
    pub gather: bool,
    /// Broadcasts of a run, one after another in a group that has gathered; none for one.
    pub rounds: Option<u32>,
    /// Whether members take each other's word, in rounds.
    pub trust_members: bool,
    /// Whether mobcast is told what the network is like at the start, for strategies that want to know.
    pub gauge: bool,
    /// Where each strategy stands in the file.
    strategy_places: Vec<(String, FileError)>,
}

/// What an experiment varies, and how often it repeats.
#[derive(Clone, PartialEq, Debug)]
pub struct Extent {
    /// Nodes of each cluster.
    pub layouts: Vec<Vec<u32>>,
    /// Strategies of mobcast.
    pub strategies: Vec<String>,
    /// Other programs.
    pub rivals: Vec<RivalFile>,
    /// Names of the scenarios that rivals run in.
    pub rival_scenarios: Vec<String>,
    /// Bytes of the objects.
    pub sizes_bytes: Vec<u64>,
    /// Bytes of the objects of rivals.
    pub rival_sizes_bytes: Vec<u64>,
    /// Runs of each case of mobcast.
    pub repetitions: u32,
    /// Runs of each case of a rival.
    pub rival_repetitions: u32,
    /// Seconds after which a run has failed.
    pub timeout_s: f64,
}

/// What happens to the network, before times and chance are resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioPlan {
    /// Unique in its experiment.
    pub name: String,
    /// Capacities that are set at a time.
    pub changes: Vec<PlannedChange>,
    /// Capacities that chance sets again and again.
    pub random: Option<RandomChanges>,
}

/// Capacities set to one value at one time.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedChange {
    /// When.
    pub at: At,
    /// Which: one, or both directions of a link.
    pub links: Vec<LinkRef>,
    /// In bytes per second; zero cuts the link.
    pub rate_bytes_per_s: u64,
}

/// Every link between clusters set to a part of its nominal rate, each to its own, again and again from 0 on.
#[derive(Clone, PartialEq, Debug)]
pub struct RandomChanges {
    /// The time between two changes.
    pub every: At,
    /// The least part.
    pub factor_min: f64,
    /// The greatest part.
    pub factor_max: f64,
}

/// A time in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum At {
    /// Part of the ideal time: the object's bytes divided by the payload optimum before all changes.
    Fraction(f64),
    /// Seconds.
    Seconds(f64),
}

impl Experiment {
    /// Reads and checks an experiment with its topology (`../topologies/NAME.toml` beside it) and its rivals
    /// (`../rivals/NAME.toml`). The error names file, line, key and mend.
    pub fn load(path: &Path) -> Result<Experiment, FileError> {
        let text = Text::read(path)?;
        Builder { text: &text, path, rivals: true }.build()
    }

    /// As [`Experiment::load`] for callers that run mobcast alone: rivals are left out and their files not looked at.
    pub fn load_without_rivals(path: &Path) -> Result<Experiment, FileError> {
        let text = Text::read(path)?;
        Builder { text: &text, path, rivals: false }.build()
    }

    /// What is wrong with a strategy that the file names, for callers that know which there are and what they need.
    pub fn misnamed(&self, strategy: &str, message: impl Into<String>) -> FileError {
        let place = self.strategy_places.iter().find(|(name, _)| name == strategy).map(|(_, place)| place.clone());
        let nowhere = || FileError { file: self.name.clone(), line: None, key: None, message: String::new() };
        FileError { message: message.into(), ..place.unwrap_or_else(nowhere) }
    }
}

type Names = Option<Vec<Spanned<String>>>;
type Layouts = Option<Spanned<Vec<Spanned<Vec<u32>>>>>;
type Numbers = Option<Spanned<Vec<Spanned<f64>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    title: String,
    topology: Spanned<String>,
    nodes: Layouts,
    strategies: Option<Spanned<Vec<Spanned<String>>>>,
    rivals: Names,
    rival_scenarios: Names,
    sizes_mb: Spanned<Vec<Spanned<f64>>>,
    rival_sizes_mb: Numbers,
    repetitions: Option<Spanned<u32>>,
    rival_repetitions: Option<Spanned<u32>>,
    #[serde(default)]
    seed: u64,
    timeout_s: Option<Spanned<f64>>,
    #[serde(default = "yes")]
    named_clusters: bool,
    piece_size: Option<Spanned<u32>>,
    #[serde(default)]
    plain: bool,
    #[serde(default)]
    gather: bool,
    rounds: Option<Spanned<u32>>,
    trust_members: Option<Spanned<bool>>,
    #[serde(default = "yes")]
    gauge: bool,
    #[serde(default)]
    scenario: Vec<Spanned<RawScenario>>,
    quick: Option<RawExtent>,
}

fn yes() -> bool {
    true
}

/// The keys of an experiment that `[quick]` may replace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExtent {
    nodes: Layouts,
    strategies: Option<Spanned<Vec<Spanned<String>>>>,
    rivals: Names,
    rival_scenarios: Names,
    sizes_mb: Numbers,
    rival_sizes_mb: Numbers,
    repetitions: Option<Spanned<u32>>,
    rival_repetitions: Option<Spanned<u32>>,
    timeout_s: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: Spanned<String>,
    #[serde(default)]
    change: Vec<Spanned<RawChange>>,
    random: Option<Spanned<RawRandom>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    at_fraction: Option<Spanned<f64>>,
    at_s: Option<Spanned<f64>>,
    between: Option<Spanned<Vec<Spanned<String>>>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    access_out: Option<Spanned<String>>,
    access_in: Option<Spanned<String>>,
    rate_mb_per_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRandom {
    every_fraction: Option<Spanned<f64>>,
    every_s: Option<Spanned<f64>>,
    factor_min: Spanned<f64>,
    factor_max: Spanned<f64>,
}

struct Builder<'a> {
    text: &'a Text,
    path: &'a Path,
    rivals: bool,
}

impl Builder<'_> {
    fn build(&self) -> Result<Experiment, FileError> {
        let text = self.text;
        let mut raw: Raw = text.parse()?;
        let file = TopologyFile::load(&self.neighbour("topologies", &raw.topology)?)?;
        let topology = file.topology;
        if raw.nodes.is_none() && topology.nodes() < 2 {
            return Err(text.error(raw.topology.span(), "a topology of one node: there is nobody to send to"));
        }
        let scenarios = self.scenarios(&raw.scenario, &topology)?;
        let full = raw.take_extent();
        let default = Extent {
            layouts: vec![topology.clusters().iter().map(|cluster| cluster.nodes).collect()],
            strategies: vec!["mob".to_owned()],
            rivals: Vec::new(),
            rival_scenarios: scenarios.iter().map(|scenario| scenario.name.clone()).collect(),
            sizes_bytes: Vec::new(),
            rival_sizes_bytes: Vec::new(),
            repetitions: 5,
            rival_repetitions: 3,
            timeout_s: 300.0,
        };
        let extent = self.extent(&full, &default, &topology, &scenarios)?;
        let quick = raw.quick.as_ref().map(|quick| self.extent(quick, &extent, &topology, &scenarios)).transpose()?;
        let named =
            [Some(&full), raw.quick.as_ref()].into_iter().flatten().filter_map(|extent| extent.strategies.as_ref());
        let place = |name: &Spanned<String>| (name.get_ref().clone(), text.error(name.span(), ""));
        let strategy_places = named.flat_map(|names| names.get_ref().iter().map(place)).collect();
        let experiment = Experiment {
            strategy_places,
            name: stem(self.path),
            title: raw.title,
            topology_name: file.name,
            topology,
            extent,
            quick,
            scenarios,
            seed: raw.seed,
            named_clusters: raw.named_clusters,
            piece_size: raw.piece_size.as_ref().map(|size| self.piece_size(size)).transpose()?,
            plain: raw.plain,
            gather: raw.gather || raw.rounds.is_some(),
            trust_members: raw.trust_members.as_ref().is_some_and(|trust| *trust.get_ref()),
            gauge: raw.gauge,
            rounds: raw.rounds.as_ref().map(|rounds| text.count(rounds, 1, ROUNDS_MAX)).transpose()?,
        };
        if let Some(trust) = raw.trust_members.as_ref().filter(|trust| *trust.get_ref() && raw.rounds.is_none()) {
            return Err(text.error(trust.span(), "is for rounds of small objects: give `rounds`, or leave it out"));
        }
        if let Some(size) = raw.piece_size.as_ref().filter(|_| raw.rounds.is_some()) {
            return Err(text.error(size.span(), "rounds have pieces of the automatic size: leave it or `rounds` out"));
        }
        self.check_pieces(&experiment, raw.piece_size.as_ref())?;
        self.check_rounds(&experiment, &raw.rounds)?;
        self.check_times(&experiment, &raw.scenario)?;
        Ok(experiment)
    }

    /// Pieces of a size that is given may be too many.
    fn check_pieces(&self, experiment: &Experiment, piece_size: Option<&Spanned<u32>>) -> Result<(), FileError> {
        let Some(piece_size) = piece_size else { return Ok(()) };
        let extents = [Some(&experiment.extent), experiment.quick.as_ref()].into_iter().flatten();
        let largest = extents.flat_map(|extent| &extent.sizes_bytes).copied().max().unwrap_or(0);
        if largest.div_ceil(u64::from(*piece_size.get_ref())) <= PIECES_MAX {
            return Ok(());
        }
        let least = largest.div_ceil(PIECES_MAX).next_power_of_two();
        let message = format!(
            "{} MB are more than {PIECES_MAX} pieces of that size: give {least} or more, or leave it out",
            largest as f64 / 1e6
        );
        Err(self.text.error(piece_size.span(), message))
    }

    /// What makes one broadcast in a run cannot be compared with what makes many.
    fn check_rounds(&self, experiment: &Experiment, rounds: &Option<Spanned<u32>>) -> Result<(), FileError> {
        let Some(rounds) = rounds else { return Ok(()) };
        let rivals = [Some(&experiment.extent), experiment.quick.as_ref()].into_iter().flatten();
        match rivals.flat_map(|extent| &extent.rivals).find(|rival| !rival.rounds) {
            Some(rival) => {
                let message = format!("{} makes one broadcast in a run: leave it or the rounds out", rival.name);
                Err(self.text.error(rounds.span(), message))
            }
            None => Ok(()),
        }
    }

    /// The file of this name in a directory beside the experiment's own.
    fn neighbour(&self, directory: &str, name: &Spanned<String>) -> Result<PathBuf, FileError> {
        let given = name.get_ref();
        if given.is_empty() || given.contains(['/', '\\', '.']) {
            let message = format!("{given:?} is not a name: give that of a file in {directory}, without .toml");
            return Err(self.text.error(name.span(), message));
        }
        let directory = self.path.parent().unwrap_or(Path::new("")).join("..").join(directory);
        let path = directory.join(format!("{given}.toml"));
        if path.is_file() {
            return Ok(path);
        }
        let message = format!("there is no file {}: {}", path.display(), known(&directory));
        Err(self.text.error(name.span(), message))
    }

    fn piece_size(&self, size: &Spanned<u32>) -> Result<u32, FileError> {
        let given = *size.get_ref();
        if given.is_power_of_two() && (16 << 10..=16 << 20).contains(&given) {
            return Ok(given);
        }
        Err(self.text.error(size.span(), "has to be a power of two between 16384 and 16777216"))
    }

    /// What `raw` says, and where it says nothing, what `base` does. Sizes and repetitions of rivals that are not given
    /// follow those of mobcast when these are given.
    fn extent(
        &self,
        raw: &RawExtent,
        base: &Extent,
        topology: &Topology,
        scenarios: &[ScenarioPlan],
    ) -> Result<Extent, FileError> {
        let text = self.text;
        let sizes = self.sizes(&raw.sizes_mb)?;
        let repetitions = raw.repetitions.as_ref().map(|count| text.count(count, 1, 1000)).transpose()?;
        let rival_repetitions = raw.rival_repetitions.as_ref().map(|count| text.count(count, 1, 1000)).transpose()?;
        let strategies = raw.strategies.as_ref().map(|list| text.names(text.filled(list)?)).transpose()?;
        let rival_scenarios =
            raw.rival_scenarios.as_ref().map(|list| self.rival_scenarios(list, scenarios)).transpose()?;
        let timeout_s = raw.timeout_s.as_ref().map(|time| text.positive(time)).transpose()?;
        let layouts = self.layouts(&raw.nodes, topology)?.unwrap_or_else(|| base.layouts.clone());
        let rivals = self.rivals(&raw.rivals, topology)?.unwrap_or_else(|| base.rivals.clone());
        Ok(Extent {
            layouts,
            strategies: strategies.unwrap_or_else(|| base.strategies.clone()),
            rivals,
            rival_scenarios: rival_scenarios.unwrap_or_else(|| base.rival_scenarios.clone()),
            rival_sizes_bytes: self
                .sizes(&raw.rival_sizes_mb)?
                .or_else(|| sizes.clone())
                .unwrap_or_else(|| base.rival_sizes_bytes.clone()),
            sizes_bytes: sizes.unwrap_or_else(|| base.sizes_bytes.clone()),
            rival_repetitions: rival_repetitions
                .unwrap_or(repetitions.map_or(base.rival_repetitions, |count| count.min(base.rival_repetitions))),
            repetitions: repetitions.unwrap_or(base.repetitions),
            timeout_s: timeout_s.unwrap_or(base.timeout_s),
        })
    }

    fn sizes(&self, list: &Numbers) -> Result<Option<Vec<u64>>, FileError> {
        let Some(list) = list else { return Ok(None) };
        let mut sizes = Vec::new();
        for size in self.text.filled(list)? {
            let bytes = self.text.size(size)?;
            if sizes.contains(&bytes) {
                return Err(self.text.error(size.span(), "this size is there twice: leave one out"));
            }
            sizes.push(bytes);
        }
        Ok(Some(sizes))
    }

    fn layouts(&self, list: &Layouts, topology: &Topology) -> Result<Option<Vec<Vec<u32>>>, FileError> {
        let text = self.text;
        let Some(list) = list else { return Ok(None) };
        let mut layouts: Vec<Vec<u32>> = Vec::new();
        for layout in text.filled(list)? {
            let (span, nodes, clusters) = (layout.span(), layout.get_ref(), topology.clusters().len());
            if nodes.len() != clusters {
                let message = format!("{nodes:?} is for {} clusters, the topology has {clusters}", nodes.len());
                return Err(text.error(span, message));
            }
            if let Some(count) = nodes.iter().find(|count| !(1..=NODES_MAX).contains(*count)) {
                let message = format!("{count} nodes: a cluster has 1 to {NODES_MAX}");
                return Err(text.error(span, message));
            }
            match nodes.iter().sum::<u32>() {
                ..2 => return Err(text.error(span, format!("{nodes:?}: there is nobody to send to"))),
                2..=NODES_MAX => {}
                _ => return Err(text.error(span, format!("{nodes:?}: a group has at most {NODES_MAX} nodes"))),
            }
            if layouts.contains(nodes) {
                return Err(text.error(span, format!("{nodes:?} is there twice: leave one out")));
            }
            layouts.push(nodes.clone());
        }
        Ok(Some(layouts))
    }

    fn rivals(&self, list: &Names, topology: &Topology) -> Result<Option<Vec<RivalFile>>, FileError> {
        let Some(list) = list else { return Ok(None) };
        self.text.names(list)?;
        if !self.rivals {
            return Ok(Some(Vec::new()));
        }
        let mut rivals = Vec::new();
        for name in list {
            let rival = RivalFile::load(&self.neighbour("rivals", name)?)?;
            if rival.one_cluster && topology.clusters().len() > 1 {
                let message = format!("{} works in one cluster only; the topology has several", rival.name);
                return Err(self.text.error(name.span(), message));
            }
            rivals.push(rival);
        }
        Ok(Some(rivals))
    }

    fn rival_scenarios(&self, list: &[Spanned<String>], all: &[ScenarioPlan]) -> Result<Vec<String>, FileError> {
        if let Some(unknown) = list.iter().find(|name| all.iter().all(|scenario| scenario.name != *name.get_ref())) {
            let known: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
            let message =
                format!("there is no scenario {:?}: the scenarios are {}", unknown.get_ref(), known.join(", "));
            return Err(self.text.error(unknown.span(), message));
        }
        self.text.names(list)
    }

    fn scenarios(&self, list: &[Spanned<RawScenario>], topology: &Topology) -> Result<Vec<ScenarioPlan>, FileError> {
        if list.is_empty() {
            return Ok(vec![ScenarioPlan { name: "steady".to_owned(), changes: Vec::new(), random: None }]);
        }
        let names: Vec<Spanned<String>> = list.iter().map(|scenario| scenario.get_ref().name.clone()).collect();
        self.text.names(&names)?;
        list.iter().map(|scenario| self.scenario(scenario.get_ref(), topology)).collect()
    }

    fn scenario(&self, raw: &RawScenario, topology: &Topology) -> Result<ScenarioPlan, FileError> {
        let changes = raw.change.iter().map(|change| self.change(change, topology)).collect::<Result<_, _>>()?;
        let random = raw.random.as_ref().map(|random| self.random(random, topology)).transpose()?;
        Ok(ScenarioPlan { name: raw.name.get_ref().clone(), changes, random })
    }

    fn change(&self, raw: &Spanned<RawChange>, topology: &Topology) -> Result<PlannedChange, FileError> {
        let (text, table, raw) = (self.text, raw.span(), raw.get_ref());
        let at = match (&raw.at_fraction, &raw.at_s) {
            (Some(fraction), None) => At::Fraction(text.seconds(fraction)?),
            (None, Some(time)) => At::Seconds(text.seconds(time)?),
            _ => return Err(text.error(table, "when? Give either at_fraction or at_s")),
        };
        let links = match (&raw.access_out, &raw.access_in) {
            (None, None) => {
                let ends = Ends { between: raw.between.as_ref(), from: raw.from.as_ref(), to: raw.to.as_ref() };
                let pairs = ends.pairs(text, topology, table)?;
                pairs.into_iter().map(|(from, to)| LinkRef::Wan { from, to }).collect()
            }
            _ if raw.between.is_some() || raw.from.is_some() || raw.to.is_some() => {
                return Err(text.error(table, "a link or an access link? Give one of them, and another change"));
            }
            (Some(name), None) => vec![LinkRef::AccessOut(cluster_of(text, topology, name)?)],
            (None, Some(name)) => vec![LinkRef::AccessIn(cluster_of(text, topology, name)?)],
            (Some(_), Some(_)) => return Err(text.error(table, "give access_out or access_in, and another change")),
        };
        Ok(PlannedChange { at, links, rate_bytes_per_s: text.rate_or_zero(&raw.rate_mb_per_s)? })
    }

    fn random(&self, raw: &Spanned<RawRandom>, topology: &Topology) -> Result<RandomChanges, FileError> {
        let (text, table, raw) = (self.text, raw.span(), raw.get_ref());
        let every = match (&raw.every_fraction, &raw.every_s) {
            (Some(fraction), None) => At::Fraction(text.positive(fraction)?),
            (None, Some(time)) => At::Seconds(text.positive(time)?),
            _ => return Err(text.error(table, "how often? Give either every_fraction or every_s")),
        };
        let factor_min = text.within(&raw.factor_min, 0.0, 1000.0, "")?;
        let factor_max = text.within(&raw.factor_max, 0.0, 1000.0, "")?;
        if factor_min > factor_max {
            return Err(text.error(raw.factor_min.span(), format!("is more than factor_max, {factor_max}")));
        }
        if topology.wan_links().next().is_none() {
            return Err(text.error(table, "there are no links between clusters that could change: leave it out"));
        }
        if topology.wan_links().any(|(_, _, link)| link.rate_bytes_per_s.is_none()) {
            return Err(text.error(table, "a link without rate_mb_per_s has no parts: give each link a rate"));
        }
        Ok(RandomChanges { every, factor_min, factor_max })
    }

    /// Fractions need an ideal time, and changes have to stay countable.
    fn check_times(&self, experiment: &Experiment, raw: &[Spanned<RawScenario>]) -> Result<(), FileError> {
        for extent in [Some(&experiment.extent), experiment.quick.as_ref()].into_iter().flatten() {
            for layout in &extent.layouts {
                let rate = optimal_rate(&experiment.laid_out(layout), ROOT);
                let rate = rate.map(|rate| experiment.topology.payload_factor.of(rate));
                for (scenario, raw) in experiment.scenarios.iter().zip(raw) {
                    self.check_scenario(experiment, extent, rate, scenario, raw.span())?;
                }
            }
        }
        Ok(())
    }

    fn check_scenario(
        &self,
        experiment: &Experiment,
        extent: &Extent,
        rate: Option<u64>,
        scenario: &ScenarioPlan,
        table: Range<usize>,
    ) -> Result<(), FileError> {
        let every = scenario.random.as_ref().map(|random| random.every);
        let mut times = scenario.changes.iter().map(|change| change.at).chain(every);
        if times.any(|at| matches!(at, At::Fraction(_))) && rate.is_none_or(|rate| rate == 0) {
            return Err(self
                .text
                .error(table, "the network has no optimum to take fractions of: give times in seconds"));
        }
        let Some(every) = every else { return Ok(()) };
        let links = experiment.topology.wan_links().count() as f64;
        for size in extent.sizes_bytes.iter().chain(&extent.rival_sizes_bytes) {
            let every_s = every.seconds(*size as f64 / rate.unwrap_or(1) as f64);
            let changes = extent.timeout_s / every_s * links;
            if changes > CHANGES_MAX {
                let message = format!("{changes:.0} changes until the time-out: change less often, or give up sooner");
                return Err(self.text.error(table, message));
            }
        }
        Ok(())
    }
}

impl Raw {
    fn take_extent(&mut self) -> RawExtent {
        RawExtent {
            nodes: self.nodes.take(),
            strategies: self.strategies.take(),
            rivals: self.rivals.take(),
            rival_scenarios: self.rival_scenarios.take(),
            sizes_mb: Some(self.sizes_mb.clone()),
            rival_sizes_mb: self.rival_sizes_mb.take(),
            repetitions: self.repetitions.take(),
            rival_repetitions: self.rival_repetitions.take(),
            timeout_s: self.timeout_s.take(),
        }
    }
}

impl At {
    pub(super) fn seconds(self, ideal_s: f64) -> f64 {
        match self {
            At::Fraction(fraction) => fraction * ideal_s,
            At::Seconds(seconds) => seconds,
        }
    }
}

fn known(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| stem(&p))
        .collect();
    names.sort();
    if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) }
}
