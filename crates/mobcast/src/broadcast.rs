//! One broadcast at one node: an offer before it is accepted, a handle afterwards.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mobcast_net::driver::{LinkSummary, NodeView};
use mobcast_net::store;
use mobcast_net::store::ObjectSink;
use mobcast_proto::content::ObjectKind;
use mobcast_proto::group::report::Traffic;
use mobcast_proto::strategy::choice::Choice;
use mobcast_proto::{BroadcastId, Digest, NodeId};
use tokio::sync::oneshot;

use crate::group::{Inner, aside};
use crate::report::{ChoiceReport, GaugeReport, LinkReport, NodeReport, Report, unix_seconds, wan_copies};
use crate::state::Member;
use crate::transfer::{Dropped, NodeEntry, Outcome, Transfer};
use crate::{Error, NodeInfo, Sink, SinkOptions};

/// A broadcast that another member has announced. Dropping it declines it.
#[derive(Debug)]
pub struct Offer {
    /// The broadcast.
    pub id: BroadcastId,
    /// What kind of thing it is.
    pub kind: ObjectKind,
    /// Last component of the source's path, as bytes (names need not be UTF-8); empty for memory and streams.
    pub name: Vec<u8>,
    /// Bytes, where known beforehand.
    pub length: Option<u64>,
    /// Bytes of a piece.
    pub piece_size: u32,
    /// Name of the strategy.
    pub strategy: String,
    /// The node whose object it is.
    pub root: NodeId,
    /// None once it is answered.
    open: Option<(Arc<Inner>, Arc<Transfer>)>,
}

impl Offer {
    pub(crate) fn new(group: Arc<Inner>, transfer: Arc<Transfer>) -> Offer {
        let descriptor = &transfer.descriptor;
        Offer {
            id: transfer.id,
            kind: descriptor.kind,
            name: descriptor.name.clone(),
            length: descriptor.length,
            piece_size: descriptor.piece_size,
            strategy: descriptor.strategy.clone(),
            root: transfer.id.root,
            open: Some((group, transfer)),
        }
    }

    /// Takes the object. What can be known beforehand (an existing destination, too little space) is an error at
    /// once, of which the coordinator is told.
    pub async fn receive(mut self, sink: Sink, options: SinkOptions) -> Result<Broadcast, Error> {
        let Some((group, transfer)) = self.open.take() else { return Err(Error::Left) };
        let SinkOptions { force, preserve } = options;
        let options = store::SinkOptions { force, preserve, spool_dir: group.options.spool_dir.clone() };
        let descriptor = transfer.descriptor.clone();
        // From here on, giving up is what its drop does.
        let broadcast = Broadcast::new(group, transfer, None);
        let quick = sink.0.opens_at_once();
        let opening = Arc::clone(&broadcast.group.openings).read_owned().await;
        let (opened, open) = oneshot::channel();
        let prepare = move || {
            // A pipe or device has nothing to be removed, and may wait for ever.
            let opening = (!sink.0.waits_for_reader()).then_some(opening);
            // If nobody waits for it any more, the sink is dropped, and after it, what says that there is one. Who waits for it may
            // never ask again, and so must not keep that.
            drop(opened.send(ObjectSink::open(sink.0, &descriptor, &options)));
            drop(opening);
        };
        aside(quick, prepare).await?;
        let opened = open.await.map_err(|_| Error::Left)?;
        let driver = broadcast.group.driver.handle();
        match opened {
            Ok(sink) => driver.accept(broadcast.id(), Arc::new(sink)).await,
            Err(error) => {
                driver.decline(broadcast.id(), error.to_string());
                return Err(error.into());
            }
        }
        Ok(broadcast)
    }

    /// Does not take the object; the coordinator is told why.
    pub fn decline(mut self, reason: &str) {
        self.refuse(reason);
    }

