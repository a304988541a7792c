//! Whose payload is taken, for which pieces, and how much of it.

use super::*;
use crate::store::{SinkOptions, SinkTarget};
use mobcast_proto::content::object::{FileMeta, ObjectKind};

const PIECE: PieceIndex = PieceIndex(0);
const SIZE: u32 = 1 << 20;
const ALL: ByteRange = ByteRange { start: 0, end: SIZE };
/// Two of these fit into the memory for open pieces.
const LARGE: u32 = 16 << 20;
const HOSTILE: LinkId = LinkId(1);
const HONEST: LinkId = LinkId(2);

/// A table that waits for an object of pieces of ones, with two links.
fn table_of(piece_size: u32, pieces: u32) -> (PieceTable, BroadcastId) {
    let (table, id) = (PieceTable::default(), BroadcastId::default());
    let descriptor = Descriptor {
        kind: ObjectKind::Bytes,
        name: vec![],
        meta: FileMeta::default(),
        length: Some(u64::from(piece_size) * u64::from(pieces)),
        index_length: 0,
        piece_size,
        strategy: "mob".into(),
    };
    table.announce(id, &descriptor, Arc::default());
    let target = SinkTarget::Bytes { max: u64::MAX };
    let sink = ObjectSink::open(target, &descriptor, &SinkOptions::default()).expect("a sink");
    table.open(id, Arc::new(sink));
    let ones = vec![1; piece_size as usize];
    let hashes: Arc<[Digest]> =
        (0..pieces).map(|piece| hash_piece(PieceIndex(piece), piece_size, &ones).subtree).collect();
    table.add_hashes(id, PIECE, hashes, None);
    [HOSTILE, HONEST].into_iter().for_each(|link| table.admit(link));
    (table, id)
}

fn table() -> (PieceTable, BroadcastId) {
    table_of(SIZE, 2)
}

/// Whether something of the first bytes that a link brings of a piece is wanted.
fn begin(table: &PieceTable, id: BroadcastId, link: LinkId, piece: u32) -> bool {
    let mut filling = table.claim(link, id, PieceIndex(piece), ByteRange { start: 0, end: 10 });
    let wanted = !filling.claims_mut().is_empty();
    filling.done();
    wanted
}

/// What a link brings of a chunk; false if nothing of it is wanted.
fn bring(table: &PieceTable, id: BroadcastId, link: LinkId, byte: u8, range: ByteRange) -> bool {
    let mut filling = table.claim(link, id, PIECE, range);
    let wanted = !filling.claims_mut().is_empty();
    filling.claims_mut().iter_mut().for_each(|claim| claim.bytes_mut().fill(byte));
    filling.done();
    wanted
}

#[test]
fn pieces_that_are_given_up_leave_their_memory_to_others() {
    let (table, id) = table();
    for _ in 0..200 {
        assert!(bring(&table, id, HONEST, 0, ByteRange { start: 0, end: 10 }), "there is memory for a piece");
        table.drop_piece(id, PIECE);
    }
}

#[test]
fn what_a_barred_link_has_brought_is_not_taken_for_another_ones() {
    let (table, id) = table();
    assert!(bring(&table, id, HOSTILE, 0x66, ByteRange { start: 0, end: SIZE / 2 }));
    let mut under_way = table.claim(HOSTILE, id, PIECE, ByteRange { start: SIZE / 2, end: SIZE });
    under_way.claims_mut()[0].bytes_mut().fill(0x66);
    table.bar(HOSTILE);
    assert!(bring(&table, id, HONEST, 1, ALL), "all of it is wanted again");
    under_way.done();
    assert!(!bring(&table, id, HOSTILE, 0x66, ALL), "nothing more is taken from it");
    let full = table.take_full(id, PIECE).expect("every byte is there");
    assert!(matches!(table.store(full), Verdict::Stored));
}

#[test]
fn a_piece_that_a_barred_link_brought_half_of_is_not_whole() {
    let (table, id) = table();
    let (first, second) = (ByteRange { start: 0, end: SIZE / 2 }, ByteRange { start: SIZE / 2, end: SIZE });
    assert!(bring(&table, id, HOSTILE, 1, first));
    assert_eq!(table.bar(HOSTILE), [(id, PIECE)], "the core hears of it");
    assert!(bring(&table, id, HONEST, 1, second));
    assert!(table.take_full(id, PIECE).is_none(), "it has to come again");
    table.expect(HONEST, id, PIECE);
    assert!(bring(&table, id, HONEST, 1, ALL));
    assert!(table.take_full(id, PIECE).is_some());
}

#[test]
fn a_forged_piece_is_from_those_whose_bytes_are_in_it() {
    let (table, id) = table();
    let late = LinkId(3);
    table.admit(late);
    assert!(bring(&table, id, HOSTILE, 0x66, ByteRange { start: SIZE - 1, end: SIZE }), "the core may not hear of it");
    assert!(bring(&table, id, HONEST, 1, ALL));
    assert!(!bring(&table, id, late, 1, ALL), "all of it is passed over");
    let full = table.take_full(id, PIECE).expect("every byte is there");
    let verdict = table.store(full);
    assert!(matches!(&verdict, Verdict::Forged { brought } if brought[..] == [HOSTILE, HONEST]), "{verdict:?}");
}

