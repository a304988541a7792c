//! The wire format as a whole: every frame travels, decoding is total, and `docs/wire-format.md` says what the code
//! does. Sees only what the wire sees: bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::codec::{DecodeError, Reader};
use super::frame::{Frame, Hello, Join, Leader, MAGIC, PROTOCOL_VERSION, Refusal};
use super::payload::{PAYLOAD_HEADER_BYTES, PAYLOAD_TYPE, PayloadHeader};
use crate::content::announcement::{Announcement, WHOLE_BYTES_MAX, Whole};
use crate::content::have::Run;
use crate::content::manifest::{Batch, End};
use crate::content::object::{Descriptor, FileMeta, ObjectKind};
use crate::content::slots::SlotSet;
use crate::group::assignment::{Assignment, Credential, PeerAddress};
use crate::group::gauge::{ProbeOrder, ProbeResult, ProbeRole, Reading};
use crate::group::report::{NodeResult, Report, SignedReport, Traffic};
use crate::group::succession::{Secret, Standing, Succession};
use crate::limits::{BATCH_HASHES_MAX, CHUNK_BYTES_MAX, FRAME_BYTES_MAX, PIECE_SIZE_MAX, PIECES_MAX};
use crate::strategy::message::StrategyMessage;
use crate::time::Duration;
use crate::units::{BroadcastId, ByteRange, ClusterId, Digest, GroupId, NodeId, PieceIndex, PublicKey, Signature};

const DOCUMENT: &str = include_str!("../../../../docs/wire-format.md");

const BROADCAST: BroadcastId = BroadcastId { root: NodeId(0), sequence: 3 };
const SIGNATURE: Signature = Signature([0x5a; 64]);

// ---- One value of each kind ----

fn group() -> GroupId {
    GroupId(std::array::from_fn(|i| i as u8))
}

fn hello() -> Frame {
    let (node, cluster) = (NodeId(7), ClusterId(2));
    Frame::Hello(Hello { version: PROTOCOL_VERSION, group: group(), node, cluster, stream: 0, plain: false })
}

fn have() -> Frame {
    let pieces = vec![Run { first: PieceIndex(10), count: 3 }, Run { first: PieceIndex(200), count: 1 }];
    Frame::Have { broadcast: BROADCAST, batches: 2, pieces }
}

fn request() -> Frame {
    let range = ByteRange { start: 0, end: 128 << 10 };
    Frame::Request { broadcast: BROADCAST, piece: PieceIndex(10), range }
}

fn payload_header() -> PayloadHeader {
    let range = ByteRange { start: 64 << 10, end: 128 << 10 };
    PayloadHeader { broadcast: BROADCAST, piece: PieceIndex(10), range, plain: false }
}

fn credential() -> Credential {
    Credential { group: group(), node: NodeId(7), key: PublicKey([8; 32]), expires_unix_s: 1_900_000_000 }
}

fn descriptor(kind: ObjectKind) -> Descriptor {
    Descriptor {
        kind,
        name: b"weights-\xff.bin".to_vec(),
        meta: FileMeta { mode: 0o640, modified_s: -1, modified_ns: 999_999_999, sparse: true },
        length: (kind != ObjectKind::Stream).then_some(5_000_000_000),
        index_length: if kind == ObjectKind::Directory { 70_000 } else { 0 },
        piece_size: 1 << 20,
        strategy: "mob".into(),
    }
}

fn batch(hashes: usize, end: bool) -> Batch {
    Batch {
        broadcast: BROADCAST,
        piece_size: 1 << 20,
        first: PieceIndex(1024),
        previous: Digest([1; 32]),
        hashes: vec![Digest([2; 32]); hashes].into(),
        end: end.then_some(End { length: 5_000_000_000, object_hash: Digest([3; 32]) }),
    }
}

fn peer(node: u32) -> PeerAddress {
    let addresses = vec!["192.0.2.7:7077".parse().unwrap(), "[2001:db8::7]:7077".parse().unwrap()];
    PeerAddress { node: NodeId(node), cluster: ClusterId(node % 3), rank: node / 3, addresses }
}

