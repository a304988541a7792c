//! Frames that could come from anybody: most of them fit to what the node knows, so that they get somewhere.

use std::net::SocketAddr;

use arbitrary::{Result, Unstructured};
use blake3::hazmat::HasherExt;
use mobcast_proto::content::announcement::{Announcement, Whole};
use mobcast_proto::content::have::Run;
use mobcast_proto::content::manifest::{Batch, Chain, End};
use mobcast_proto::content::object::Descriptor;
use mobcast_proto::content::slots::SlotSet;
use mobcast_proto::group::assignment::{Assignment, Credential};
use mobcast_proto::group::gauge::{ProbeOrder, ProbeResult, ProbeRole, Reading};
use mobcast_proto::group::place::{PlanPlace, TreeChild, TreePlace};
use mobcast_proto::group::report::{NodeResult, Report, SignedReport, Traffic};
use mobcast_proto::group::succession::{Standing, Succession};
use mobcast_proto::limits::PIECES_MAX;
use mobcast_proto::strategy::message::StrategyMessage;
use mobcast_proto::strategy::plan::Split;
use mobcast_proto::wire::Frame;
use mobcast_proto::wire::frame::{Join, Leader, Refusal};
use mobcast_proto::{
    BroadcastId, ByteRange, ClusterId, Digest, Duration, GroupId, LinkId, NodeId, PieceIndex, PublicKey, Signature,
};

use super::world::{World, secret};
use super::{GROUP, address, admit, description, peer};

/// The only signature that counts as right.
pub const RIGHT: Signature = Signature([0xa5; 64]);
const WRONG: Signature = Signature([0x5a; 64]);

/// One frame for `link`.
pub fn frame(world: &World, u: &mut Unstructured<'_>, link: LinkId) -> Result<Frame> {
    Ok(match u.int_in_range(0..=24)? {
        0 | 1 => group_frame(world, u)?,
        2 | 3 => Frame::Reports { reports: reports(world, u, link)? },
        4 | 5 => Frame::Announce { broadcast: broadcast(u)?, announcement: Box::new(any_announcement(u)?) },
        6..=9 => {
            let batch = batch(world, u)?;
            Frame::Batch { batch, signature: signature(u)? }
        }
        10 => Frame::WantBatches { broadcast: broadcast(u)?, from: number(u)?, until: number(u)? },
        11..=13 => Frame::Have { broadcast: broadcast(u)?, batches: number(u)?, pieces: runs(u)? },
        14 | 15 => {
            let (start, len) = (number(u)?, u.int_in_range(1..=40_000u32)?);
            let range = ByteRange { start, end: start.saturating_add(len).max(1) };
            Frame::Request { broadcast: broadcast(u)?, piece: piece(u)?, range }
        }
        16 => Frame::Cancel { broadcast: broadcast(u)?, piece: piece(u)? },
        17 => Frame::Reject { broadcast: broadcast(u)?, piece: piece(u)? },
        18..=20 => Frame::Strategy { broadcast: broadcast(u)?, message: strategy_message(u)? },
        21 => Frame::Whole { broadcast: broadcast(u)?, whole: Box::new(whole(u)?) },
        22 => Frame::Abort { broadcast: broadcast(u)?, reason: "changed".into(), signature: signature(u)? },
        23 => Frame::RootLost { broadcast: broadcast(u)?, signature: signature(u)? },
        _ => Frame::Release { broadcast: broadcast(u)?, signature: signature(u)? },
    })
}