/// As soon as it is begun again, a byte of it comes from who was not asked, or is promised and kept back.
#[test]
fn what_was_wrong_or_not_whole_comes_from_who_is_asked() {
    for kept_back in [false, true] {
        let (table, id) = table();
        let last = ByteRange { start: SIZE - 1, end: SIZE };
        table.expect(HONEST, id, PIECE);
        let promised = kept_back.then(|| table.claim(HOSTILE, id, PIECE, last));
        if !kept_back {
            assert!(bring(&table, id, HOSTILE, 0x66, last));
        }
        assert!(bring(&table, id, HONEST, 1, ALL));
        match table.take_full(id, PIECE) {
            Some(full) => assert!(matches!(table.store(full), Verdict::Forged { .. })),
            None => assert!(kept_back, "every byte is there"),
        }
        drop(promised);
        table.drop_piece(id, PIECE);
        assert!(!bring(&table, id, HOSTILE, 0x66, last), "nobody was asked");
        table.expect(HONEST, id, PIECE);
        assert!(!bring(&table, id, HOSTILE, 0x66, last), "another one was asked");
        assert!(bring(&table, id, HONEST, 1, ALL));
        let full = table.take_full(id, PIECE).expect("every byte is there");
        assert!(matches!(table.store(full), Verdict::Stored));
        assert!(begin(&table, id, HOSTILE, 1), "of other pieces it may send something");
    }
}

#[test]
fn a_link_begins_one_large_piece_that_nobody_asked_for() {
    let (table, id) = table_of(LARGE, 6);
    assert!(begin(&table, id, HOSTILE, 0), "it may be a strategy that pushes");
    assert!(!begin(&table, id, HOSTILE, 1) && !begin(&table, id, HOSTILE, 2));
    assert!(bring(&table, id, HOSTILE, 0, ByteRange { start: 10, end: 20 }), "the one that is begun goes on");
    table.drop_piece(id, PIECE);
    assert!(begin(&table, id, HOSTILE, 1), "the core did not want the first one");
    table.expect(HOSTILE, id, PieceIndex(2));
    assert!(begin(&table, id, HOSTILE, 2), "it was asked for this one");
}

#[test]
fn a_link_that_pushes_brings_the_next_piece_before_the_core_has_taken_the_last_one() {
    let (table, id) = table_of(LARGE, 2);
    assert!(bring(&table, id, HONEST, 1, ByteRange::whole(LARGE)));
    assert!(begin(&table, id, HONEST, 1));
    assert!(table.take_full(id, PIECE).is_some());
}

#[test]
fn what_nobody_asked_for_makes_way() {
    let (table, id) = table_of(LARGE, 6);
    let mut under_way = table.claim(HOSTILE, id, PIECE, ByteRange { start: 0, end: 10 });
    assert!(!under_way.claims_mut().is_empty());
    table.admit(LinkId(3));
    assert!(begin(&table, id, LinkId(3), 1), "two pieces are all that there is memory for");
    for piece in [2, 3] {
        table.expect(HONEST, id, PieceIndex(piece));
        assert!(begin(&table, id, HONEST, piece), "there is memory for piece {piece}, which was asked for");
    }
    under_way.done();
    table.expect(HONEST, id, PieceIndex(4));
    assert!(!begin(&table, id, HONEST, 4), "what was asked for makes way for nothing");
}

#[test]
fn late_payload_of_requests_that_were_taken_back_is_taken_within_bounds() {
    let (table, id) = table_of(LARGE, 6);
    for piece in 0..3 {
        table.expect(HONEST, id, PieceIndex(piece));
        table.expect_no_more(HONEST, id, PieceIndex(piece));
    }
    assert!(begin(&table, id, HONEST, 0));
    assert!(!begin(&table, id, HONEST, 1));
    table.expect(HOSTILE, id, PieceIndex(1));
    assert!(begin(&table, id, HONEST, 1), "somebody else was asked for it, so there is memory for it");
    table.bar(HOSTILE);
    assert!(!begin(&table, id, HONEST, 2));
}

#[test]
fn what_comes_of_a_piece_while_it_is_verified_takes_no_memory() {
    let (table, id) = table();
    assert!(bring(&table, id, HONEST, 1, ALL));
    let full = table.take_full(id, PIECE).expect("every byte is there");
    assert!(bring(&table, id, HOSTILE, 1, ByteRange { start: 0, end: 10 }), "it may have to come again");
    assert!(matches!(table.store(full), Verdict::Stored));
    assert!(table.lock().broadcasts[&id].open.is_empty());
}

#[test]
fn who_keeps_memory_of_what_was_given_up_is_lent_no_more_unasked() {
    let (table, id) = table_of(LARGE, 6);
    let under_way = table.claim(HOSTILE, id, PIECE, ByteRange { start: 0, end: 10 });
    table.drop_piece(id, PIECE);
    assert!(!begin(&table, id, LinkId(2), 1), "16 MiB are held in vain");
    table.expect(HONEST, id, PieceIndex(2));
    assert!(begin(&table, id, HONEST, 2), "it was asked for");
    drop(under_way);
    assert!(begin(&table, id, HONEST, 1));
    let under_way = table.claim(HONEST, id, PieceIndex(2), ByteRange { start: 10, end: 20 });
    table.remove(id);
    assert_eq!(table.lock().allocated, 0);
    assert_eq!(table.lock().lent.bytes(), u64::from(LARGE));
    drop(under_way);
    assert_eq!(table.lock().lent.bytes(), 0);
}
