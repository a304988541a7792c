//! A peer that is let in and then misbehaves: whatever it seals, the receiver answers with an item or a named error.

use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::wire::PayloadHeader;
use mobcast_proto::{BroadcastId, ByteRange, NodeId, PieceIndex};
use proptest::prelude::*;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::{ConnectionTrafficSecrets, Error};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

use super::record::{Opener, Sealer, content};
use super::rekey::{KEY_UPDATE_MESSAGE, KeySchedule, Rekeying, Secrets};
use super::{ChannelError, Counters, Incoming, Receiver, Sender};

/// Keys for tests: generation after generation, the same at both ends.
struct Generations {
    sending: u8,
    receiving: u8,
}

fn secrets(generation: u8) -> Secrets {
    let (key, iv) = (AeadKey::from([generation; 32]), Iv::from([generation; 12]));
    (0, ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv })
}

impl KeySchedule for Generations {
    fn next_sending(&mut self) -> Result<Secrets, Error> {
        self.sending += 1;
        Ok(secrets(self.sending))
    }

    fn next_receiving(&mut self) -> Result<Secrets, Error> {
        self.receiving += 1;
        Ok(secrets(self.receiving))
    }
}

async fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (dialled.unwrap(), accepted.unwrap().0)
}

/// A channel whose keys are known, and the raw stream of its peer.
async fn exposed() -> (TcpStream, Sender, Receiver) {
    let (peer, own) = streams().await;
    let (receiving, sending) = own.into_split();
    let rekeying = Arc::new(Rekeying::new(Box::new(Generations { sending: 0, receiving: 0 })));
    let counters = Arc::new(Counters::default());
    let (sealer, opener) = (Sealer::new(secrets(0)).unwrap(), Opener::new(secrets(0)).unwrap());
    let sender = Sender::new(sending, sealer, Arc::clone(&rekeying), Arc::clone(&counters), Vec::new());
    (peer, sender, Receiver::new(receiving, opener, rekeying, counters, &[]))
}

/// A receiver, the peer's raw stream to it, and the peer's sealer.
async fn receiver() -> (OwnedWriteHalf, Sealer, Receiver) {
    let (peer, _, receiver) = exposed().await;
    (peer.into_split().1, Sealer::new(secrets(0)).unwrap(), receiver)
}

/// What one node sends by, and what another one receives it by.
pub(crate) async fn one_way() -> (Sender, Receiver) {
    let (peer, _, receiver) = exposed().await;
    let rekeying = Arc::new(Rekeying::new(Box::new(Generations { sending: 0, receiving: 0 })));
    let (sealer, counters) = (Sealer::new(secrets(0)).unwrap(), Arc::default());
    (Sender::new(peer.into_split().1, sealer, rekeying, counters, Vec::new()), receiver)
}

#[tokio::test]
async fn what_came_of_a_long_chunk_before_the_link_broke_counts() {
    const RECORD: usize = 16 << 10;
    let (mut peer, mut sealer, mut receiver) = receiver().await;
    let (broadcast, piece, range) = (BroadcastId::default(), PieceIndex(0), ByteRange::whole(16 * RECORD as u32));
    let mut header = PayloadHeader { broadcast, piece, range, plain: false }.encode().to_vec();
    header.splice(..0, (header.len() as u32).to_be_bytes());
    // A whole chunk, and five records of another one.
    let mut sealed = Vec::new();
    for records in [16, 5] {
        sealer.seal(&mut sealed, content::APPLICATION_DATA, &header);
        (0..records).for_each(|_| sealer.seal(&mut sealed, content::APPLICATION_DATA, &[7; RECORD]));
    }
    tokio::spawn(async move { peer.write_all(&sealed).await });
    let mut into = vec![0; 16 * RECORD];
    assert!(matches!(receiver.next().await.unwrap(), Incoming::Payload(_)));
    receiver.read_payload(&mut into).await.unwrap();
    into.fill(0);
    assert!(matches!(receiver.next().await.unwrap(), Incoming::Payload(_)));
    let cut = receiver.read_payload(&mut into).await;
    assert!(matches!(cut, Err(ChannelError::Truncated | ChannelError::Io(_))), "{cut:?}");
    assert_eq!(receiver.payload_left(), 11 * RECORD);
    assert_eq!(receiver.counters().payload_received(), 21 * RECORD as u64);
    assert!(into[..5 * RECORD] == [7; 5 * RECORD]);
}