    fn refuse(&mut self, reason: &str) {
        if let Some((group, transfer)) = self.open.take() {
            group.driver.handle().decline(transfer.id, reason.to_owned());
            group.state.forget(transfer.id);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.refuse("the receiver does not want it");
    }
}

/// What a complete object is, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// BLAKE3 of the object, as `b3sum` prints it for a file.
    pub object_hash: Digest,
    /// Bytes of the object.
    pub bytes: u64,
    /// From the start of the broadcast (or the offer) until this node had everything.
    pub elapsed: Duration,
    /// Where it is, if the sink is a path.
    pub path: Option<PathBuf>,
    /// The object, if the sink is memory.
    pub data: Option<Arc<Vec<u8>>>,
    /// Whether the file system of the sink has not kept all modes and times.
    pub lost_attributes: bool,
}

/// How far a broadcast is. Cheap to ask for: it is read from counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Bytes of pieces that are here: verified and stored, or at the root read and signed.
    pub bytes: u64,
    /// Bytes of the object, once known.
    pub length: Option<u64>,
    /// Pieces that are here.
    pub pieces: u32,
    /// Pieces of the object, once known.
    pub pieces_total: Option<u32>,
    /// Payload received, bytes; some of it may be waste.
    pub bytes_in: u64,
    /// Payload sent, bytes.
    pub bytes_out: u64,
    /// Since the start of the broadcast (or the offer), until its end.
    pub elapsed: Duration,
    /// At the coordinator: how far the receivers are, in the order of joining.
    pub nodes: Vec<NodeProgress>,
}

/// How far a receiver is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeProgress {
    /// The node.
    pub node: NodeId,
    /// What it calls itself.
    pub name: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Bytes that it has verified and stored, as it said last (about once a second).
    pub bytes: u64,
    /// Whether it is done.
    pub state: NodeState,
}

/// Whether a receiver is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// Not yet.
    Receiving,
    /// It has everything, verified.
    Complete,
    /// It failed, for this reason.
    Failed(String),
    /// It is gone.
    Lost,
}

/// A broadcast in which this node takes part, as root or receiver. Dropping the handle of a receiver that is not
/// complete gives the object up; otherwise the node serves its peers until nobody needs it.
#[derive(Debug)]
pub struct Broadcast {
    group: Arc<Inner>,
    transfer: Arc<Transfer>,
    choice: Option<Choice>,
}

impl Broadcast {
    pub(crate) fn new(group: Arc<Inner>, transfer: Arc<Transfer>, choice: Option<Choice>) -> Broadcast {
        Broadcast { group, transfer, choice }
    }

    /// Which strategy was chosen, and why; none if it was asked for by name, or this node is not the root.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// Which broadcast it is.
    pub fn id(&self) -> BroadcastId {
        self.transfer.id
    }

    /// Name of the strategy.
    pub fn strategy(&self) -> &str {
        &self.transfer.descriptor.strategy
    }

    /// The start at this node, as [`Report::started_at`].
    pub fn started_at(&self) -> f64 {
        unix_seconds(self.transfer.started_at())
    }

    /// When this node had everything, as [`Report::complete_at`]; none until then.
    pub fn complete_at(&self) -> Option<f64> {
        self.transfer.complete_at().map(unix_seconds)
    }

    /// Time from the start until the source could be spared, at the coordinator; none while it is needed. Events say the same, of
    /// which the oldest are lost to whoever is slow.
    pub fn source_may_leave(&self) -> Option<Duration> {
        self.transfer.may_leave()
    }

    /// Waits until this node has everything: a receiver verified and in its place, the root read and signed, and found
    /// unchanged at the end.
    pub async fn complete(&mut self) -> Result<Completed, Error> {
        self.wait(|outcome| outcome.completed.clone()).await
    }

    /// Waits until nobody needs this node for it any more. At the coordinator: as many receivers as were asked for are
    /// complete, and every member has its result.
    pub async fn released(&mut self) -> Result<(), Error> {
        self.wait(|outcome| outcome.released.clone()).await
    }

