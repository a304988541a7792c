//! The piece table: for each broadcast that this node receives, what is known of its pieces and where their payload
//! goes. The core, the links and the worker threads meet here; every hold of its lock is short.
//!
//! Payload is taken only for pieces whose hash is known and that are not stored. A piece that does not fit into the
//! memory for open pieces is passed over; the core finds it incomplete and asks for it again. Pieces that somebody was
//! asked for come first: of what nobody asked for (strategies that push, and payload of requests that were taken back) each
//! link may begin little at a time, and all of it makes way; none is begun while much of what was given up is still lent to links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use mobcast_proto::content::have::HaveSet;
use mobcast_proto::content::object::{piece_offset, piece_range};
use mobcast_proto::content::{Descriptor, HashedObject};
use mobcast_proto::limits::{OPEN_PIECES_BYTES_MAX, SPARE_PIECES_BYTES_MAX};
use mobcast_proto::{BroadcastId, ByteRange, Digest, LinkId, PieceIndex};

use super::buffers::{Assembly, Claim, Lent};
use super::stats::TransferStats;
use crate::store::{ObjectHasher, ObjectSink, PieceHash, StoreError, hash_piece};

/// Verified contents of a directory that may wait, in a temporary file, for the directory's index.
const EARLY_BYTES_MAX: u64 = OPEN_PIECES_BYTES_MAX / 3;

/// Bytes of pieces that one link may have begun unasked at a time; one piece, if it is larger.
const UNASKED_BYTES_MAX: u64 = SPARE_PIECES_BYTES_MAX;

/// All pieces on their way in.
#[derive(Debug, Default)]
pub struct PieceTable {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    broadcasts: BTreeMap<BroadcastId, Incoming>,
    /// Links whose payload is taken.
    links: BTreeSet<LinkId>,
    /// Bytes of buffers, in use or kept for the next piece.
    allocated: u64,
    /// Buffers beside those that links have not let go.
    lent: Lent,
    /// Pieces begun so far.
    begun: u64,
}

/// One broadcast on its way in.
#[derive(Debug)]
struct Incoming {
    piece_size: u32,
    length: Option<u64>,
    hashes: Hashes,
    root_of_first: Option<Digest>,
    stored: HaveSet,
    open: BTreeMap<PieceIndex, Assembly>,
    /// Links that have brought bytes of open pieces, or are bringing them; not those all of whose bytes were passed over.
    brought: BTreeMap<PieceIndex, Vec<LinkId>>,
    /// Links that were asked for pieces, which may be open or not.
    asked: BTreeMap<PieceIndex, Vec<LinkId>>,
    /// Pieces that were not whole, or forged with the bytes of several: their bytes are taken from those alone who are asked for them.
    suspect: HaveSet,
    /// Open pieces that nobody was asked for, and the link that has begun each.
    unasked: BTreeMap<PieceIndex, LinkId>,
    /// Buffers for the next pieces. They are not zeroed: a piece is used only when it is filled.
    kept: Vec<BytesMut>,
    sink: Option<Arc<ObjectSink>>,
    index: Arc<IndexState>,
    stats: Arc<TransferStats>,
}

/// The signed hashes of an object's first pieces. They are the manifest's own: a large object has too many to have them
/// twice.
#[derive(Debug, Default)]
struct Hashes {
    /// Each with its first piece, in order.
    batches: Vec<(PieceIndex, Arc<[Digest]>)>,
    count: u32,
}

/// How much of a directory's index is missing, and what came before it.
#[derive(Debug)]
struct IndexState {
    length: u64,
    missing: AtomicU64,
    early: AtomicU64,
}

/// A complete piece, to be verified and stored by a thread that may block.
#[derive(Debug)]
pub struct FullPiece {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// The piece.
    pub piece: PieceIndex,
    data: PieceData,
    len: u32,
    piece_size: u32,
    expected: Digest,
    brought: Vec<LinkId>,
    sink: Arc<ObjectSink>,
    index: Arc<IndexState>,
}