fn assignment() -> Assignment {
    Assignment {
        term: 1,
        epoch: 4,
        node: NodeId(7),
        cluster: ClusterId(1),
        cluster_name: "leiden".into(),
        rank: 2,
        cluster_size: 16,
        clusters: (0..4).map(ClusterId).collect(),
        parent: Some(peer(1)),
        local_peers: vec![peer(4), peer(10)],
        global_peers: vec![peer(3)],
        slots: SlotSet::all().take(256),
        successors: vec![peer(1), peer(2)],
        plans: vec![crate::group::place::tests::place()],
        plan_peers: vec![peer(5)],
        probes: vec![
            ProbeOrder { number: 6, peer: NodeId(5), role: ProbeRole::Ask },
            ProbeOrder { number: 300, peer: NodeId(4), role: ProbeRole::Serve },
        ],
        counterparts: vec![NodeId(3)],
        trusts_members: true,
    }
}

fn announce(kind: ObjectKind) -> Frame {
    Frame::Announce { broadcast: BROADCAST, announcement: Box::new(announcement(kind)) }
}

fn announcement(kind: ObjectKind) -> Announcement {
    Announcement {
        cluster: ClusterId(2),
        descriptor: descriptor(kind),
        credential: credential(),
        credential_signature: SIGNATURE,
        signature: SIGNATURE,
    }
}

fn whole(bytes: usize) -> Frame {
    let whole = Whole {
        announcement: announcement(ObjectKind::Bytes),
        batch: batch(1, true),
        batch_signature: SIGNATURE,
        data: vec![0x77; bytes].into(),
    };
    Frame::Whole { broadcast: BROADCAST, whole: Box::new(whole) }
}

fn reports() -> Frame {
    let traffic = Traffic { in_wan: 1, in_lan: 300, out_wan: 70_000, out_lan: u64::MAX, wasted: 0 };
    let result = |outcome| Report::Result(NodeResult { broadcast: BROADCAST, outcome, elapsed_us: 1_000_000, traffic });
    let all = [
        Report::Ready { epoch: 4 },
        Report::Assigned { epoch: 70_000 },
        Report::Lost { node: NodeId(9) },
        Report::Unreachable { node: NodeId(u32::MAX) },
        result(Ok(Digest([6; 32]))),
        result(Err("cannot write /data/x: Permission denied".into())),
        Report::Receipt { broadcast: BROADCAST, pieces: vec![Run { first: PieceIndex(3), count: 500 }] },
        Report::Violation { node: NodeId(3) },
        Report::Standing(Box::new(standing())),
        Report::Probed(ProbeResult { number: 6, bytes: 0, reading: None }),
        Report::Probed(ProbeResult {
            number: 300,
            bytes: 3_000_000,
            reading: Some(Reading { rate_bytes_per_s: 3_000_000, rtt: Duration::from_micros(20_100) }),
        }),
    ];
    let signed = |report| SignedReport { from: NodeId(5), report, signature: SIGNATURE };
    Frame::Reports { reports: all.into_iter().map(signed).collect() }
}

fn standing() -> Standing {
    Standing {
        credential: credential(),
        credential_signature: SIGNATURE,
        name: "host-1".into(),
        addresses: peer(0).addresses,
        assignment: assignment(),
        assignment_signature: SIGNATURE,
        children: vec![NodeId(12), NodeId(13)],
        banned: vec![NodeId(3)],
        over: vec![BROADCAST],
    }
}

fn strategy_messages() -> Vec<StrategyMessage> {
    let pieces = vec![Run { first: PieceIndex(0), count: 1 }];
    vec![
        StrategyMessage::Interest { slots: SlotSet::all().take(17), pieces: pieces.clone() },
        StrategyMessage::Share { slots: SlotSet::all() },
        StrategyMessage::Backlog { unrequested: 300, rate_bytes_per_s: 12_500_000 },
        StrategyMessage::Steal { rate_bytes_per_s: u64::MAX, pieces_max: 1 },
        StrategyMessage::Grant { pieces: pieces.clone() },
        StrategyMessage::Importing { pieces: pieces.clone() },
        StrategyMessage::Leaving { to: ClusterId(3), pieces: pieces.clone() },
        StrategyMessage::Choke,
        StrategyMessage::Unchoke,
        StrategyMessage::Work { left: 300 },
        StrategyMessage::Desire { pieces },
        StrategyMessage::Interested,
        StrategyMessage::NotInterested,
    ]
}

