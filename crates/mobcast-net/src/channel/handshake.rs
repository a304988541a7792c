//! From a TCP connection to an authenticated channel. rustls' unbuffered connections make the handshake on a buffer of
//! ours, so that a stranger costs one record of memory; then its traffic secrets go to the record layer.
//!
//! Records are shown to rustls one by one: what follows the last one of the handshake is for the [`Receiver`].

use std::sync::Arc;
use std::time::Duration;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, UnbufferedStatus};
use rustls::{CommonState, Error, ExtractedSecrets};
use rustls_pki_types::UnixTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
#[cfg(target_os = "linux")]
use tracing::debug;
use webpki::KeyUsage;

#[cfg(target_os = "linux")]
use super::pacing::pace_if_far;
use super::record::{CIPHERTEXT_BYTES_MAX, HEADER_BYTES, Opener, Sealer, content};
use super::rekey::Rekeying;
use super::{ALPN, Counters, HANDSHAKE_TIME, HandshakeError, Incoming, Receiver, Sender, WELCOME_TYPE};
use crate::tls::peer::Trust;
use crate::tls::{Expected, Identity, PeerIdentity, ServerIdentity, server_name};

/// A message of the handshake may span records; all of it has to fit.
const INCOMING_BYTES_MAX: usize = HEADER_BYTES + CIPHERTEXT_BYTES_MAX;
/// Read at a time: our own handshakes take two such reads.
const INCOMING_BYTES_STEP: usize = 2 << 10;
/// What rustls may want to send at once: certificates of a few hundred bytes, a few times over.
const OUTGOING_BYTES_MAX: usize = 12 << 10;
/// A refused peer has this long to read why, and may have sent a greeting of this many bytes, which is thrown away.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
const FAREWELL_BYTES_MAX: usize = 256 << 10;

/// Connects as `identity` to `expected` over `stream`.
pub async fn connect(
    stream: TcpStream,
    identity: &Identity,
    expected: Expected,
) -> Result<(Sender, Receiver, PeerIdentity), HandshakeError> {
    connect_with_greeting::<&[u8]>(stream, identity, expected, &[]).await
}

/// Like [`connect`], and sends `greeting` (control frames) together with the last bytes of the handshake, so that it
/// does not cost a round trip of its own. It is sealed for `expected`, who may still refuse us.
pub async fn connect_with_greeting<F: AsRef<[u8]>>(
    stream: TcpStream,
    identity: &Identity,
    expected: Expected,
    greeting: &[F],
) -> Result<(Sender, Receiver, PeerIdentity), HandshakeError> {
    let handshake = async { meet(stream, identity, expected).await?.greet(greeting).await };
    timeout(HANDSHAKE_TIME, handshake).await.unwrap_or(Err(HandshakeError::Timeout))
}

/// A peer that has proved to be the one that was expected, and knows nothing of us yet.
pub(crate) struct Met {
    sender: Sender,
    receiver: Receiver,
    peer: PeerIdentity,
}

/// The first half of [`connect_with_greeting`]. It has no limit of time.
pub(crate) async fn meet(stream: TcpStream, identity: &Identity, expected: Expected) -> Result<Met, HandshakeError> {
    let name = server_name(expected, identity.group);
    let connection = UnbufferedClientConnection::new(Arc::clone(&identity.config), name);
    let connection = connection.map_err(HandshakeError::Tls)?;
    let done = drive(stream, connection, &identity.trust, KeyUsage::server_auth(), Some(expected)).await?;
    let (sender, receiver, peer) = done;
    Ok(Met { sender, receiver, peer })
}

impl Met {
    /// Shows the peer who we are, and waits until it has let us in. It has no limit of time.
    pub(crate) async fn greet<F: AsRef<[u8]>>(
        self,
        greeting: &[F],
    ) -> Result<(Sender, Receiver, PeerIdentity), HandshakeError> {
        let Met { mut sender, mut receiver, peer } = self;
        sender.send_frames(greeting).await.map_err(HandshakeError::from_channel)?;
        match receiver.next().await.map_err(HandshakeError::from_channel)? {
            Incoming::Frame([WELCOME_TYPE]) => Ok((sender, receiver, peer)),
            Incoming::Closed => Err(HandshakeError::Closed),
            _ => Err(HandshakeError::NotMobcast),
        }
    }
}