/// Bytes that are verified about as fast as a thread is woken.
const QUICK_BYTES: u32 = 128 << 10;

impl FullPiece {
    /// Whether storing it waits for nothing and takes no longer than waking a thread.
    pub fn is_quick(&self) -> bool {
        let in_memory = || self.sink.at_hand().is_some_and(|bytes| bytes.file().is_none());
        self.len <= QUICK_BYTES && in_memory()
    }
}

#[derive(Debug)]
enum PieceData {
    Pooled(BytesMut),
    /// Hashed already.
    Whole(HashedObject),
}

/// What became of a complete piece.
#[derive(Debug)]
pub enum Verdict {
    /// It is what the root signed, and is stored.
    Stored,
    /// It is not what the root signed.
    Forged {
        /// The links that brought its bytes; none if it came in one frame.
        brought: Vec<LinkId>,
    },
    /// It is right, and there was no place for it yet: it has to come again.
    TooEarly,
    /// It is right, and could not be stored.
    Failed(StoreError),
}

/// The ranges of a chunk that one link fills. Dropping it without [`Filling::done`] gives them back unfilled.
#[derive(Debug)]
pub struct Filling<'a> {
    table: &'a PieceTable,
    broadcast: BroadcastId,
    piece: PieceIndex,
    assembly: u64,
    claims: Vec<Claim>,
}

// ---- Broadcasts ----

impl PieceTable {
    /// A broadcast was announced: hashes may come for it.
    pub fn announce(&self, broadcast: BroadcastId, descriptor: &Descriptor, stats: Arc<TransferStats>) {
        let index_length = descriptor.index_length;
        let index =
            IndexState { length: index_length, missing: AtomicU64::new(index_length), early: AtomicU64::new(0) };
        let incoming = Incoming {
            piece_size: descriptor.piece_size,
            length: descriptor.length,
            hashes: Hashes::default(),
            root_of_first: None,
            stored: HaveSet::new(),
            open: BTreeMap::new(),
            brought: BTreeMap::new(),
            asked: BTreeMap::new(),
            suspect: HaveSet::new(),
            unasked: BTreeMap::new(),
            kept: Vec::new(),
            sink: None,
            index: Arc::new(index),
            stats,
        };
        self.lock().broadcasts.insert(broadcast, incoming);
    }

    /// The application has made place for it: payload may come.
    pub fn open(&self, broadcast: BroadcastId, sink: Arc<ObjectSink>) {
        if let Some(incoming) = self.lock().broadcasts.get_mut(&broadcast) {
            incoming.sink = Some(sink);
        }
    }

    /// The root's signed hashes of the next pieces; `length` with the final ones.
    pub fn add_hashes(&self, broadcast: BroadcastId, first: PieceIndex, hashes: Arc<[Digest]>, length: Option<u64>) {
        let mut inner = self.lock();
        let Some(incoming) = inner.broadcasts.get_mut(&broadcast) else { return };
        incoming.hashes.push(first, hashes);
        incoming.length = length.or(incoming.length);
        if let Some(length) = incoming.length {
            incoming.stats.set_length(length, incoming.piece_size);
        }
    }

    /// The hash of the whole object, from those of its pieces; once every piece is stored.
    pub fn object_hash(&self, broadcast: BroadcastId) -> Option<Digest> {
        let inner = self.lock();
        let incoming = inner.broadcasts.get(&broadcast)?;
        let (root, batches) = (incoming.root_of_first, incoming.hashes.batches.clone());
        // Hashing half a million of them takes a while.
        drop(inner);
        let mut object = ObjectHasher::new();
        batches.iter().flat_map(|(_, hashes)| hashes.iter()).for_each(|&hash| object.push(hash, root));
        object.finish()
    }