/// Frames about the group rather than about a broadcast.
fn group_frame(world: &World, u: &mut Unstructured<'_>) -> Result<Frame> {
    Ok(match u.int_in_range(0..=21)? {
        0 => Frame::Ping { token: u.arbitrary()? },
        1 => Frame::Pong { token: world.now.0.wrapping_sub(u64::from(u.arbitrary::<u32>()?)) },
        2 => Frame::Bye,
        3 => Frame::Join(join(u)?),
        4 => {
            let leader = |n: u32| Leader { cluster: ClusterId(n), addresses: vec![address(n)] };
            Frame::Probe { leaders: (0..u.int_in_range(0..=16)?).map(leader).collect() }
        }
        5 => {
            let count = u.int_in_range(0..=16)?;
            let rtt = |u: &mut Unstructured<'_>| Ok((ClusterId(u.int_in_range(0..=5)?), u.arbitrary()?));
            Frame::Probed { rtts_us: (0..count).map(|_| rtt(u)).collect::<Result<_>>()? }
        }
        6 => admit(),
        7 => Frame::Refuse { refusal: Refusal::Invalid },
        8 | 9 => Frame::Assign { assignment: Box::new(assignment(u)?), signature: signature(u)? },
        10 => Frame::Hello(world.node.hello(0)),
        11 => Frame::Entrust { authority: secret(), children: nodes(u)? },
        12 | 13 => {
            let coordinator = peer(u.int_in_range(0..=7)?);
            Frame::Succession { succession: Succession { term: number(u)?, coordinator }, signature: signature(u)? }
        }
        14 => Frame::Adrift,
        15 => {
            let slots = if u.arbitrary()? { SlotSet::all() } else { SlotSet::all().take(u.int_in_range(0..=4_096)?) };
            Frame::Holding { term: number(u)?, epoch: number(u)?, slots }
        }
        16 => Frame::Later { after_ms: u.arbitrary()? },
        17 => Frame::Retire,
        18 => Frame::CheckWay { token: u.arbitrary()? },
        19 => Frame::WayClear { token: u.arbitrary()? },
        _ => {
            let assign = Frame::Assign { assignment: Box::new(assignment(u)?), signature: RIGHT };
            Frame::Routed { path: nodes(u)?, frame: assign.encode() }
        }
    })
}

// ---- Small values ----

pub fn node(u: &mut Unstructured<'_>) -> Result<NodeId> {
    if u.ratio(1, 32)? { Ok(NodeId(u.arbitrary()?)) } else { Ok(NodeId(u.int_in_range(0..=7)?)) }
}

fn nodes(u: &mut Unstructured<'_>) -> Result<Vec<NodeId>> {
    (0..u.int_in_range(0..=3)?).map(|_| node(u)).collect()
}

pub fn broadcast(u: &mut Unstructured<'_>) -> Result<BroadcastId> {
    if u.ratio(3, 4)? {
        return Ok(super::BROADCAST);
    }
    if u.ratio(1, 4)? {
        return Ok(BroadcastId::FILLER);
    }
    Ok(BroadcastId { root: node(u)?, sequence: u.int_in_range(0..=2)? })
}

pub fn piece(u: &mut Unstructured<'_>) -> Result<PieceIndex> {
    number(u).map(PieceIndex)
}

/// Mostly small, sometimes any, sometimes near a limit.
fn number(u: &mut Unstructured<'_>) -> Result<u32> {
    match u.int_in_range(0..=15)? {
        0 => u.arbitrary(),
        1 => Ok(PIECES_MAX - u.int_in_range(0..=2)?),
        _ => u.int_in_range(0..=47),
    }
}

fn signature(u: &mut Unstructured<'_>) -> Result<Signature> {
    Ok(if u.ratio(1, 8)? { WRONG } else { RIGHT })
}

/// Ascending runs within the limits.
fn runs(u: &mut Unstructured<'_>) -> Result<Vec<Run>> {
    let mut next = 0;
    let mut runs = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let first = number(u)?.saturating_add(next);
        let count = if u.ratio(1, 4)? { number(u)?.max(1) } else { 1 };
        if u64::from(first) + u64::from(count) > u64::from(PIECES_MAX) {
            break;
        }
        runs.push(Run { first: PieceIndex(first), count });
        next = first + count;
    }
    Ok(runs)
}

fn slots(u: &mut Unstructured<'_>) -> Result<SlotSet> {
    Ok(match u.int_in_range(0..=3)? {
        0 => SlotSet::none(),
        1 => SlotSet::all(),
        _ => SlotSet::all().take(usize::from(u.arbitrary::<u16>()?)),
    })
}