    /// Waits until it has failed, which it may also after it was released, for those who come later: at a root whose source cannot
    /// be read any more.
    pub async fn failed(&mut self) -> Error {
        match self.wait(|outcome| outcome.failed.clone().map(Err::<Infallible, Error>)).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn wait<T>(&self, what: impl Fn(&Outcome) -> Option<Result<T, Error>>) -> Result<T, Error> {
        let mut outcome = self.transfer.outcome.subscribe();
        let decided = outcome.wait_for(|outcome| what(outcome).is_some()).await;
        // The sender lives as long as this handle.
        decided.ok().and_then(|outcome| what(&outcome)).unwrap_or(Err(Error::Left))
    }

    /// Gives it up. At the root, all members are told.
    pub async fn abort(&self, reason: &str) {
        let driver = self.group.driver.handle();
        if self.transfer.is_root {
            driver.abort(self.id(), reason.to_owned()).await;
        } else {
            driver.decline(self.id(), reason.to_owned());
        }
    }
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        let id = self.id();
        match self.transfer.handle_dropped() {
            Dropped::Needed => {}
            Dropped::Over => self.group.state.forget(id),
            Dropped::GivenUp => {
                self.group.driver.handle().decline(id, "its receiver gave it up".to_owned());
                self.group.state.forget(id);
            }
        }
    }
}

// ---- How far it is, and what became of it ----