/// Lets the peer at the other end of `stream` in, if it has a certificate that `identity` admits.
pub async fn accept(
    stream: TcpStream,
    identity: &ServerIdentity,
) -> Result<(Sender, Receiver, PeerIdentity), HandshakeError> {
    let handshake = async {
        let connection = UnbufferedServerConnection::new(Arc::clone(&identity.config)).map_err(HandshakeError::Tls)?;
        let done = drive(stream, connection, &identity.trust, KeyUsage::client_auth(), None).await?;
        let (mut sender, receiver, peer) = done;
        sender.send_welcome().await.map_err(HandshakeError::from_channel)?;
        Ok((sender, receiver, peer))
    };
    timeout(HANDSHAKE_TIME, handshake).await.unwrap_or(Err(HandshakeError::Timeout))
}

/// What the two kinds of unbuffered connections have in common.
trait Connection {
    type Data: Send + 'static;
    fn process<'a>(&'a mut self, incoming: &'a mut [u8]) -> UnbufferedStatus<'a, 'a, Self::Data>;
    fn common(&self) -> &CommonState;
    fn into_secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error>;
}

impl Connection for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'a>(&'a mut self, incoming: &'a mut [u8]) -> UnbufferedStatus<'a, 'a, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn common(&self) -> &CommonState {
        self
    }
    fn into_secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error> {
        self.dangerous_into_kernel_connection()
    }
}

impl Connection for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'a>(&'a mut self, incoming: &'a mut [u8]) -> UnbufferedStatus<'a, 'a, Self::Data> {
        self.process_tls_records(incoming)
    }
    fn common(&self) -> &CommonState {
        self
    }
    fn into_secrets(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error> {
        self.dangerous_into_kernel_connection()
    }
}

/// What is to be done between two steps of rustls.
enum Step {
    Again,
    Read,
    Done,
    Failed(HandshakeError),
}

/// Makes the handshake and builds the channel on its secrets. What rustls still wants to send goes first in the
/// sender's buffer.
async fn drive<C: Connection>(
    mut stream: TcpStream,
    mut connection: C,
    trust: &Trust,
    usage: KeyUsage,
    expected: Option<Expected>,
) -> Result<(Sender, Receiver, PeerIdentity), HandshakeError> {
    let (mut read, mut outgoing) = (Read::default(), Vec::new());
    let counters = Arc::new(Counters::default());
    loop {
        match step(&mut connection, &mut read, &mut outgoing, expected) {
            Step::Again => {}
            Step::Read => {
                stream.write_all(&outgoing).await?;
                counters.add_sent(outgoing.len());
                outgoing.clear();
                read.record(&mut stream, &counters).await?;
            }
            Step::Done => break,
            Step::Failed(error) => {
                collect_alert(&mut connection, &mut outgoing);
                say_farewell(stream, &outgoing).await;
                return Err(error);
            }
        }
    }
    if connection.common().alpn_protocol() != Some(ALPN) {
        return Err(HandshakeError::NotMobcast);
    }
    let peer = peer_identity(connection.common(), trust, usage)?;
    let (secrets, schedule) = connection.into_secrets().map_err(HandshakeError::Tls)?;
    let rekeying = Arc::new(Rekeying::new(Box::new(schedule)));
    let sealer = Sealer::new(secrets.tx).map_err(HandshakeError::from_channel)?;
    let opener = Opener::new(secrets.rx).map_err(HandshakeError::from_channel)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = pace_if_far(&stream) {
        debug!(%error, "this system does not pace");
    }
    let (receiving, sending) = stream.into_split();
    let sender = Sender::new(sending, sealer, Arc::clone(&rekeying), Arc::clone(&counters), outgoing);
    let receiver = Receiver::new(receiving, opener, rekeying, counters, &read.bytes);
    Ok((sender, receiver, peer))
}

fn step<C: Connection>(
    connection: &mut C,
    read: &mut Read,
    outgoing: &mut Vec<u8>,
    expected: Option<Expected>,
) -> Step {
    let UnbufferedStatus { discard, state } = connection.process(&mut read.bytes[..read.shown]);
    let step = match state {
        Ok(ConnectionState::EncodeTlsData(data)) => match encode(data, outgoing) {
            Ok(()) => Step::Again,
            Err(error) => Step::Failed(error),
        },
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Step::Again
        }
        Ok(ConnectionState::BlockedHandshake) => Step::Read,
        Ok(ConnectionState::WriteTraffic(_)) => Step::Done,
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Step::Failed(HandshakeError::Closed),
        Ok(_) => Step::Failed(HandshakeError::NotMobcast),
        Err(error) => Step::Failed(HandshakeError::from_tls(error, expected)),
    };
    read.discard(discard);
    step
}