/// Reads everything, chunks included, until the end or an error.
async fn read_to_end(receiver: &mut Receiver) -> Result<Vec<Vec<u8>>, ChannelError> {
    let mut items = Vec::new();
    loop {
        match receiver.next().await? {
            Incoming::Frame(frame) => items.push(frame.to_vec()),
            Incoming::Payload(header) => {
                let mut chunk = vec![0; header.range.len() as usize];
                receiver.read_payload(&mut chunk).await?;
                items.push(chunk);
            }
            Incoming::Closed => return Ok(items),
        }
    }
}

/// What the receiver makes of `wire`, behind which the peer hangs up.
async fn outcome(wire: &[u8], plain: bool) -> Result<Vec<Vec<u8>>, ChannelError> {
    let (mut peer, _, mut receiver) = receiver().await;
    if plain {
        receiver.permit_plain();
    }
    let write = async {
        // The receiver may give up before it has read everything.
        let _ = peer.write_all(wire).await;
        drop(peer);
    };
    let (_, items) = tokio::join!(write, async {
        let items = read_to_end(&mut receiver).await;
        drop(receiver);
        items
    });
    items
}

fn sealed(records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut sealer = Sealer::new(secrets(0)).unwrap();
    let mut wire = Vec::new();
    for (content_type, contents) in records {
        sealer.seal(&mut wire, *content_type, contents);
    }
    wire
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn payload_header(len: u32, plain: bool) -> Vec<u8> {
    let broadcast = BroadcastId { root: NodeId(0), sequence: 0 };
    let range = ByteRange { start: 0, end: len };
    frame(&PayloadHeader { broadcast, piece: PieceIndex(0), range, plain }.encode())
}

#[tokio::test]
async fn each_misdeed_has_its_name() {
    let misbehaved: [(&str, Vec<u8>); 9] = [
        ("a frame of no bytes", sealed(&[(content::APPLICATION_DATA, &frame(b""))])),
        ("a frame too long", sealed(&[(content::APPLICATION_DATA, &[0, 1, 16, 1, 7])])),
        ("a record of unknown type", sealed(&[(24, b"heartbeat")])),
        ("a session ticket", sealed(&[(content::HANDSHAKE, &[4, 0, 0, 1, 0])])),
        ("a key update of another form", sealed(&[(content::HANDSHAKE, &[24, 0, 0, 1, 2])])),
        ("two key updates in a record", sealed(&[(content::HANDSHAKE, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0])])),
        ("an alert that is too long", sealed(&[(content::ALERT, &[1, 0, 0])])),
        ("an unencrypted record", vec![content::ALERT, 3, 3, 0, 2, 1, 0]),
        ("a record too long", vec![content::APPLICATION_DATA, 3, 3, 0x41, 1]),
    ];
    for (what, wire) in misbehaved {
        let found = outcome(&wire, false).await;
        assert!(matches!(found, Err(ChannelError::Misbehaved(_))), "{what}: {found:?}");
    }
    let alert = outcome(&sealed(&[(content::ALERT, &[2, 40])]), false).await;
    assert!(matches!(alert, Err(ChannelError::Alert(rustls::AlertDescription::HandshakeFailure))), "{alert:?}");
    let header = outcome(&sealed(&[(content::APPLICATION_DATA, &frame(&[0xf0, 1, 2]))]), false).await;
    assert!(matches!(header, Err(ChannelError::Malformed(_))), "{header:?}");
}

#[tokio::test]
async fn a_plain_header_ends_its_record() {
    let contents = [payload_header(3, true), b"abc".to_vec()].concat();
    let found = outcome(&sealed(&[(content::APPLICATION_DATA, &contents)]), true).await;
    assert!(matches!(found, Err(ChannelError::Misbehaved(_))), "{found:?}");
}

#[tokio::test]
async fn a_clean_end_within_a_chunk_or_frame_is_no_clean_end() {
    let end: (u8, &[u8]) = (content::ALERT, &[1, 0]);
    for contents in [[payload_header(3, false), b"ab".to_vec()].concat(), frame(b"abc")[..6].to_vec()] {
        let found = outcome(&sealed(&[(content::APPLICATION_DATA, &contents), end]), false).await;
        assert!(matches!(found, Err(ChannelError::Truncated)), "{found:?}");
    }
}

#[tokio::test]
async fn a_tampered_record_is_noticed_and_a_tampered_plain_chunk_is_not() {
    let mut wire = sealed(&[(content::APPLICATION_DATA, &payload_header(3, true))]);
    wire.extend_from_slice(b"abc");
    let last = wire.len() - 1;
    wire[last] ^= 1;
    let found = outcome(&[&wire[..], &[]].concat(), true).await;
    assert!(matches!(found, Err(ChannelError::Truncated)), "the hash of the piece is what notices: {found:?}");
    wire[8] ^= 1;
    let found = outcome(&wire, true).await;
    assert!(matches!(found, Err(ChannelError::Tampered)), "{found:?}");
}

