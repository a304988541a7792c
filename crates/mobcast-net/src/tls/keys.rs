//! A node's own Ed25519 key pair, and signatures with it. Signing and verifying are ring's.

use std::fmt;

use mobcast_proto::{PublicKey, Signature};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::{IdentityError, der};

/// An Ed25519 key pair. It never leaves the process, except the authority's, which a coordinator seals and hands to
/// its successors.
pub struct NodeKey {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl NodeKey {
    /// A key from the system's random bytes.
    pub fn random() -> Result<NodeKey, IdentityError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| IdentityError::NoRandomness)?;
        Ok(NodeKey::from_seed(seed))
    }

    /// The key of a seed that must itself be secret and random.
    pub fn from_seed(seed: [u8; 32]) -> NodeKey {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("every 32 bytes are a seed of Ed25519");
        NodeKey { seed, pair }
    }

    /// The seed: whoever has it is this key's owner.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The half that everybody may know.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().expect("public keys of Ed25519 have 32 bytes"))
    }

    /// Signs `message`. What is signed must begin with a label of its purpose, so that it is good for nothing else.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.pair.sign(message).as_ref().try_into().expect("signatures of Ed25519 have 64 bytes"))
    }

    pub(super) fn pkcs8(&self) -> Vec<u8> {
        der::pkcs8(&self.seed)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

impl rcgen::PublicKeyData for NodeKey {
    fn der_bytes(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl rcgen::SigningKey for NodeKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.pair.sign(message).as_ref().to_vec())
    }
}

/// Whether `signature` is `key`'s over `message`.
pub fn verify(key: PublicKey, message: &[u8], signature: Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.0).verify(message, &signature.0).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_key_and_message_only() {
        let (key, other) = (NodeKey::random().unwrap(), NodeKey::random().unwrap());
        let signature = key.sign(b"receipt");
        assert!(verify(key.public(), b"receipt", signature));
        assert!(!verify(key.public(), b"recejpt", signature));
        assert!(!verify(other.public(), b"receipt", signature));
        assert!(!verify(PublicKey([0xff; 32]), b"receipt", signature));
    }

    #[test]
    fn the_key_is_that_of_rfc_8032() {
        let seed = blake3::Hash::from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let key = NodeKey::from_seed(*seed.as_bytes());
        assert_eq!(key.public().to_string(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    }

    #[test]
    fn the_debug_form_keeps_the_seed() {
        let debug = format!("{:?}", NodeKey::from_seed([0xab; 32]));
        assert!(!debug.contains("171, 171") && !debug.contains("abab"), "{debug}");
    }
}
