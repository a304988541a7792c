//! The identity that the secret of a ticket yields. Everyone with the ticket derives the same key from it, so the
//! certificate proves possession of the ticket and says nothing about who it is.

use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::{GroupId, PublicKey};
use rcgen::ExtendedKeyUsagePurpose;

use super::authority::{Certificate, sign_certificate};
use super::keys::NodeKey;
use super::{IdentityError, names};

const DERIVATION: &str = "mobcast bootstrap identity v1";

/// What both ends derive from a ticket's secret: the joiner to show it, the coordinator to recognise it.
#[derive(Debug)]
pub struct JoinSecret {
    group: GroupId,
    key: NodeKey,
    expires_unix_s: u64,
}

impl JoinSecret {
    /// From the secret in a group's ticket, which admits until `expires_unix_s` by the clock of the accepting side.
    pub fn new(group: GroupId, secret: &[u8; 32], expires_unix_s: u64) -> JoinSecret {
        let seed = blake3::derive_key(DERIVATION, &[&secret[..], &group.0].concat());
        JoinSecret { group, key: NodeKey::from_seed(seed), expires_unix_s }
    }

    /// From a ticket.
    pub fn of_ticket(ticket: &Ticket) -> JoinSecret {
        JoinSecret::new(ticket.group, &ticket.secret, ticket.expires_unix_s)
    }

    pub(super) fn public(&self) -> PublicKey {
        self.key.public()
    }

    pub(super) fn key(&self) -> &NodeKey {
        &self.key
    }

    pub(super) fn expires_unix_s(&self) -> u64 {
        self.expires_unix_s
    }

    /// The certificate to show when joining. Its dates are wide, because the holder could sign any: the accepting side
    /// goes by the expiry that it knows itself, and a joiner whose clock is wrong can still join.
    pub(super) fn certificate(&self) -> Result<Certificate, IdentityError> {
        let name = vec![names::joiner(self.group)];
        let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign_certificate(&self.key, names::BOOTSTRAP, self.public(), name, usages, (0, u64::MAX))
    }
}
