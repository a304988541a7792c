//! A topology as a file: clusters, and a link for each ordered pair of them.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::error::{FileError, Text, stem};
use crate::network::{Cluster, ClusterIndex, PayloadFactor, QueueLimit, Topology, WanLink, WanNic};

/// Most clusters: each has a byte of the nodes' addresses in a lab, and a group has no more.
pub const CLUSTERS_MAX: usize = 250;
/// Most nodes, of a cluster or of all together: a group has no more. A lab has addresses for 250 of a cluster.
pub const NODES_MAX: u32 = 100_000;
/// Longest name of a cluster, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// The shortest queue: one packet of Ethernet.
pub(super) const QUEUE_BYTES_MIN: u64 = 1_500;

/// A topology with its name and title.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyFile {
    /// The file's name without extension.
    pub name: String,
    /// One line for headings.
    pub title: String,
    /// The network. Every ordered pair of clusters has a link.
    pub topology: Topology,
}

impl TopologyFile {
    /// Reads and checks a file. The error names line, key and mend.
    pub fn load(path: &Path) -> Result<TopologyFile, FileError> {
        build(&Text::read(path)?, stem(path))
    }

    /// As [`TopologyFile::load`], from a text; `name` stands for the file in errors.
    pub fn parse(text: &str, name: &str) -> Result<TopologyFile, FileError> {
        build(&Text { file: name.to_owned(), text: text.to_owned() }, stem(Path::new(name)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    title: String,
    #[serde(default)]
    payload_factor: RawPayloadFactor,
    #[serde(default)]
    links_vary: Option<bool>,
    #[serde(default)]
    cluster: Vec<Spanned<RawCluster>>,
    #[serde(default)]
    link: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawPayloadFactor {
    #[default]
    EthernetTcp,
    One,
}

type Number = Option<Spanned<f64>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCluster {
    name: Spanned<String>,
    nodes: Spanned<u32>,
    nic_mb_per_s: Number,
    nic_out_mb_per_s: Number,
    nic_in_mb_per_s: Number,
    nic_burst_ms: Number,
    wan_nic_mb_per_s: Number,
    wan_nic_out_mb_per_s: Number,
    wan_nic_in_mb_per_s: Number,
    access_mb_per_s: Number,
    access_out_mb_per_s: Number,
    access_in_mb_per_s: Number,
    fabric_mb_per_s: Number,
    lan_delay_ms: Number,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    between: Option<Spanned<Vec<Spanned<String>>>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    rate_mb_per_s: Number,
    one_way_delay_ms: Spanned<f64>,
    loss_percent: Number,
    queue_bytes: Option<Spanned<u64>>,
    queue_ms: Number,
}

fn build(text: &Text, name: String) -> Result<TopologyFile, FileError> {
    let raw: Raw = text.parse()?;
    let mut topology = Topology::new();
    topology.payload_factor = match raw.payload_factor {
        RawPayloadFactor::EthernetTcp => PayloadFactor::ETHERNET_TCP,
        RawPayloadFactor::One => PayloadFactor::ONE,
    };
    topology.links_vary = raw.links_vary;
    if raw.cluster.is_empty() {
        return Err(text.error(0..0, "there is no [[cluster]]: the root is the first node of the first one"));
    }
    if let Some(one_too_many) = raw.cluster.get(CLUSTERS_MAX) {
        return Err(text.error(one_too_many.span(), format!("at most {CLUSTERS_MAX} clusters have addresses")));
    }
    for raw in &raw.cluster {
        let cluster = cluster(text, raw.get_ref())?;
        let added = topology.add_cluster(cluster);
        added.map_err(|error| text.error(raw.get_ref().name.span(), error.to_string()))?;
        if topology.nodes() > u64::from(NODES_MAX) {
            return Err(text.error(raw.get_ref().nodes.span(), format!("a group has at most {NODES_MAX} nodes")));
        }
    }
    for raw in &raw.link {
        add_link(text, &mut topology, raw)?;
    }
    complete(text, &topology)?;
    Ok(TopologyFile { name, title: raw.title, topology })
}

fn cluster(text: &Text, raw: &RawCluster) -> Result<Cluster, FileError> {
    check_name(text, &raw.name)?;
    let nodes = text.count(&raw.nodes, 1, NODES_MAX)?;
    let mut cluster = Cluster::new(raw.name.get_ref(), nodes);
    (cluster.nic_out_bytes_per_s, cluster.nic_in_bytes_per_s) =
        both_ways(text, &raw.nic_mb_per_s, &raw.nic_out_mb_per_s, &raw.nic_in_mb_per_s)?;
    let wan_nic = both_ways(text, &raw.wan_nic_mb_per_s, &raw.wan_nic_out_mb_per_s, &raw.wan_nic_in_mb_per_s)?;
    if let (out_bytes_per_s, in_bytes_per_s) = wan_nic
        && (out_bytes_per_s.is_some() || in_bytes_per_s.is_some())
    {
        cluster.wan_nic = Some(WanNic { out_bytes_per_s, in_bytes_per_s });
    }
    (cluster.access_out_bytes_per_s, cluster.access_in_bytes_per_s) =
        both_ways(text, &raw.access_mb_per_s, &raw.access_out_mb_per_s, &raw.access_in_mb_per_s)?;
    cluster.fabric_bytes_per_s = text.optional_rate(raw.fabric_mb_per_s.as_ref())?;
    if let Some(burst) = &raw.nic_burst_ms {
        cluster.nic_burst_ns = text.milliseconds(burst)?;
    }
    if let Some(delay) = &raw.lan_delay_ms {
        cluster.lan_delay_ns = text.milliseconds(delay)?;
    }
    Ok(cluster)
}

/// Nodes are named by their cluster and a number, so a name that ends in a digit could make two nodes alike.
fn check_name(text: &Text, name: &Spanned<String>) -> Result<(), FileError> {
    let given = name.get_ref();
    let fits = given.len() <= NAME_BYTES_MAX
        && given.starts_with(|c: char| c.is_ascii_alphabetic())
        && !given.ends_with(|c: char| c.is_ascii_digit())
        && given.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if fits {
        return Ok(());
    }
    let rule = format!("a letter first, then letters, digits and hyphens, no digit last, at most {NAME_BYTES_MAX}");
    Err(text.error(name.span(), format!("{given:?} cannot name a cluster: {rule}")))
}

/// One number for both directions, or one for each.
fn both_ways(
    text: &Text,
    both: &Number,
    outwards: &Number,
    inwards: &Number,
) -> Result<(Option<u64>, Option<u64>), FileError> {
    let Some(rate) = both else {
        return Ok((text.optional_rate(outwards.as_ref())?, text.optional_rate(inwards.as_ref())?));
    };
    if outwards.is_some() || inwards.is_some() {
        return Err(
            text.error(rate.span(), "stands for both directions: leave out this key, or those with _out_ and _in_")
        );
    }
    let rate = text.rate(rate)?;
    Ok((Some(rate), Some(rate)))
}

fn add_link(text: &Text, topology: &mut Topology, raw: &Spanned<RawLink>) -> Result<(), FileError> {
    let table = raw.span();
    let raw = raw.get_ref();
    let link = WanLink {
        rate_bytes_per_s: text.optional_rate(raw.rate_mb_per_s.as_ref())?,
        one_way_delay_ns: text.milliseconds(&raw.one_way_delay_ms)?,
        loss_per_million: loss(text, raw.loss_percent.as_ref())?,
        queue: queue(text, raw)?,
    };
    if let Some(time) = raw.queue_ms.as_ref().filter(|_| link.queue_bytes() < QUEUE_BYTES_MIN) {
        return Err(
            text.error(time.span(), format!("is less than a packet, {QUEUE_BYTES_MIN} bytes, takes at this rate"))
        );
    }
    let ends = Ends { between: raw.between.as_ref(), from: raw.from.as_ref(), to: raw.to.as_ref() };
    for (from, to) in ends.pairs(text, topology, table.clone())? {
        if topology.wan(from, to).is_some() {
            let [from, to] = [from, to].map(|c| &topology.clusters()[c.as_usize()].name);
            return Err(text.error(table, format!("the link from {from} to {to} is there twice: leave one out")));
        }
        topology.link(from, to, link).map_err(|error| text.error(table.clone(), error.to_string()))?;
    }
    Ok(())
}

fn loss(text: &Text, percent: Option<&Spanned<f64>>) -> Result<u32, FileError> {
    let Some(percent) = percent else { return Ok(0) };
    let per_million = text.within(percent, 0.0, 100.0, "percent").map(|percent| (percent * 10_000.0).round() as u32)?;
    match per_million {
        0 if *percent.get_ref() > 0.0 => Err(text.error(percent.span(), "is less than a packet in a million, 0.0001")),
        _ => Ok(per_million),
    }
}

fn queue(text: &Text, raw: &RawLink) -> Result<QueueLimit, FileError> {
    match (&raw.queue_bytes, &raw.queue_ms) {
        (Some(bytes), Some(_)) => Err(text.error(bytes.span(), "queue_ms is there too: leave one of them out")),
        (Some(bytes), None) if *bytes.get_ref() < QUEUE_BYTES_MIN => {
            Err(text.error(bytes.span(), format!("has to be at least a packet, {QUEUE_BYTES_MIN}")))
        }
        (Some(bytes), None) => Ok(QueueLimit::Bytes(*bytes.get_ref())),
        (None, Some(time)) => match text.milliseconds(time)? {
            0 => Err(text.error(time.span(), "has to be more than 0")),
            time_ns => Ok(QueueLimit::Nanoseconds(time_ns)),
        },
        (None, None) => Ok(QueueLimit::TwiceBdp),
    }
}

/// The ends of a link as files give them: a pair for both directions, or one direction.
pub(super) struct Ends<'a> {
    pub(super) between: Option<&'a Spanned<Vec<Spanned<String>>>>,
    pub(super) from: Option<&'a Spanned<String>>,
    pub(super) to: Option<&'a Spanned<String>>,
}

impl Ends<'_> {
    /// The directed links that are meant. `table` is where an error is shown that no single key has made.
    pub(super) fn pairs(
        &self,
        text: &Text,
        topology: &Topology,
        table: Range<usize>,
    ) -> Result<Vec<(ClusterIndex, ClusterIndex)>, FileError> {
        match (self.between, self.from, self.to) {
            (Some(between), None, None) => {
                let [a, b] = between.get_ref().as_slice() else {
                    return Err(text.error(between.span(), "two names of clusters are needed, as [\"A\", \"B\"]"));
                };
                let (a, b) = ends_of(text, topology, a, b)?;
                Ok(vec![(a, b), (b, a)])
            }
            (None, Some(from), Some(to)) => Ok(vec![ends_of(text, topology, from, to)?]),
            (Some(between), _, _) => {
                Err(text.error(between.span(), "stands for both directions: leave out this key, or `from` and `to`"))
            }
            _ => Err(text.error(table, "which link? Give between = [\"A\", \"B\"], or from = \"A\" and to = \"B\"")),
        }
    }
}

fn ends_of(
    text: &Text,
    topology: &Topology,
    from: &Spanned<String>,
    to: &Spanned<String>,
) -> Result<(ClusterIndex, ClusterIndex), FileError> {
    let ends = (cluster_of(text, topology, from)?, cluster_of(text, topology, to)?);
    if ends.0 == ends.1 {
        let mend = "inside a cluster set nic_mb_per_s, fabric_mb_per_s and lan_delay_ms";
        return Err(text.error(to.span(), format!("{:?} is linked to itself: {mend}", to.get_ref())));
    }
    Ok(ends)
}

/// The cluster of a name that a file gives.
pub(super) fn cluster_of(text: &Text, topology: &Topology, name: &Spanned<String>) -> Result<ClusterIndex, FileError> {
    topology.find(name.get_ref()).ok_or_else(|| {
        let known: Vec<&str> = topology.clusters().iter().map(|cluster| cluster.name.as_str()).collect();
        let message = format!("there is no cluster {:?}: the clusters are {}", name.get_ref(), known.join(", "));
        text.error(name.span(), message)
    })
}

fn complete(text: &Text, topology: &Topology) -> Result<(), FileError> {
    let pairs = topology.indices().flat_map(|from| topology.indices().map(move |to| (from, to)));
    let missing = pairs.into_iter().find(|(from, to)| from != to && topology.wan(*from, *to).is_none());
    let Some((from, to)) = missing else { return Ok(()) };
    let [from, to] = [from, to].map(|c| &topology.clusters()[c.as_usize()].name);
    let mend = format!("add a [[link]] with from = {from:?} and to = {to:?}, or between = [{from:?}, {to:?}]");
    let mut error = text.error(text.text.len()..text.text.len(), format!("missing link from {from} to {to}: {mend}"));
    error.key = Some("link".to_owned());
    Err(error)
}