/// At least one frame of each kind, and every variant of what they contain.
fn samples() -> Vec<Frame> {
    let (broadcast, piece, signature) = (BROADCAST, PieceIndex(10), SIGNATURE);
    let addresses = peer(0).addresses;
    let mut frames = vec![
        hello(),
        Frame::Join(Join {
            name: "host-1".into(),
            cluster: Some("leiden".into()),
            addresses: addresses.clone(),
            key: PublicKey([8; 32]),
        }),
        Frame::Join(Join { name: "ærø".into(), cluster: None, addresses: vec![], key: PublicKey([8; 32]) }),
        Frame::Probe { leaders: vec![Leader { cluster: ClusterId(3), addresses }] },
        Frame::Probed { rtts_us: vec![(ClusterId(0), Some(20_000)), (ClusterId(1), None)] },
        Frame::Admit {
            credential: credential(),
            signature,
            certificate: vec![0x30; 400],
            reason: "founded a cluster: no leader of another one answered".into(),
        },
        Frame::Refuse { refusal: Refusal::Full },
        Frame::Refuse { refusal: Refusal::Closing },
        Frame::Refuse { refusal: Refusal::Invalid },
        Frame::Later { after_ms: 350 },
        Frame::Assign { assignment: Box::new(assignment()), signature },
        Frame::Routed { path: vec![NodeId(1), NodeId(7)], frame: Frame::Bye.encode() },
        reports(),
        Frame::Entrust { authority: Secret(vec![1; 49]), children: vec![NodeId(1), NodeId(2)] },
        Frame::Succession { succession: Succession { term: 2, coordinator: peer(1) }, signature },
        Frame::Adrift,
        Frame::Holding { term: 1, epoch: 7, slots: SlotSet::all().take(100) },
        Frame::RootLost { broadcast, signature },
        Frame::Batch { batch: batch(2, false), signature },
        Frame::Batch { batch: batch(BATCH_HASHES_MAX, true), signature },
        Frame::WantBatches { broadcast, from: 5, until: 9 },
        have(),
        request(),
        Frame::Cancel { broadcast, piece },
        Frame::Reject { broadcast, piece },
        whole(0),
        whole(WHOLE_BYTES_MAX as usize),
        Frame::Abort { broadcast, reason: "/data/x changed while it was being sent".into(), signature },
        Frame::Release { broadcast, signature },
        Frame::Ping { token: 7 },
        Frame::Pong { token: u64::MAX },
        Frame::Bye,
        Frame::Retire,
        Frame::CheckWay { token: 7 },
        Frame::WayClear { token: u64::MAX },
    ];
    let kinds = [
        ObjectKind::File,
        ObjectKind::Directory,
        ObjectKind::Bytes,
        ObjectKind::Stream,
        ObjectKind::Synthetic { seed: 9 },
    ];
    frames.extend(kinds.map(announce));
    frames.extend(strategy_messages().into_iter().map(|message| Frame::Strategy { broadcast, message }));
    frames
}

/// The name by which the document lists a frame. Without a wildcard, so that a frame that is added does not compile
/// before it has a sample and a line in the document.
fn name_of(frame: &Frame) -> &'static str {
    match frame {
        Frame::Hello(_) => "Hello",
        Frame::Join(_) => "Join",
        Frame::Probe { .. } => "Probe",
        Frame::Probed { .. } => "Probed",
        Frame::Admit { .. } => "Admit",
        Frame::Refuse { .. } => "Refuse",
        Frame::Assign { .. } => "Assign",
        Frame::Routed { .. } => "Routed",
        Frame::Reports { .. } => "Reports",
        Frame::Entrust { .. } => "Entrust",
        Frame::Succession { .. } => "Succession",
        Frame::Adrift => "Adrift",
        Frame::Holding { .. } => "Holding",
        Frame::Later { .. } => "Later",
        Frame::Announce { .. } => "Announce",
        Frame::Batch { .. } => "Batch",
        Frame::WantBatches { .. } => "WantBatches",
        Frame::Have { .. } => "Have",
        Frame::Request { .. } => "Request",
        Frame::Cancel { .. } => "Cancel",
        Frame::Reject { .. } => "Reject",
        Frame::Strategy { .. } => "Strategy",
        Frame::Whole { .. } => "Whole",
        Frame::Abort { .. } => "Abort",
        Frame::Release { .. } => "Release",
        Frame::RootLost { .. } => "RootLost",
        Frame::Ping { .. } => "Ping",
        Frame::Pong { .. } => "Pong",
        Frame::Bye => "Bye",
        Frame::Retire => "Retire",
        Frame::CheckWay { .. } => "CheckWay",
        Frame::WayClear { .. } => "WayClear",
    }
}

