//! Whom a certificate names, once it is verified.

use std::fmt;

use mobcast_proto::{GroupId, NodeId, PublicKey};
use rustls::CertificateError;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use super::bootstrap::JoinSecret;
use super::{der, names};

/// Whom the connecting side wants to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Whoever is the group's coordinator.
    Coordinator,
    /// This node and no other.
    Node(NodeId),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Coordinator => f.write_str("the coordinator"),
            Expected::Node(node) => node.fmt(f),
        }
    }
}

/// Who the other end is, as its verified certificate and the handshake prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerIdentity {
    /// A node that the authority has admitted.
    Member {
        /// The node.
        node: NodeId,
        /// Its own key, with which it signs receipts.
        key: PublicKey,
        /// Whether it is also the coordinator.
        coordinator: bool,
    },
    /// Somebody who has the ticket: may ask to be admitted, and nothing else.
    Joiner,
}

/// Whose certificates are believed.
pub struct Trust {
    group: GroupId,
    authority: [TrustAnchor<'static>; 1],
    bootstrap: Option<Bootstrap>,
}

struct Bootstrap {
    anchor: [TrustAnchor<'static>; 1],
    expires_unix_s: u64,
}

impl Trust {
    /// Believes the authority, and the holders of a ticket where `joiners` is given.
    pub fn new(group: GroupId, authority: PublicKey, joiners: Option<&JoinSecret>) -> Trust {
        let bootstrap = joiners.map(|secret| Bootstrap {
            anchor: [der::trust_anchor(names::BOOTSTRAP, secret.public())],
            expires_unix_s: secret.expires_unix_s(),
        });
        Trust { group, authority: [der::trust_anchor(names::AUTHORITY, authority)], bootstrap }
    }

    /// Whom `certificate` names, if it is to be believed at `now` for `usage`.
    ///
    /// Which key signed it decides what it can name: a ticket holder can sign bootstrap certificates with any name,
    /// and is a joiner with each of them.
    pub fn identify(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<PeerIdentity, CertificateError> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let Some(bootstrap) = self.bootstrap.as_ref().filter(|_| parsed.issuer() == self.bootstrap_subject()) else {
            check(&parsed, &self.authority, now, usage)?;
            return self.member(&parsed);
        };
        check(&parsed, &bootstrap.anchor, now, usage)?;
        if now.as_secs() >= bootstrap.expires_unix_s {
            return Err(CertificateError::Expired);
        }
        check_name(&parsed, names::joiner(self.group))?;
        Ok(PeerIdentity::Joiner)
    }

    /// Like [`Trust::identify`], and the certificate must also be that of `expected`.
    pub fn identify_as(
        &self,
        certificate: &CertificateDer<'_>,
        expected: &rustls_pki_types::ServerName<'_>,
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<PeerIdentity, CertificateError> {
        let identity = self.identify(certificate, now, usage)?;
        let parsed = EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        parsed.verify_is_valid_for_subject_name(expected).map_err(certificate_error)?;
        Ok(identity)
    }

    fn bootstrap_subject(&self) -> &[u8] {
        self.bootstrap.as_ref().map_or(&[], |bootstrap| bootstrap.anchor[0].subject.as_ref())
    }

    fn member(&self, parsed: &EndEntityCert<'_>) -> Result<PeerIdentity, CertificateError> {
        let node = parsed
            .valid_dns_names()
            .find_map(|name| names::parse_node(name, self.group))
            .ok_or(CertificateError::NotValidForName)?;
        check_name(parsed, names::node(node, self.group))?;
        let coordinator = check_name(parsed, names::coordinator(self.group)).is_ok();
        let key = der::ed25519_key(&parsed.subject_public_key_info()).ok_or(CertificateError::BadEncoding)?;
        Ok(PeerIdentity::Member { node, key, coordinator })
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("group", &self.group).field("joiners", &self.bootstrap.is_some()).finish()
    }
}

fn check(
    parsed: &EndEntityCert<'_>,
    anchors: &[TrustAnchor<'static>],
    now: UnixTime,
    usage: KeyUsage,
) -> Result<(), CertificateError> {
    parsed
        .verify_for_usage(&[webpki::ring::ED25519], anchors, &[], now, usage, None, None)
        .map(|_| ())
        .map_err(certificate_error)
}

fn check_name(parsed: &EndEntityCert<'_>, name: String) -> Result<(), CertificateError> {
    parsed.verify_is_valid_for_subject_name(&names::server_name(name)).map_err(certificate_error)
}

fn certificate_error(error: webpki::Error) -> CertificateError {
    match error {
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::CertNotValidForName(_) => CertificateError::NotValidForName,
        // All authorities have the same name, so another group's certificate shows as a wrong signature.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => CertificateError::UnknownIssuer,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        _ => CertificateError::BadEncoding,
    }
}