    /// Nothing is taken for it any more, and its buffers go.
    pub fn remove(&self, broadcast: BroadcastId) {
        let mut inner = self.lock();
        if let Some(incoming) = inner.broadcasts.remove(&broadcast) {
            let (size, buffers) = (incoming.piece_size, incoming.kept.len() + incoming.open.len());
            inner.allocated -= buffers as u64 * u64::from(size);
            incoming.open.into_values().for_each(|open| drop(open.into_buffer(size, &mut inner.lent)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ---- Payload ----

impl PieceTable {
    /// A link to a member is up: its payload is taken.
    pub fn admit(&self, link: LinkId) {
        self.lock().links.insert(link);
    }

    /// A link was asked for a piece.
    pub fn expect(&self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) {
        if let Some(incoming) = self.lock().broadcasts.get_mut(&broadcast) {
            incoming.unasked.remove(&piece);
            let links = incoming.asked.entry(piece).or_default();
            if !links.contains(&link) {
                links.push(link);
            }
        }
    }

    /// A request was taken back, or the peer will not serve it.
    pub fn expect_no_more(&self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) {
        if let Some(incoming) = self.lock().broadcasts.get_mut(&broadcast)
            && let Some(links) = incoming.asked.get_mut(&piece)
        {
            links.retain(|&other| other != link);
            if links.is_empty() {
                incoming.asked.remove(&piece);
            }
        }
    }

    /// A link is gone for the core. Open pieces that it has brought bytes of are given up: the core does not hear any
    /// more of what the link still brings, and would blame another peer if that is wrong. Returns them.
    pub fn bar(&self, link: LinkId) -> Vec<(BroadcastId, PieceIndex)> {
        let mut inner = self.lock();
        inner.links.remove(&link);
        for incoming in inner.broadcasts.values_mut() {
            incoming.asked.retain(|_, links| {
                links.retain(|&other| other != link);
                !links.is_empty()
            });
        }
        let of = |(&id, incoming): (&BroadcastId, &Incoming)| {
            let pieces = incoming.brought.iter().filter(|(_, links)| links.contains(&link));
            pieces.map(|(&piece, _)| (id, piece)).collect::<Vec<_>>()
        };
        let touched: Vec<(BroadcastId, PieceIndex)> = inner.broadcasts.iter().flat_map(of).collect();
        touched.iter().for_each(|&(broadcast, piece)| inner.give_up(broadcast, piece));
        touched
    }

    /// Makes place for a chunk that a link announces. Empty if it is not wanted.
    pub fn claim(&self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex, range: ByteRange) -> Filling<'_> {
        let mut inner = self.lock();
        let (assembly, claims) = inner.claim(link, broadcast, piece, range).unwrap_or_default();
        drop(inner);
        Filling { table: self, broadcast, piece, assembly, claims }
    }

    /// Gives up what has arrived of a piece. Nobody is asked for it.
    pub fn drop_piece(&self, broadcast: BroadcastId, piece: PieceIndex) {
        let mut inner = self.lock();
        inner.give_up(broadcast, piece);
        inner.ask_nobody(broadcast, piece);
    }

    /// Takes a piece of which the core says that all bytes have arrived. None if that is not so.
    pub fn take_full(&self, broadcast: BroadcastId, piece: PieceIndex) -> Option<FullPiece> {
        let mut inner = self.lock();
        inner.ask_nobody(broadcast, piece);
        let incoming = inner.broadcasts.get_mut(&broadcast)?;
        let (len, filled) = (incoming.len(piece), incoming.is_filled(piece));
        let brought = incoming.brought.get(&piece).cloned().unwrap_or_default();
        if !filled {
            incoming.suspect.insert(piece);
        }
        let taken = inner.take(broadcast, piece).ok()??;
        if !filled {
            inner.keep(broadcast, taken);
            return None;
        }
        let full = inner.full_piece(broadcast, piece, PieceData::Pooled(taken), len)?;
        Some(FullPiece { brought, ..full })
    }

    /// The only piece of an object, which came in one frame. None if it is not wanted or has another length.
    pub fn take_whole(&self, broadcast: BroadcastId, object: HashedObject) -> Option<FullPiece> {
        let (inner, piece) = (self.lock(), PieceIndex(0));
        let len = inner.broadcasts.get(&broadcast)?.len(piece);
        (object.data().len() == len as usize).then_some(())?;
        inner.full_piece(broadcast, piece, PieceData::Whole(object), len)
    }

    /// Verifies a piece and stores it. Blocks for as long as hashing and writing take.
    pub fn store(&self, full: FullPiece) -> Verdict {
        let FullPiece { broadcast, piece, data, len, piece_size, expected, brought, sink, index } = full;
        let (bytes, hash) = match &data {
            PieceData::Pooled(buffer) => {
                let bytes = &buffer[..len as usize];
                (bytes, hash_piece(piece, piece_size, bytes))
            }
            PieceData::Whole(object) => (&object.data()[..], PieceHash::of_whole(object)),
        };
        let verdict = match hash.subtree == expected {
            true => index.store(piece_offset(piece, piece_size), bytes, &sink),
            false => Verdict::Forged { brought },
        };
        self.stored(broadcast, piece, data, &verdict, hash);
        verdict
    }

    fn stored(&self, broadcast: BroadcastId, piece: PieceIndex, data: PieceData, verdict: &Verdict, hash: PieceHash) {
        let mut inner = self.lock();
        let len = match data {
            PieceData::Whole(object) => object.data().len() as u64,
            PieceData::Pooled(buffer) => inner.keep(broadcast, buffer),
        };
        // What came of it once more meanwhile.
        inner.give_up(broadcast, piece);
        let Some(incoming) = inner.broadcasts.get_mut(&broadcast) else { return };
        if matches!(verdict, Verdict::Forged { brought } if brought.len() > 1) {
            incoming.suspect.insert(piece);
        }
        if matches!(verdict, Verdict::Stored) && incoming.stored.insert(piece) {
            incoming.root_of_first = incoming.root_of_first.or(hash.root);
            let len = len.min(u64::from(incoming.len(piece)));
            incoming.stats.add_stored(len);
        }
    }
}

impl Inner {
    fn claim(
        &mut self,
        link: LinkId,
        broadcast: BroadcastId,
        piece: PieceIndex,
        range: ByteRange,
    ) -> Option<(u64, Vec<Claim>)> {
        if !self.links.contains(&link) {
            return None;
        }
        let incoming = self.broadcasts.get(&broadcast)?;
        incoming.stats.add_in(u64::from(range.len()));
        let known = piece.0 < incoming.hashes.count && range.end <= incoming.len(piece);
        if !known || incoming.sink.is_none() || incoming.stored.contains(piece) || !incoming.trusts(link, piece) {
            return None;
        }
        if !incoming.open.contains_key(&piece) {
            self.begin(link, broadcast, piece)?;
        }
        let incoming = self.broadcasts.get_mut(&broadcast)?;
        let assembly = incoming.open.get_mut(&piece)?;
        let (number, claims) = (assembly.number(), assembly.claim(range));
        if !claims.is_empty() {
            let links = incoming.brought.entry(piece).or_default();
            if !links.contains(&link) {
                links.push(link);
            }
        }
        Some((number, claims))
    }

    /// Opens a piece of which a link brings the first bytes, if it may.
    fn begin(&mut self, link: LinkId, broadcast: BroadcastId, piece: PieceIndex) -> Option<()> {
        let incoming = self.broadcasts.get(&broadcast)?;
        let (is_asked, size) = (incoming.asked.contains_key(&piece), u64::from(incoming.piece_size));
        let has_enough = |unasked| unasked > 0 && unasked + size > UNASKED_BYTES_MAX;
        if !is_asked && (has_enough(self.unasked_bytes(link)) || self.lent.bytes() > SPARE_PIECES_BYTES_MAX) {
            return None;
        }
        let buffer = self.allocate(broadcast, is_asked)?;
        self.begun += 1;
        let assembly = Assembly::new(buffer, self.begun);
        let incoming = self.broadcasts.get_mut(&broadcast)?;
        incoming.open.insert(piece, assembly);
        if !is_asked {
            incoming.unasked.insert(piece, link);
        }
        Some(())
    }

    /// Bytes of pieces that a link has begun unasked and not filled. Of those that it has filled the core knows, and takes them
    /// or has them dropped.
    fn unasked_bytes(&self, link: LinkId) -> u64 {
        let of = |incoming: &Incoming| {
            let begun = incoming.unasked.iter().filter(|(_, by)| **by == link).map(|(&piece, _)| piece);
            let unfilled = begun.filter(|&piece| !incoming.is_filled(piece)).count();
            unfilled as u64 * u64::from(incoming.piece_size)
        };
        self.broadcasts.values().map(of).sum()
    }

    /// A buffer for one piece, if there is memory for it. For a piece that somebody was asked for, others make way.
    fn allocate(&mut self, broadcast: BroadcastId, is_asked: bool) -> Option<BytesMut> {
        let incoming = self.broadcasts.get_mut(&broadcast)?;
        if let Some(buffer) = incoming.kept.pop() {
            return Some(buffer);
        }
        let size = u64::from(incoming.piece_size);
        let limit = OPEN_PIECES_BYTES_MAX + SPARE_PIECES_BYTES_MAX;
        if self.allocated + size > limit {
            for other in self.broadcasts.values_mut() {
                self.allocated -= other.kept.len() as u64 * u64::from(other.piece_size);
                other.kept.clear();
            }
        }
        while is_asked && self.allocated + size > limit && self.give_up_unasked() {}
        if self.allocated + size > limit {
            return None;
        }
        self.allocated += size;
        Some(BytesMut::zeroed(size as usize))
    }

    /// Gives up the piece that was begun last of those that nobody asked for, and its buffer. False if there is none.
    fn give_up_unasked(&mut self) -> bool {
        let of = |(&id, incoming): (&BroadcastId, &Incoming)| {
            let open = |&piece: &PieceIndex| incoming.open.get(&piece).map(|open| (open.number(), id, piece));
            incoming.unasked.keys().filter_map(open).max()
        };
        let Some((_, broadcast, piece)) = self.broadcasts.iter().filter_map(of).max() else { return false };
        if let Ok(Some(buffer)) = self.take(broadcast, piece) {
            self.allocated -= buffer.len() as u64;
        }
        true
    }

    /// Nobody is asked for a piece any more.
    fn ask_nobody(&mut self, broadcast: BroadcastId, piece: PieceIndex) {
        if let Some(incoming) = self.broadcasts.get_mut(&broadcast) {
            incoming.asked.remove(&piece);
        }
    }

    /// Takes a piece's buffer out. `Ok(None)` if a link still fills a part of it: then the memory goes when that link
    /// lets go. `Err` if there is none.
    fn take(&mut self, broadcast: BroadcastId, piece: PieceIndex) -> Result<Option<BytesMut>, ()> {
        let incoming = self.broadcasts.get_mut(&broadcast).ok_or(())?;
        let assembly = incoming.open.remove(&piece).ok_or(())?;
        incoming.brought.remove(&piece);
        incoming.unasked.remove(&piece);
        let size = incoming.piece_size;
        let buffer = assembly.into_buffer(size, &mut self.lent);
        if buffer.is_none() {
            self.allocated -= u64::from(size);
        }
        Ok(buffer)
    }

    /// Gives up what has arrived of a piece, and keeps its buffer.
    fn give_up(&mut self, broadcast: BroadcastId, piece: PieceIndex) {
        if let Ok(Some(buffer)) = self.take(broadcast, piece) {
            self.keep(broadcast, buffer);
        }
    }

    /// Keeps a buffer for the next piece. Returns the buffer's bytes.
    fn keep(&mut self, broadcast: BroadcastId, buffer: BytesMut) -> u64 {
        let size = buffer.len() as u64;
        match self.broadcasts.get_mut(&broadcast) {
            Some(incoming) => incoming.kept.push(buffer),
            None => self.allocated -= size,
        }
        size
    }

    fn full_piece(&self, broadcast: BroadcastId, piece: PieceIndex, data: PieceData, len: u32) -> Option<FullPiece> {
        let incoming = self.broadcasts.get(&broadcast)?;
        let (sink, index) = (Arc::clone(incoming.sink.as_ref()?), Arc::clone(&incoming.index));
        let expected = incoming.hashes.get(piece)?;
        let (piece_size, brought) = (incoming.piece_size, Vec::new());
        Some(FullPiece { broadcast, piece, data, len, piece_size, expected, brought, sink, index })
    }
}

impl Incoming {
    /// Bytes of a piece.
    fn len(&self, piece: PieceIndex) -> u32 {
        self.length.map_or(self.piece_size, |length| piece_range(piece, length, self.piece_size).len())
    }

    /// Whether bytes of a piece are taken from a link: of one that is suspect only if it was asked, so that whoever was is to blame.
    fn trusts(&self, link: LinkId, piece: PieceIndex) -> bool {
        !self.suspect.contains(piece) || self.asked.get(&piece).is_some_and(|links| links.contains(&link))
    }

    /// Whether every byte of an open piece has arrived.
    fn is_filled(&self, piece: PieceIndex) -> bool {
        self.open.get(&piece).is_some_and(|open| open.is_filled(self.len(piece)))
    }
}

impl Hashes {
    fn push(&mut self, first: PieceIndex, hashes: Arc<[Digest]>) {
        assert_eq!(first.0, self.count, "the core gives hashes in order");
        self.count += hashes.len() as u32;
        self.batches.push((first, hashes));
    }

    fn get(&self, piece: PieceIndex) -> Option<Digest> {
        let (first, hashes) = &self.batches[..self.batches.partition_point(|(first, _)| *first <= piece)].last()?;
        hashes.get((piece.0 - first.0) as usize).copied()
    }
}

impl IndexState {
    /// Puts a verified piece down, unless too much already waits for the directory's index.
    fn store(&self, offset: u64, bytes: &[u8], sink: &ObjectSink) -> Verdict {
        let of_index = self.length.saturating_sub(offset).min(bytes.len() as u64);
        let contents = bytes.len() as u64 - of_index;
        if of_index == 0 && self.missing.load(Ordering::Acquire) > 0 {
            let early = self.early.fetch_add(contents, Ordering::AcqRel) + contents;
            if early > EARLY_BYTES_MAX {
                self.early.fetch_sub(contents, Ordering::AcqRel);
                return Verdict::TooEarly;
            }
        }
        match sink.write_at(offset, bytes) {
            Ok(()) => {
                self.missing.fetch_sub(of_index, Ordering::AcqRel);
                Verdict::Stored
            }
            Err(error) => Verdict::Failed(error),
        }
    }
}

impl Filling<'_> {
    /// The memory to be filled, in order; what lies between belongs to others.
    pub fn claims_mut(&mut self) -> &mut [Claim] {
        &mut self.claims
    }

    /// Everything was filled.
    pub fn done(mut self) {
        self.put_back(true);
    }

    fn put_back(&mut self, filled: bool) {
        let claims = std::mem::take(&mut self.claims);
        if claims.is_empty() {
            return;
        }
        let mut inner = self.table.lock();
        let incoming = inner.broadcasts.get_mut(&self.broadcast);
        let open = incoming.and_then(|incoming| incoming.open.get_mut(&self.piece));
        // The piece may have been given up and begun anew meanwhile: then this memory is no part of it.
        let Some(open) = open.filter(|open| open.number() == self.assembly) else {
            return inner.lent.put_back(self.assembly, claims);
        };
        for claim in claims {
            if filled { open.put_filled(claim) } else { open.put_free(claim) }
        }
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.put_back(false);
    }
}

#[cfg(test)]
mod tests;