// ---- The group ----

fn join(u: &mut Unstructured<'_>) -> Result<Join> {
    let cluster = ["a", "b", "c"][u.int_in_range(0..=2)?].to_owned();
    let addresses: Vec<SocketAddr> = (0..u.int_in_range(0..=2)?).map(address).collect();
    let key = PublicKey([u.arbitrary()?; 32]);
    Ok(Join { name: "joiner".into(), cluster: u.arbitrary::<bool>()?.then_some(cluster), addresses, key })
}

fn assignment(u: &mut Unstructured<'_>) -> Result<Assignment> {
    let peers = |u: &mut Unstructured<'_>| -> Result<Vec<_>> {
        (0..u.int_in_range(0..=4)?).map(|_| Ok(peer(u.int_in_range(0..=9)?))).collect()
    };
    Ok(Assignment {
        term: u.int_in_range(0..=3)?,
        epoch: number(u)?,
        node: if u.ratio(1, 16)? { node(u)? } else { super::MEMBER },
        cluster: ClusterId(u.int_in_range(0..=2)?),
        cluster_name: "b".into(),
        rank: number(u)?,
        cluster_size: number(u)?,
        clusters: (0..u.int_in_range(0..=3)?).map(ClusterId).collect(),
        parent: if u.ratio(1, 8)? { None } else { Some(peer(u.int_in_range(0..=5)?)) },
        local_peers: peers(u)?,
        global_peers: peers(u)?,
        slots: slots(u)?,
        successors: (0..u.int_in_range(0..=2)?).map(|_| Ok(peer(u.int_in_range(1..=4)?))).collect::<Result<_>>()?,
        plans: (0..u.int_in_range(0..=1)?).map(|_| plan(u)).collect::<Result<_>>()?,
        plan_peers: peers(u)?,
        probes: (0..u.int_in_range(0..=2)?).map(|_| probe_order(u)).collect::<Result<_>>()?,
        trusts_members: u.arbitrary()?,
        counterparts: (0..u.int_in_range(0..=2)?).map(|_| node(u)).collect::<Result<_>>()?,
    })
}

fn probe_result(u: &mut Unstructured<'_>) -> Result<ProbeResult> {
    let rtt = Duration::from_micros(u.arbitrary()?);
    let reading = u.arbitrary::<bool>()?.then_some(Reading { rate_bytes_per_s: u.arbitrary()?, rtt });
    Ok(ProbeResult { number: number(u)?, bytes: u.arbitrary()?, reading })
}

fn probe_order(u: &mut Unstructured<'_>) -> Result<ProbeOrder> {
    let role = if u.arbitrary()? { ProbeRole::Ask } else { ProbeRole::Serve };
    Ok(ProbeOrder { number: number(u)?, peer: node(u)?, role })
}

fn plan(u: &mut Unstructured<'_>) -> Result<PlanPlace> {
    let child = |u: &mut Unstructured<'_>| -> Result<TreeChild> {
        let rate_bytes_per_s = u.arbitrary::<bool>()?.then_some(u.arbitrary()?);
        Ok(TreeChild { node: node(u)?, rate_bytes_per_s })
    };
    let tree = |u: &mut Unstructured<'_>| -> Result<TreePlace> {
        Ok(TreePlace {
            weight: u.arbitrary()?,
            depth: number(u)?,
            parent: if u.ratio(1, 4)? { None } else { Some(node(u)?) },
            children: (0..u.int_in_range(0..=2)?).map(|_| child(u)).collect::<Result<_>>()?,
        })
    };
    Ok(PlanPlace {
        strategy: ["chain", "balanced", "scatter-allgather"][u.int_in_range(0..=2)?].into(),
        root: NodeId(u.int_in_range(0..=1)?),
        position: number(u)?,
        nodes: number(u)?,
        cluster_first: number(u)?,
        cluster_size: number(u)?,
        split: [Split::RoundRobin, Split::Weighted, Split::Parts][u.int_in_range(0..=2)?],
        trees: (0..u.int_in_range(0..=3)?).map(|_| tree(u)).collect::<Result<_>>()?,
        peers: (0..u.int_in_range(0..=3)?).map(|_| node(u)).collect::<Result<_>>()?,
    })
}