// ---- The document ----

/// The frames that the document lists: name by type byte, from the rows `` | `0x01` | Hello | … ``.
fn documented() -> BTreeMap<u8, &'static str> {
    let mut types = BTreeMap::new();
    for line in DOCUMENT.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(first), Some(name)) = (cells.next(), cells.next()) else { continue };
        let Some(hex) = first.strip_prefix("`0x").and_then(|rest| rest.strip_suffix('`')) else { continue };
        let value = u8::from_str_radix(hex, 16).expect("a type byte in hex");
        assert_eq!(types.insert(value, name), None, "the document lists {value:#04x} twice");
    }
    types
}

/// The bytes of the document's example of that name: a fenced block `hex NAME`, with `#` before what it means.
fn example(name: &str) -> Vec<u8> {
    let opening = format!("```hex {name}\n");
    let (_, rest) = DOCUMENT.split_once(&opening).unwrap_or_else(|| panic!("the document has no example {name}"));
    let (block, _) = rest.split_once("```").expect("the example ends");
    let digits: String = block.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("two digits of hex");
    digits.chunks(2).map(byte).collect()
}

#[test]
fn the_documents_examples_are_what_the_code_sends() {
    for (name, frame) in [("Hello", hello()), ("Have", have()), ("Request", request())] {
        assert_eq!(example(name), frame.encode(), "{name}: mend docs/wire-format.md, or the version has to change");
        assert_eq!(Frame::decode(&example(name)), Ok(frame), "{name}");
    }
    assert_eq!(example("PayloadHeader"), payload_header().encode());
    assert_eq!(PayloadHeader::decode(&example("PayloadHeader")), Ok(payload_header()));
}

#[test]
fn the_document_lists_every_type_byte_once() {
    let mut used: BTreeMap<u8, &str> = BTreeMap::new();
    for frame in samples() {
        let name = name_of(&frame);
        let other = used.insert(frame.encode()[0], name);
        assert!(other.is_none_or(|other| other == name), "{name} and {other:?} have the same type byte");
    }
    assert!(used.insert(PAYLOAD_TYPE, "payload header").is_none(), "payload headers look like a frame");
    let mut documented = documented();
    // The welcome belongs to the channel; the core never sees it, and must not take its byte for a frame.
    assert_eq!(documented.remove(&0xf1), Some("welcome"));
    assert_eq!(documented, used);
    assert!(Frame::decode(&[0xf1]).is_err() && Frame::decode(&[PAYLOAD_TYPE]).is_err());
}

// ---- Travelling ----

#[test]
fn every_frame_travels() {
    for frame in samples() {
        let bytes = frame.encode();
        assert!(bytes.len() <= FRAME_BYTES_MAX);
        assert_eq!(Frame::decode(&bytes), Ok(frame));
    }
}

#[test]
fn every_shortened_or_lengthened_frame_is_refused() {
    for frame in samples() {
        let mut bytes = frame.encode();
        // The largest ones at some lengths only: each decoding copies the payload.
        let step = bytes.len().div_ceil(2_000);
        for len in (0..bytes.len()).step_by(step) {
            assert!(Frame::decode(&bytes[..len]).is_err(), "{} of {} bytes: {}", len, bytes.len(), name_of(&frame));
        }
        bytes.push(0);
        assert!(matches!(Frame::decode(&bytes), Err(DecodeError::Long(1) | DecodeError::Limit { .. })), "{frame:?}");
    }
}

#[test]
fn a_piece_that_no_object_can_have_is_no_frame() {
    for piece in [PieceIndex(PIECES_MAX), PieceIndex(u32::MAX)] {
        let (broadcast, range) = (BROADCAST, ByteRange { start: 0, end: 1 });
        for frame in [
            Frame::Request { broadcast, piece, range },
            Frame::Cancel { broadcast, piece },
            Frame::Reject { broadcast, piece },
        ] {
            let refused = Frame::decode(&frame.encode());
            assert!(matches!(refused, Err(DecodeError::Limit { what: "piece", .. })), "{refused:?}");
        }
    }
}