#[tokio::test]
async fn a_record_repeated_or_left_out_is_noticed() {
    let one = sealed(&[(content::APPLICATION_DATA, &frame(b"\x01one"))]);
    let two =
        sealed(&[(content::APPLICATION_DATA, &frame(b"\x01one")), (content::APPLICATION_DATA, &frame(b"\x02two"))]);
    let found = outcome(&[one.clone(), one.clone()].concat(), false).await;
    assert!(matches!(found, Err(ChannelError::Tampered)), "{found:?}");
    let found = outcome(&two[one.len()..], false).await;
    assert!(matches!(found, Err(ChannelError::Tampered)), "{found:?}");
}

#[tokio::test]
async fn a_request_for_a_new_key_is_granted_once() {
    let (peer, mut sender, mut receiver) = exposed().await;
    let (reading, mut writing) = peer.into_split();
    let mut sealer = Sealer::new(secrets(0)).unwrap();
    let mut wire = Vec::new();
    // Two updates of the peer's key, each asking for ours.
    for generation in 1..=2 {
        sealer.seal(&mut wire, content::HANDSHAKE, &[24, 0, 0, 1, 1]);
        sealer = Sealer::new(secrets(generation)).unwrap();
    }
    sealer.seal(&mut wire, content::APPLICATION_DATA, &frame(b"\x05"));
    writing.write_all(&wire).await.unwrap();
    assert_eq!(receiver.next().await.unwrap(), Incoming::Frame(b"\x05"));
    sender.send_frames(&[[6], [7]]).await.unwrap();
    sender.send_frames(&[[8]]).await.unwrap();
    sender.close().await.unwrap();
    let mut expected = Vec::new();
    Sealer::new(secrets(0)).unwrap().seal(&mut expected, content::HANDSHAKE, &KEY_UPDATE_MESSAGE);
    let mut sealer = Sealer::new(secrets(1)).unwrap();
    sealer.seal(&mut expected, content::APPLICATION_DATA, &[frame(&[6]), frame(&[7])].concat());
    sealer.seal(&mut expected, content::APPLICATION_DATA, &frame(&[8]));
    sealer.seal(&mut expected, content::ALERT, &[1, 0]);
    let mut found = vec![0; expected.len()];
    tokio::io::AsyncReadExt::read_exact(&mut { reading }, &mut found).await.unwrap();
    assert_eq!(found, expected);
}

/// Contents of records as a confused peer may seal them: frames, parts of frames, headers, noise.
fn contents() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let noise = prop::collection::vec(any::<u8>(), 0..60);
    let frames = prop::collection::vec(any::<u8>(), 1..60).prop_map(|bytes| frame(&bytes));
    let header = (1u32..100, any::<bool>()).prop_map(|(len, plain)| payload_header(len, plain));
    let data = prop_oneof![noise, frames, header].prop_map(|bytes| (content::APPLICATION_DATA, bytes));
    let message = prop_oneof![Just(KEY_UPDATE_MESSAGE.to_vec()), Just(vec![24, 0, 0, 1, 1])];
    let other = (20u8..26, prop::collection::vec(any::<u8>(), 0..6));
    prop_oneof![8 => data, 1 => message.prop_map(|message| (content::HANDSHAKE, message)), 1 => other]
}

/// A peer's bytes: sealed records with the right keys, and noise between them.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..40)];
    prop::collection::vec((contents(), noise), 0..12).prop_map(|records| {
        let (mut sealer, mut generation, mut wire) = (Sealer::new(secrets(0)).unwrap(), 0, Vec::new());
        for ((content_type, contents), noise) in records {
            sealer.seal(&mut wire, content_type, &contents);
            if content_type == content::HANDSHAKE {
                generation += 1;
                sealer = Sealer::new(secrets(generation)).unwrap();
            }
            wire.extend_from_slice(&noise);
        }
        wire
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), future).await.expect("no reader waits") })
}

proptest! {
    #[test]
    fn whatever_a_peer_seals_ends_in_items_or_an_error(wire in wire(), plain in any::<bool>()) {
        let _ = run(outcome(&wire, plain));
    }

    #[test]
    fn whatever_a_stranger_sends_ends_in_an_error(wire in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(run(outcome(&wire, true)).is_err());
    }
}
