//! The keys of a node, and what it does with them for the core: signing, verifying, certifying. A signature takes 16
//! to 31 µs, so the node's task makes and checks them itself.

use std::collections::VecDeque;
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
/// Signatures of the authority that are known to hold: the credentials of this many roots, each of which comes with every
/// announcement of its root.
const KNOWN_MAX: usize = 16;

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
    /// Messages of the authority with signatures that were found to hold, the last used one last.
    known: VecDeque<(Vec<u8>, Signature)>,
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
            known: VecDeque::new(),
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
            known: VecDeque::new(),
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
    pub fn verify(&mut self, checks: &[Check]) -> bool {
        checks.iter().all(|check| match check.key {
            Some(key) => verify_signature(key, &check.message, check.signature),
            None => self.verify_authority(&check.message, check.signature),
        })
    }

    /// Whether a signature of the authority holds, which costs nothing if it was checked before.
    fn verify_authority(&mut self, message: &[u8], signature: Signature) -> bool {
        let is_it = |(known, its): &(Vec<u8>, Signature)| *its == signature && known == message;
        let known = self.known.iter().position(is_it).and_then(|at| self.known.remove(at));
        let holds = known.is_some() || verify_signature(self.authority_key, message, signature);
        if holds {
            self.known.push_back(known.unwrap_or_else(|| (message.to_vec(), signature)));
            self.known.drain(..self.known.len().saturating_sub(KNOWN_MAX));
        }
        holds
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_that_is_known_to_hold_vouches_for_its_own_message_alone() {
        let (group, secret) = (GroupId([1; 16]), [2; 32]);
        let authority = Default::default();
        let mut ticket = Ticket { addresses: Vec::new(), group, secret, expires_unix_s: u64::MAX / 2, authority };
        let (mut keys, credential, signature) = Keys::found(&mut ticket).expect("a key");
        let check = |message: Vec<u8>, signature| [Check { key: None, message, signature }];
        let message = credential_message(&credential);
        for _ in 0..2 {
            assert!(keys.verify(&check(message.clone(), signature)));
            assert!(!keys.verify(&check(message.clone(), Signature([3; 64]))));
            assert!(!keys.verify(&check(b"another message".to_vec(), signature)));
            let of_a_node = Check { key: Some(PublicKey([4; 32])), ..check(message.clone(), signature)[0].clone() };
            assert!(!keys.verify(&[of_a_node]), "the authority's word is not a node's");
        }
        for number in 0..100u8 {
            let signature = keys.sign(Signer::Authority, &[number]).expect("the coordinator has the key");
            assert!(keys.verify(&check(vec![number], signature)));
        }
        assert_eq!(keys.known.len(), KNOWN_MAX);
    }
}