impl Broadcast {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        let stats = &self.transfer.stats;
        Progress {
            bytes: stats.bytes(),
            length: stats.length(),
            pieces: stats.pieces(),
            pieces_total: stats.total(),
            bytes_in: stats.bytes_in(),
            bytes_out: stats.bytes_out(),
            elapsed: self.transfer.elapsed(),
            nodes: self.node_progress(),
        }
    }

    /// The receivers besides this node, as far as the coordinator knows.
    fn node_progress(&self) -> Vec<NodeProgress> {
        let nodes = self.transfer.nodes();
        let root = self.id().root;
        let members = self.group.state.members().into_iter().filter(|member| member.info.id != root);
        members.filter_map(|member| self.progress_of(&member, nodes.get(&member.info.id))).collect()
    }

    /// None of a node that was lost before it took part.
    fn progress_of(&self, member: &Member, entry: Option<&NodeEntry>) -> Option<NodeProgress> {
        let result = entry.and_then(|entry| entry.result.as_ref());
        let state = match result.map(|result| &result.outcome) {
            Some(Ok(_)) => NodeState::Complete,
            Some(Err(reason)) => NodeState::Failed(reason.clone()),
            None if member.lost && entry.is_none() => return None,
            None if member.lost => NodeState::Lost,
            None => NodeState::Receiving,
        };
        let length = self.transfer.stats.length();
        let pieces = u64::from(entry.map_or(0, |entry| entry.pieces));
        let so_far = pieces * u64::from(self.transfer.descriptor.piece_size);
        let bytes = match (&state, length) {
            (NodeState::Complete, Some(length)) => length,
            (_, Some(length)) => so_far.min(length),
            (_, None) => so_far,
        };
        let NodeInfo { id: node, name, cluster, .. } = member.info.clone();
        Some(NodeProgress { node, name, cluster, bytes, state })
    }

    /// What became of it so far.
    pub async fn report(&self) -> Report {
        let transfer = &self.transfer;
        let completed = transfer.outcome.borrow().completed.clone().and_then(Result::ok);
        let stats = &transfer.stats;
        let bytes = stats.length().unwrap_or_else(|| stats.bytes());
        let seconds = transfer.elapsed().as_secs_f64();
        let view = self.group.driver.handle().view(self.id()).await;
        let known = self.known_nodes();
        let nodes = self.node_reports(&known, &view);
        // A coordinator that has followed another one does not know all who were there before.
        let root = known.get(&self.id().root).map(|member| &member.info.cluster);
        let root_cluster = root.or(view.root_cluster.as_ref()).map(String::as_str);
        Report {
            object_hash: completed.map(|completed| completed.object_hash.to_string()).unwrap_or_default(),
            bytes,
            seconds,
            started_at: self.started_at(),
            complete_at: self.complete_at(),
            throughput_mb_s: if seconds > 0.0 { bytes as f64 / 1e6 / seconds } else { 0.0 },
            source_may_leave_seconds: transfer.may_leave().map(|time| time.as_secs_f64()),
            strategy: transfer.descriptor.strategy.clone(),
            choice: self.choice.as_ref().map(ChoiceReport::from),
            gauge: self.group.state.measured.borrow().as_deref().map(GaugeReport::from),
            pieces: stats.total().unwrap_or_else(|| stats.pieces()),
            piece_size: transfer.descriptor.piece_size,
            wan_copies: wan_copies(bytes, root_cluster, &nodes),
            nodes,
            links: self.link_reports(&known, &view),
        }
    }

    /// This node, and the others where they are known: at the coordinator.
    fn known_nodes(&self) -> BTreeMap<NodeId, Member> {
        let state = &self.group.state;
        let own = Member { info: state.node(), lost: false };
        state.members().into_iter().chain([own]).map(|member| (member.info.id, member)).collect()
    }

    /// The nodes' results.
    fn node_reports(&self, known: &BTreeMap<NodeId, Member>, view: &NodeView) -> Vec<NodeReport> {
        let own = self.group.state.node();
        let mut entries = self.transfer.nodes();
        if !self.group.state.is_coordinator || !entries.contains_key(&own.id) {
            entries.insert(own.id, NodeEntry::default());
        }
        let mut reports = Vec::with_capacity(entries.len());
        for (node, entry) in entries {
            let Some(member) = known.get(&node) else { continue };
            let report = match entry.result {
                Some(result) => {
                    let seconds = Duration::from_micros(result.elapsed_us).as_secs_f64();
                    // A result is of the moment it was made; what this node has sent since, it knows itself.
                    let traffic = if node == own.id { view.traffic } else { result.traffic };
                    node_report(&member.info, seconds, traffic, result.outcome.err())
                }
                None if node == own.id => self.own_report(&own, view.traffic),
                None if member.lost => {
                    node_report(&member.info, 0.0, Traffic::default(), Some("the node was lost".into()))
                }
                None => continue,
            };
            let wire = (node == own.id).then(|| view.wire.into());
            reports.push(NodeReport { wire, ..report });
        }
        reports
    }

    fn own_report(&self, own: &NodeInfo, traffic: Traffic) -> NodeReport {
        let failure = match &self.transfer.outcome.borrow().completed {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("not complete yet".into()),
        };
        node_report(own, self.transfer.elapsed().as_secs_f64(), traffic, failure)
    }

    /// This node's links, with the names of what is known.
    fn link_reports(&self, known: &BTreeMap<NodeId, Member>, view: &NodeView) -> Vec<LinkReport> {
        let own = self.group.state.node();
        let report = |link: &LinkSummary| {
            let peer = known.get(&link.peer).map(|member| &member.info);
            let is_local = view.cluster == Some(link.cluster);
            let cluster = peer.map(|peer| &peer.cluster).or(is_local.then_some(&own.cluster));
            LinkReport {
                peer: peer.map_or_else(|| link.peer.to_string(), |peer| peer.name.clone()),
                cluster: cluster.map_or_else(|| link.cluster.to_string(), String::clone),
                ..LinkReport::from(link)
            }
        };
        view.links.iter().map(report).collect()
    }
}

fn node_report(info: &NodeInfo, seconds: f64, traffic: Traffic, failure: Option<String>) -> NodeReport {
    NodeReport {
        number: info.id.0,
        name: info.name.clone(),
        cluster: info.cluster.clone(),
        cluster_reason: info.reason.clone(),
        seconds,
        bytes_in_wan: traffic.in_wan,
        bytes_in_lan: traffic.in_lan,
        bytes_out_wan: traffic.out_wan,
        bytes_out_lan: traffic.out_lan,
        wire: None,
        verified: failure.is_none(),
        failure,
    }
}