fn reports(world: &World, u: &mut Unstructured<'_>, link: LinkId) -> Result<Vec<SignedReport>> {
    let sender = world.links.get(&link).copied().unwrap_or_default();
    let report = |u: &mut Unstructured<'_>| {
        let from = if u.ratio(3, 4)? { sender } else { node(u)? };
        Ok(SignedReport { from, report: report(u, from)?, signature: signature(u)? })
    };
    (0..u.int_in_range(0..=3)?).map(|_| report(u)).collect()
}

fn report(u: &mut Unstructured<'_>, from: NodeId) -> Result<Report> {
    Ok(match u.int_in_range(0..=11)? {
        11 => Report::Assigned { epoch: number(u)? },
        10 => Report::Probed(probe_result(u)?),
        0 => Report::Ready { epoch: number(u)? },
        1 => Report::Lost { node: node(u)? },
        2 => Report::Unreachable { node: node(u)? },
        3 => Report::Violation { node: node(u)? },
        4 | 5 => {
            let outcome = if u.arbitrary()? { Ok(Digest([9; 32])) } else { Err("no space".to_owned()) };
            let traffic = Traffic { in_wan: u.arbitrary()?, ..Traffic::default() };
            Report::Result(NodeResult { broadcast: broadcast(u)?, outcome, elapsed_us: u.arbitrary()?, traffic })
        }
        6 | 7 => Report::Receipt { broadcast: broadcast(u)?, pieces: runs(u)? },
        _ => Report::Standing(Box::new(standing(u, from)?)),
    })
}

/// What a member says of itself to a new coordinator.
fn standing(u: &mut Unstructured<'_>, from: NodeId) -> Result<Standing> {
    let mut assignment = assignment(u)?;
    assignment.node = from;
    Ok(Standing {
        credential: Credential { group: GROUP, node: from, key: PublicKey([2; 32]), expires_unix_s: 1 },
        credential_signature: RIGHT,
        name: "member".into(),
        addresses: (0..u.int_in_range(0..=2)?).map(address).collect(),
        assignment,
        assignment_signature: signature(u)?,
        children: nodes(u)?,
        banned: nodes(u)?,
        over: vec![broadcast(u)?],
    })
}

// ---- Broadcasts ----

/// A root's announcement with right signatures.
pub fn announcement(root: NodeId, descriptor: Descriptor) -> Announcement {
    let credential = Credential { group: GROUP, node: root, key: PublicKey([2; 32]), expires_unix_s: 1 };
    Announcement { cluster: ClusterId(0), descriptor, credential, credential_signature: RIGHT, signature: RIGHT }
}

fn any_announcement(u: &mut Unstructured<'_>) -> Result<Announcement> {
    let form: u8 = u.arbitrary()?;
    let descriptor = if form & 4 == 0 { description(u, form)? } else { crate::manifest::descriptor(u)? };
    let mut announcement = announcement(node(u)?, descriptor);
    announcement.cluster = ClusterId(u.int_in_range(0..=2)?);
    if u.ratio(1, 16)? {
        announcement.credential.group = GroupId::default();
    }
    announcement.signature = signature(u)?;
    Ok(announcement)
}

/// An object in one frame; now and then not what its batch says.
fn whole(u: &mut Unstructured<'_>) -> Result<Whole> {
    let data = vec![7u8; usize::from(u.arbitrary::<u8>()?)];
    let mut descriptor = description(u, 3)?;
    descriptor.length = Some(data.len() as u64);
    let mut batch = continuing(&Chain::new(&descriptor), super::BROADCAST, descriptor.piece_size, 0);
    batch.hashes = if data.is_empty() { [].into() } else { [subtree(&data)].into() };
    batch.end = Some(End { length: data.len() as u64, object_hash: Digest([9; 32]) });
    if u.ratio(1, 8)? {
        batch.first = piece(u)?;
    }
    Ok(Whole {
        announcement: announcement(node(u)?, descriptor),
        batch,
        batch_signature: signature(u)?,
        data: data.into(),
    })
}