#[test]
fn another_version_is_recognised_whatever_follows() {
    let mut bytes = vec![0x01];
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&2u16.to_be_bytes());
    bytes.extend_from_slice(b"what version 2 may have here");
    let Ok(Frame::Hello(hello)) = Frame::decode(&bytes) else { panic!("the greeting of version 2 is not understood") };
    assert_eq!(hello.version, 2);
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_characters() {
    let frame = Frame::Abort { broadcast: BROADCAST, reason: "é".repeat(2_000), signature: SIGNATURE };
    let Ok(Frame::Abort { reason, .. }) = Frame::decode(&frame.encode()) else { panic!("it does not travel") };
    assert!(reason.len() <= 1_024 && reason.chars().all(|c| c == 'é'));
}

#[test]
fn what_is_beyond_a_limit_is_refused_by_name() {
    let over = [0x13, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0xff, 0xff, 0x7f];
    assert!(matches!(Frame::decode(&over), Err(DecodeError::Limit { what: "runs of pieces", .. })));
    let empty = Frame::Request { broadcast: BROADCAST, piece: PieceIndex(0), range: ByteRange::whole(0) };
    assert_eq!(Frame::decode(&empty.encode()), Err(DecodeError::Malformed("empty request")));
    assert!(matches!(Frame::decode(&vec![0x22; FRAME_BYTES_MAX + 1]), Err(DecodeError::Limit { what: "frame", .. })));
    assert!(matches!(Frame::decode(&[0x02, 0x80, 0x00]), Err(DecodeError::Malformed("number with padding"))));
}

#[test]
fn a_payload_header_keeps_chunks_within_pieces() {
    let at = |start: u32, len: u32| {
        let mut bytes = payload_header().encode();
        bytes[13..17].copy_from_slice(&start.to_be_bytes());
        bytes[17..21].copy_from_slice(&len.to_be_bytes());
        PayloadHeader::decode(&bytes)
    };
    assert!(at(PIECE_SIZE_MAX - CHUNK_BYTES_MAX, CHUNK_BYTES_MAX).is_ok());
    assert!(at(PIECE_SIZE_MAX - CHUNK_BYTES_MAX + 1, CHUNK_BYTES_MAX).is_err());
    assert!(at(u32::MAX, CHUNK_BYTES_MAX).is_err() && at(0, CHUNK_BYTES_MAX + 1).is_err() && at(0, 0).is_err());
}

// ---- Total decoding ----

/// Whatever is read as a frame can be sent on, and is read as the same frame again.
fn is_total(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(frame) = Frame::decode(bytes) {
        let again = frame.encode();
        prop_assert!(again.len() <= FRAME_BYTES_MAX);
        prop_assert_eq!(Frame::decode(&again), Ok(frame));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        is_total(&bytes)?;
    }

    #[test]
    fn any_bytes_behind_a_type_are_a_frame_or_an_error(
        kind in prop::sample::select(documented().into_keys().collect::<Vec<_>>()),
        mut bytes in prop::collection::vec(any::<u8>(), 1..600),
    ) {
        bytes[0] = kind;
        is_total(&bytes)?;
    }

    #[test]
    fn a_frame_with_changed_bytes_is_a_frame_or_an_error(
        frame in prop::sample::select(samples()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = frame.encode();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend_from_slice(&tail);
        is_total(&bytes)?;
    }

    #[test]
    fn any_bytes_are_a_payload_header_or_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), 0..PAYLOAD_HEADER_BYTES + 3),
        typed in any::<bool>(),
    ) {
        if typed && let Some(first) = bytes.first_mut() {
            *first = PAYLOAD_TYPE;
        }
        if let Ok(header) = PayloadHeader::decode(&bytes) {
            prop_assert!(header.range.end <= PIECE_SIZE_MAX && header.range.len() <= CHUNK_BYTES_MAX);
            prop_assert_eq!(header.encode().to_vec(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_a_strategy_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = StrategyMessage::read(&mut Reader::new(&bytes));
    }
}