/// Appends what rustls wants to send.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) -> Result<(), HandshakeError> {
    let start = outgoing.len();
    let required = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => required_size,
        _ => return Ok(()),
    };
    if start + required > OUTGOING_BYTES_MAX {
        return Err(HandshakeError::Tls(Error::General("the handshake is too long for its buffer".into())));
    }
    outgoing.resize(start + required, 0);
    let written = data.encode(&mut outgoing[start..]);
    debug_assert!(matches!(written, Ok(n) if n == required));
    Ok(())
}

/// Whom the verified certificate names. rustls has verified it and that the peer has its key; which of our trust
/// anchors it stands under is asked once more, because that decides between member and joiner.
fn peer_identity(common: &CommonState, trust: &Trust, usage: KeyUsage) -> Result<PeerIdentity, HandshakeError> {
    let certificate =
        common.peer_certificates().and_then(|chain| chain.first()).ok_or(HandshakeError::NoCertificate)?;
    trust
        .identify(certificate, UnixTime::now(), usage)
        .map_err(|error| HandshakeError::from_tls(Error::InvalidCertificate(error), None))
}

/// After an error, rustls may have an alert for the peer. It must not be asked for anything else any more: its state is
/// in the middle of a message that the buffer may have lost.
fn collect_alert<C: Connection>(connection: &mut C, outgoing: &mut Vec<u8>) {
    while connection.common().wants_write() {
        let Ok(ConnectionState::EncodeTlsData(data)) = connection.process(&mut []).state else { return };
        if encode(data, outgoing).is_err() {
            return;
        }
    }
}

/// Sends the alert and waits until the peer has read it: closing at once, with bytes of the peer's unread, would reset
/// the connection and the alert with it.
async fn say_farewell(mut stream: TcpStream, alert: &[u8]) {
    let farewell = async {
        stream.write_all(alert).await?;
        stream.shutdown().await?;
        let mut sink = [0; 2 << 10];
        let mut left = FAREWELL_BYTES_MAX;
        while left > 0 {
            match stream.read(&mut sink).await? {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
        std::io::Result::Ok(())
    };
    // Whether the peer learns why is its own matter; that it is refused is certain.
    let _ = timeout(FAREWELL_TIME, farewell).await;
}

/// Bytes from the socket that rustls has not taken, and how many of them it is shown.
#[derive(Default)]
struct Read {
    bytes: Vec<u8>,
    shown: usize,
}

impl Read {
    fn discard(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.shown -= bytes;
    }

    /// Shows one more record, when all of it is there.
    async fn record(&mut self, stream: &mut TcpStream, counters: &Counters) -> Result<(), HandshakeError> {
        loop {
            let next = &self.bytes[self.shown..];
            check_header(next)?;
            if let Some(&[.., high, low]) = next.first_chunk::<HEADER_BYTES>() {
                let end = self.shown + HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
                if end > INCOMING_BYTES_MAX {
                    return Err(HandshakeError::NotMobcast);
                }
                if self.bytes.len() >= end {
                    self.shown = end;
                    return Ok(());
                }
            }
            counters.add_received(self.fill(stream).await?);
        }
    }

    /// Reads what is there; returns how much it was.
    async fn fill(&mut self, stream: &mut TcpStream) -> Result<usize, HandshakeError> {
        let start = self.bytes.len();
        let end = INCOMING_BYTES_MAX.min(start + INCOMING_BYTES_STEP);
        self.bytes.resize(end, 0);
        let read = stream.read(&mut self.bytes[start..]).await;
        self.bytes.truncate(start + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(HandshakeError::Closed),
            bytes => Ok(bytes),
        }
    }
}

/// Tells from the first bytes whether this can be TLS, so that other protocols are refused at once and not when a
/// record of random length is complete.
fn check_header(bytes: &[u8]) -> Result<(), HandshakeError> {
    const CHANGE_CIPHER_SPEC: u8 = 20;
    const MAJOR_VERSION: u8 = 3;
    let type_fits = bytes.first().is_none_or(|kind| (CHANGE_CIPHER_SPEC..=content::APPLICATION_DATA).contains(kind));
    let version_fits = bytes.get(1).is_none_or(|&major| major == MAJOR_VERSION);
    if type_fits && version_fits { Ok(()) } else { Err(HandshakeError::NotMobcast) }
}
