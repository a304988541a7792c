//! What can go wrong with a channel: while it is made ([`HandshakeError`]) and afterwards ([`ChannelError`]).

use std::io;

use mobcast_proto::wire::codec::DecodeError;
use rustls::{AlertDescription, CertificateError};

use super::HANDSHAKE_TIME;
use crate::tls::Expected;

/// Why two processes did not get to a channel.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer was silent or slow.
    #[error(
        "the peer did not complete the handshake within {} s: check the address and port, and whether it is overloaded",
        HANDSHAKE_TIME.as_secs()
    )]
    Timeout,
    /// Whatever is at the other end, it speaks something else.
    #[error("the peer does not speak mobcast: check the address and port")]
    NotMobcast,
    /// The peer's channel has another version.
    #[error("the peer speaks another version of mobcast than {ours}: use the same mobcast at both ends")]
    OtherVersion {
        /// What we offered.
        ours: &'static str,
    },
    /// The peer ended the connection during the handshake.
    #[error("the peer closed the connection during the handshake: it may be ending or full; try again")]
    Closed,
    /// The peer does not believe our certificate.
    #[error("the peer does not admit us ({0:?}): ask for a fresh ticket of this group")]
    NotAdmitted(AlertDescription),
    /// Our certificate, or the ticket it came from, is too old for the peer.
    #[error("our ticket or certificate has expired: ask for a fresh ticket, and check the clocks of both machines")]
    Expired,
    /// We do not believe the peer's certificate.
    #[error("the peer is not of our group ({0}): check that ticket and address belong together")]
    Untrusted(CertificateError),
    /// The peer's certificate has expired.
    #[error("the peer's certificate has expired: check the clocks of both machines")]
    PeerExpired,
    /// The peer's certificate begins later than our clock says it is.
    #[error(
        "the peer's certificate is not valid yet: this machine's clock is behind, or the peer's is ahead; set it right"
    )]
    PeerNotValidYet,
    /// The peer is of our group, and is not the node we wanted.
    #[error("the peer is not {0}: its address may have passed to another node")]
    OtherNode(Expected),
    /// The peer has no certificate.
    #[error("the peer shows no certificate: it has no ticket of this group")]
    NoCertificate,
    /// Another error of TLS.
    #[error("the handshake failed: {0}")]
    Tls(rustls::Error),
    /// The connection failed.
    #[error("the connection failed during the handshake: {0}")]
    Io(#[from] io::Error),
}

/// Why a channel ended. Whatever it was, the channel is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The connection ended without the notice that belongs before the end.
    #[error("the peer ended the connection without notice: it may have died, or a machine between cut it off")]
    Truncated,
    /// A record does not open: it was changed on the way, or bytes of it are missing.
    #[error("a record was changed on the way: suspect a device between the two machines")]
    Tampered,
    /// The peer ended the channel with a complaint.
    #[error("the peer ended the connection with the alert {0:?}")]
    Alert(AlertDescription),
    /// The peer sent something that the framing does not permit.
    #[error("the peer breaks the protocol: {0}")]
    Misbehaved(&'static str),
    /// The peer sent a payload header that is none.
    #[error("the peer breaks the protocol: {0}")]
    Malformed(#[from] DecodeError),
    /// The peer sent plain payload where it is not permitted.
    #[error("the peer sends payload in the clear, which was not agreed: give --plain at both ends or at none")]
    PlainNotPermitted,
    /// A chunk was given up half sent or half read, so nothing can follow it.
    #[error("a chunk was given up half-way: open another connection")]
    Interrupted,
    /// Our half is closed.
    #[error("this channel was closed for sending")]
    Closed,
    /// The next keys could not be derived.
    #[error("the keys could not be updated: {0}")]
    Keys(rustls::Error),
}

impl HandshakeError {
    /// Sorts an error of rustls; `expected` is whom we wanted, where we are the connecting side.
    pub(super) fn from_tls(error: rustls::Error, expected: Option<Expected>) -> HandshakeError {
        match (error, expected) {
            (rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. }, _) => {
                HandshakeError::NotMobcast
            }
            (rustls::Error::NoApplicationProtocol, _) => HandshakeError::other_version(),
            (rustls::Error::NoCertificatesPresented, _) => HandshakeError::NoCertificate,
            (rustls::Error::AlertReceived(alert), _) => HandshakeError::from_alert(alert),
            (rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. }), Some(expected))
            | (rustls::Error::InvalidCertificate(CertificateError::NotValidForName), Some(expected)) => {
                HandshakeError::OtherNode(expected)
            }
            (rustls::Error::InvalidCertificate(CertificateError::Expired), _) => HandshakeError::PeerExpired,
            (rustls::Error::InvalidCertificate(CertificateError::NotValidYet), _) => HandshakeError::PeerNotValidYet,
            (rustls::Error::InvalidCertificate(error), _) => HandshakeError::Untrusted(error),
            (error, _) => HandshakeError::Tls(error),
        }
    }

    /// What the peer's alert means for us.
    pub(super) fn from_alert(alert: AlertDescription) -> HandshakeError {
        match alert {
            AlertDescription::CertificateExpired => HandshakeError::Expired,
            AlertDescription::NoApplicationProtocol => HandshakeError::other_version(),
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied => HandshakeError::NotAdmitted(alert),
            AlertDescription::CloseNotify => HandshakeError::Closed,
            alert => HandshakeError::Tls(rustls::Error::AlertReceived(alert)),
        }
    }

    /// What the end of a channel means that had no welcome yet.
    pub(super) fn from_channel(error: ChannelError) -> HandshakeError {
        match error {
            ChannelError::Alert(alert) => HandshakeError::from_alert(alert),
            ChannelError::Io(error) => HandshakeError::Io(error),
            ChannelError::Keys(error) => HandshakeError::Tls(error),
            ChannelError::Truncated => HandshakeError::Closed,
            _ => HandshakeError::NotMobcast,
        }
    }

    fn other_version() -> HandshakeError {
        HandshakeError::OtherVersion { ours: std::str::from_utf8(super::ALPN).unwrap_or("mobcast") }
    }
}
