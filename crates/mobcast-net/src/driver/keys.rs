//! The keys of a node, and what it does with them for the core: signing, verifying, certifying. A signature takes 16
//! to 31 µs, so the node's task makes and checks them itself.

use std::sync::Arc;
use std::time::Duration;

use mobcast_proto::content::manifest::{SignatureDomain, signed_message};
use mobcast_proto::group::assignment::Credential;
use mobcast_proto::group::ticket::Ticket;
use mobcast_proto::io::{Check, Signer};
use mobcast_proto::{GroupId, NodeId, PublicKey, Signature};

use super::clock::unix_s;
use super::dial::Doorway;
use crate::tls::{
    Authority, Certificate, Identity, IdentityError, JoinSecret, Membership, NodeKey, Role, ServerIdentity,
    verify_signature,
};
use mobcast_proto::wire::Hello;

/// A node's certificate lasts this long: longer than any broadcast; a node that needs more joins again.
const CERTIFICATE_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// All keys that a node has, and who it is by them.
#[derive(Debug)]
pub struct Keys {
    group: GroupId,
    own: Arc<NodeKey>,
    authority_key: PublicKey,
    /// At the coordinator, and at those that may succeed it.
    authority: Option<Authority>,
    /// At the founder, whose address the ticket names: the secret by which others may ask to be admitted.
    admits: Option<JoinSecret>,
    /// At a node that joins.
    joiner: Option<Identity>,
    member: Option<(Membership, Identity)>,
}

impl Keys {
    /// Those of a new group's coordinator, with its credential. `ticket` has everything but the authority's key.
    pub fn found(ticket: &mut Ticket) -> Result<(Keys, Credential, Signature), IdentityError> {
        let authority = Authority::random(ticket.group)?;
        ticket.authority = authority.public();
        let own = Arc::new(NodeKey::random()?);
        let secret = JoinSecret::of_ticket(ticket);
        let expires_unix_s = unix_s() + CERTIFICATE_TIME.as_secs();
        let credential = Credential { group: ticket.group, node: NodeId(0), key: own.public(), expires_unix_s };
        let signature = authority.sign(&credential_message(&credential));
        let role = Role::Coordinator;
        let certificate = authority.issue(NodeId(0), own.public(), role, unix_s(), expires_unix_s)?;
        let mut keys = Keys {
            group: ticket.group,
            own,
            authority_key: ticket.authority,
            authority: Some(authority),
            admits: Some(secret),
            joiner: None,
            member: None,
        };
        keys.become_member(certificate)?;
        Ok((keys, credential, signature))
    }

    /// Those of a node that wants to join.
    pub fn join(ticket: &Ticket) -> Result<Keys, IdentityError> {
        Ok(Keys {
            group: ticket.group,
            own: Arc::new(NodeKey::random()?),
            authority_key: ticket.authority,
            authority: None,
            admits: None,
            joiner: Some(Identity::joiner(ticket)?),
            member: None,
        })
    }

    /// The authority has admitted this node.
    pub fn become_member(&mut self, certificate: Certificate) -> Result<(), IdentityError> {
        let own = Arc::clone(&self.own);
        let membership = Membership::new(self.group, self.authority_key, own, certificate, unix_s())?;
        let identity = Identity::member(&membership)?;
        self.member = Some((membership, identity));
        Ok(())
    }

    /// The node's public key.
    pub fn public(&self) -> PublicKey {
        self.own.public()
    }

    /// Who this node is when it asks to be admitted.
    pub fn joiner(&self) -> Option<&Identity> {
        self.joiner.as_ref()
    }

    /// Who this node is when it connects to members.
    pub fn member(&self) -> Option<&Identity> {
        self.member.as_ref().map(|(_, identity)| identity)
    }

    /// What this node shows to those that connect to it.
    pub fn doorway(&self, hello: Hello) -> Result<Option<Doorway>, IdentityError> {
        let Some((membership, _)) = &self.member else { return Ok(None) };
        Ok(Some(Doorway { server: ServerIdentity::new(membership, self.admits.as_ref())?, hello }))
    }

    /// The authority's key as a successor receives it. Secret. None if this node does not have it.
    pub fn authority_secret(&self) -> Option<Vec<u8>> {
        self.authority.as_ref().map(Authority::to_bytes)
    }

    /// Keeps the authority's key that the coordinator has handed over, if it is the one that the ticket names.
    pub fn keep_authority(&mut self, secret: &[u8]) -> Result<(), IdentityError> {
        let authority = Authority::from_bytes(secret)?;
        if authority.public() != self.authority_key || authority.group() != self.group {
            return Err(IdentityError::Damaged);
        }
        self.authority = Some(authority);
        Ok(())
    }

    /// Signs. None if it is not this node's to sign.
    pub fn sign(&self, signer: Signer, message: &[u8]) -> Option<Signature> {
        match signer {
            Signer::Node => Some(self.own.sign(message)),
            Signer::Authority => self.authority.as_ref().map(|authority| authority.sign(message)),
        }
    }

    /// Whether all signatures hold.
    pub fn verify(&self, checks: &[Check]) -> bool {
        let holds = |check: &Check| {
            let key = check.key.unwrap_or(self.authority_key);
            verify_signature(key, &check.message, check.signature)
        };
        checks.iter().all(holds)
    }

    /// Completes a credential, signs it, and makes the certificate that goes with it. None but at the coordinator.
    pub fn certify(
        &self,
        mut credential: Credential,
    ) -> Result<Option<(Credential, Signature, Certificate)>, IdentityError> {
        let Some(authority) = &self.authority else { return Ok(None) };
        let now = unix_s();
        credential.expires_unix_s = now + CERTIFICATE_TIME.as_secs();
        let signature = authority.sign(&credential_message(&credential));
        let (node, key, expires) = (credential.node, credential.key, credential.expires_unix_s);
        let certificate = authority.issue(node, key, Role::Member, now, expires)?;
        Ok(Some((credential, signature, certificate)))
    }
}

fn credential_message(credential: &Credential) -> Vec<u8> {
    signed_message(SignatureDomain::Credential, credential.group, &credential.to_bytes())
}