/// The hash of an object's only piece.
fn subtree(data: &[u8]) -> Digest {
    Digest(blake3::Hasher::new().update(data).finalize_non_root())
}

fn continuing(chain: &Chain, broadcast: BroadcastId, piece_size: u32, hashes: usize) -> Batch {
    let first = PieceIndex(chain.pieces());
    Batch {
        broadcast,
        piece_size,
        first,
        previous: chain.last(),
        hashes: vec![Digest([7; 32]); hashes].into(),
        end: None,
    }
}

/// A batch that continues what the node has of a manifest, or nearly so.
fn batch(world: &World, u: &mut Unstructured<'_>) -> Result<Batch> {
    let id = broadcast(u)?;
    let state = world.node.broadcast_state(id);
    let (Some(chain), Some(state)) = (world.heard.get(&id), state) else {
        return Ok(continuing(&Chain::new(&description(u, 0)?), id, super::PIECE_SIZE, 1));
    };
    let piece_size = state.swarm().piece_size();
    let announced = state.announcement.descriptor.piece_count();
    let left = announced.map_or(3, |pieces| pieces.saturating_sub(chain.pieces()));
    let hashes = if u.ratio(1, 16)? { u.int_in_range(0..=1024)? } else { u.int_in_range(0..=left.min(1024) as usize)? };
    let mut batch = continuing(chain, id, piece_size, hashes);
    if hashes as u32 == left || u.ratio(1, 16)? {
        let least = (u64::from(chain.pieces()) + hashes as u64).saturating_sub(1) * u64::from(piece_size) + 1;
        let length = if u.ratio(1, 16)? { number(u)?.into() } else { least };
        let length = state.announcement.descriptor.length.unwrap_or(length);
        batch.end = Some(End { length, object_hash: Digest([9; 32]) });
    }
    if u.ratio(1, 16)? {
        batch.previous = Digest([1; 32]);
    }
    if batch.first.0.saturating_add(hashes as u32) > PIECES_MAX {
        batch.hashes = [].into();
    }
    Ok(batch)
}

/// Keeps the harness' copy of a manifest in step with the node's.
pub fn note_batch(world: &mut World, frame: &Frame) {
    let Frame::Batch { batch, .. } = frame else { return };
    let known = world.node.broadcast_state(batch.broadcast).map(|state| state.swarm().known());
    let Some(chain) = world.heard.get_mut(&batch.broadcast) else { return };
    let follows = known == Some(chain.pieces() + batch.hashes.len() as u32);
    if follows && (!batch.hashes.is_empty() || batch.end.is_some()) {
        // The node has judged it; a difference shows as frames that get nowhere.
        let _ = chain.accept(batch, &batch.to_bytes());
    }
}

fn strategy_message(u: &mut Unstructured<'_>) -> Result<StrategyMessage> {
    Ok(match u.int_in_range(0..=8)? {
        0 => StrategyMessage::Interest { slots: slots(u)?, pieces: runs(u)? },
        1 => StrategyMessage::Share { slots: slots(u)? },
        2 => StrategyMessage::Backlog { unrequested: number(u)?, rate_bytes_per_s: u.arbitrary()? },
        3 => StrategyMessage::Steal { rate_bytes_per_s: u.arbitrary()?, pieces_max: number(u)? },
        4 => StrategyMessage::Grant { pieces: runs(u)? },
        5 => StrategyMessage::Choke,
        6 => StrategyMessage::Unchoke,
        7 => StrategyMessage::Leaving { to: ClusterId(number(u)?), pieces: runs(u)? },
        _ => StrategyMessage::Importing { pieces: runs(u)? },
    })
}
