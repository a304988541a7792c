//! What somebody sees who reads along on the wire: every byte between a root and a receiver goes through a socket that
//! keeps it.

mod common;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use blake3::hazmat::HasherExt;
use common::*;
use mobcast::{BroadcastOptions, Group, GroupOptions, Sink, Source};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PIECE: usize = 64 << 10;

/// All bytes that went by, in both directions.
#[derive(Clone, Default)]
struct Tap(Arc<Mutex<Vec<Vec<u8>>>>);

impl Tap {
    /// Forwards connections to `to`, from an address of its own.
    async fn open(&self, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let tap = self.clone();
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let Ok(onward) = TcpStream::connect(to).await else { continue };
                let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), onward.into_split());
                tokio::spawn(tap.clone().forward(from_read, to_write));
                tokio::spawn(tap.clone().forward(to_read, from_write));
            }
        });
        address
    }

    async fn forward(self, mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
        let index = {
            let mut streams = self.streams();
            streams.push(Vec::new());
            streams.len() - 1
        };
        let mut block = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut block).await {
            self.streams()[index].extend_from_slice(&block[..n]);
            if to.write_all(&block[..n]).await.is_err() {
                return;
            }
        }
        // The other end may be gone.
        let _ = to.shutdown().await;
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_seen(&self, bytes: &[u8]) -> bool {
        self.streams().iter().any(|stream| stream.windows(bytes.len()).any(|window| window == bytes))
    }
}

/// A free address, for a node that must advertise another one than it listens on; on a host of its own, where nobody else asks for
/// a port until it listens.
fn free_address(host: u8) -> SocketAddr {
    let listener = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("a free port");
    listener.local_addr().expect("bound")
}

/// Broadcasts a file to a receiver through a tap. Returns the tap, and what was sealed: names, identities, hashes.
async fn tapped(root_plain: bool, receiver_plain: bool, bytes: &[u8]) -> (Tap, Vec<(&'static str, Vec<u8>)>) {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("name-of-the-object");
    std::fs::write(&source, bytes).expect("written");
    let tap = Tap::default();
    let mut taps = Vec::new();
    let mut doors = Vec::new();
    for host in [2, 3] {
        doors.push(free_address(host));
        taps.push(tap.open(doors[doors.len() - 1]).await);
    }
    let options = |which: usize, name: &str, cluster: &str, plain| GroupOptions {
        listen: Some(doors[which]),
        advertise: vec![taps[which]],
        plain,
        ..options(name, cluster)
    };
    let root = Group::create(options(0, "name-of-the-root", "name-of-the-first-cluster", root_plain)).await;
    let root = root.expect("a group");
    let ticket = root.ticket().expect("the founder's").clone();
    assert_eq!(ticket.addresses, [taps[0]], "everybody goes through the tap");
    let options = options(1, "name-of-the-receiver", "name-of-the-second-cluster", receiver_plain);
    let receiver = within(Group::join(&ticket, options, LONG)).await.expect("admitted");
    let piece_size = Some(PIECE as u32);
    let broadcast = root.broadcast(Source::path(&source), BroadcastOptions { piece_size, ..Default::default() });
    let mut broadcast = within(broadcast).await.expect("started");
    let mut received = receive(&receiver, Sink::bytes(1 << 30)).await.expect("accepted");
    let completed = within(received.complete()).await.expect("complete");
    assert!(completed.data.expect("in memory")[..] == *bytes);
    within(broadcast.released()).await.expect("released");
    drop((broadcast, received));
    within(receiver.leave()).await;
    within(root.leave()).await;
    (tap, secrets(&ticket, bytes))
}

/// What control frames say, each of which the capture must not show.
fn secrets(ticket: &mobcast::Ticket, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let piece = |index: usize| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset((index * PIECE) as u64).update(&bytes[index * PIECE..(index + 1) * PIECE]);
        hasher.finalize_non_root().to_vec()
    };
    let mut secrets: Vec<(&'static str, Vec<u8>)> = vec![
        ("the object's name", b"name-of-the-object".to_vec()),
        ("the root's name", b"name-of-the-root".to_vec()),
        ("the receiver's name", b"name-of-the-receiver".to_vec()),
        ("a cluster's name", b"name-of-the-first-cluster".to_vec()),
        ("a cluster's name", b"name-of-the-second-cluster".to_vec()),
        ("the strategy", b"mob\0".to_vec()),
        ("the greeting", b"mobcast\0".to_vec()),
        ("the group", ticket.group.0.to_vec()),
        ("the secret", ticket.secret.to_vec()),
        ("the object's hash", blake3::hash(bytes).as_bytes().to_vec()),
    ];
    secrets.extend((0..4).map(|index| ("the hash of a piece", piece(index))));
    // Too short to be told from chance.
    secrets.retain(|(_, bytes)| bytes.len() >= 8);
    secrets
}

#[tokio::test(flavor = "multi_thread")]
async fn control_is_always_sealed_and_payload_unless_both_ends_want_it_plain() {
    let bytes = pattern(20 * PIECE);
    for (root_plain, receiver_plain) in [(false, false), (true, false), (false, true), (true, true)] {
        let (tap, secrets) = tapped(root_plain, receiver_plain, &bytes).await;
        // What an eavesdropper does see: that it is mobcast.
        assert!(tap.has_seen(b"mobcast/1"), "the tap sees the handshake");
        for (what, secret) in secrets {
            assert!(!tap.has_seen(&secret), "{what} is in the clear, plain {root_plain} and {receiver_plain}");
        }
        let seen = (0..20).filter(|piece| tap.has_seen(&bytes[piece * PIECE + 100..piece * PIECE + 164])).count();
        let expected = if root_plain && receiver_plain { 20 } else { 0 };
        assert_eq!(seen, expected, "pieces in the clear, plain {root_plain} and {receiver_plain}");
    }
}
