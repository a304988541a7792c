//! What a process shows of itself and whom it believes, ready for [`crate::channel::connect`] and
//! [`crate::channel::accept`]. Cheap to clone; its certificate is never renewed.

use std::sync::Arc;

use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::{GroupId, NodeId, PublicKey};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::KeyUsage;

use super::authority::Certificate;
use super::bootstrap::JoinSecret;
use super::keys::NodeKey;
use super::peer::{PeerIdentity, Trust};
use super::{IdentityError, settings};

/// A node's place in its group: its key, and the authority's certificate for it.
#[derive(Clone, Debug)]
pub struct Membership {
    group: GroupId,
    authority: PublicKey,
    node: NodeId,
    key: Arc<NodeKey>,
    certificate: Certificate,
}

impl Membership {
    /// Takes the certificate that the coordinator sent, if it is the pinned authority's and for our own key.
    pub fn new(
        group: GroupId,
        authority: PublicKey,
        key: Arc<NodeKey>,
        certificate: Certificate,
        now_unix_s: u64,
    ) -> Result<Membership, IdentityError> {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now_unix_s));
        let der = CertificateDer::from(certificate.0.as_slice());
        match Trust::new(group, authority, None).identify(&der, now, KeyUsage::server_auth()) {
            Ok(PeerIdentity::Member { node, key: named, .. }) if named == key.public() => {
                Ok(Membership { group, authority, node, key, certificate })
            }
            Ok(_) => Err(IdentityError::Damaged),
            Err(error) => Err(rustls::Error::from(error).into()),
        }
    }

    /// The node's number.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The key of the group's authority.
    pub fn authority(&self) -> PublicKey {
        self.authority
    }

    /// The node's key.
    pub fn key(&self) -> &Arc<NodeKey> {
        &self.key
    }

    /// The authority's certificate for that key.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

/// Who we are when we connect.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) group: GroupId,
    pub(crate) trust: Arc<Trust>,
    pub(crate) config: Arc<ClientConfig>,
}

impl Identity {
    /// Somebody with a ticket, who may ask the coordinator for admission.
    pub fn joiner(ticket: &Ticket) -> Result<Identity, IdentityError> {
        let secret = JoinSecret::of_ticket(ticket);
        Identity::new(ticket.group, ticket.authority, secret.key(), &secret.certificate()?)
    }

    /// A member of a group.
    pub fn member(membership: &Membership) -> Result<Identity, IdentityError> {
        Identity::new(membership.group, membership.authority, &membership.key, &membership.certificate)
    }

    fn new(
        group: GroupId,
        authority: PublicKey,
        key: &NodeKey,
        certificate: &Certificate,
    ) -> Result<Identity, IdentityError> {
        let trust = Arc::new(Trust::new(group, authority, None));
        let config = settings::client(Arc::clone(&trust), key, certificate)?;
        Ok(Identity { group, trust, config })
    }
}

/// Who we are when others connect, and whom we let in: members, and joiners where a [`JoinSecret`] is given.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    pub(crate) trust: Arc<Trust>,
    pub(crate) config: Arc<ServerConfig>,
}

impl ServerIdentity {
    /// A member of a group. The coordinator gives `joiners`; other nodes need not.
    pub fn new(membership: &Membership, joiners: Option<&JoinSecret>) -> Result<ServerIdentity, IdentityError> {
        let trust = Arc::new(Trust::new(membership.group, membership.authority, joiners));
        let config = settings::server(Arc::clone(&trust), &membership.key, &membership.certificate)?;
        Ok(ServerIdentity { trust, config })
    }
}
