//! The few fixed DER encodings (X.690) by which an Ed25519 key alone becomes a trust anchor, a private key that rustls
//! reads, and back. Each is a constant prefix, because all lengths are fixed.

use mobcast_proto::PublicKey;
use rustls_pki_types::{Der, TrustAnchor};

/// RFC 8410: the algorithm identifier of Ed25519, then the header of the bit string that holds the key.
const SPKI_PREFIX: [u8; 10] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// RFC 8410 section 7: a PKCS #8 key, version 0, whose only content is the seed that follows.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// The attribute type commonName (2.5.4.3).
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;

/// The private key of `seed` as PKCS #8.
pub fn pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    [&PKCS8_PREFIX[..], seed].concat()
}

/// The trust anchor whose only attribute is the common name `name`, with an Ed25519 key: all that a joiner knows of
/// its group's authority.
pub fn trust_anchor(name: &str, key: PublicKey) -> TrustAnchor<'static> {
    TrustAnchor {
        subject: Der::from(subject(name)),
        subject_public_key_info: Der::from([&SPKI_PREFIX[..], &key.0].concat()),
        name_constraints: None,
    }
}

/// The contents of the distinguished name (without its outer header, as trust anchors have it).
fn subject(name: &str) -> Vec<u8> {
    let attribute = [&COMMON_NAME[..], &tagged(UTF8_STRING, name.as_bytes())].concat();
    tagged(SET, &tagged(SEQUENCE, &attribute))
}

fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    assert!(contents.len() < 0x80, "names of authorities are short");
    [&[tag, contents.len() as u8][..], contents].concat()
}

/// The Ed25519 key in a subject public key info (with its outer header), or nothing for another algorithm.
pub fn ed25519_key(spki: &[u8]) -> Option<PublicKey> {
    let key = spki.strip_prefix(&[SEQUENCE, 42])?.strip_prefix(&SPKI_PREFIX)?;
    Some(PublicKey(key.try_into().ok()?))
}
