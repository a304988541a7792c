//! The group's certificate authority: a random key that the coordinator holds, and the short-lived certificates that
//! it signs for the nodes' own keys. The authority has no certificate of its own: joiners pin its key (in the ticket).

use std::time::Duration;

use mobcast_proto::{GroupId, NodeId, PublicKey, Signature};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SanType, SerialNumber};
use ring::rand::{SecureRandom, SystemRandom};

use super::keys::NodeKey;
use super::{IdentityError, names};

/// Clocks of joining machines may be behind the coordinator's by this much.
const CLOCK_SKEW_S: u64 = 3600;
/// The last moment that X.509 can name in four digits of a year.
const LAST_UNIX_S: u64 = 253_402_300_799;
/// Version, group, seed.
const SERIAL_BYTES: usize = 1 + 16 + 32;
const SERIAL_VERSION: u8 = 1;

/// A certificate of one node, in DER. Public: it is good only together with the node's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate(pub Vec<u8>);

/// What a certificate makes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// One node among others.
    Member,
    /// The node that is also the coordinator.
    Coordinator,
}

/// The group's authority. Whoever has it can admit nodes and name the coordinator.
#[derive(Debug)]
pub struct Authority {
    group: GroupId,
    key: NodeKey,
}

impl Authority {
    /// The authority of a group that begins.
    pub fn random(group: GroupId) -> Result<Authority, IdentityError> {
        Ok(Authority { group, key: NodeKey::random()? })
    }

    /// All of it, as a successor of the coordinator receives it. Secret: to be sealed before it goes anywhere.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[SERIAL_VERSION][..], &self.group.0, self.key.seed()].concat()
    }

    /// The authority that another coordinator handed over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Authority, IdentityError> {
        if bytes.len() != SERIAL_BYTES || bytes[0] != SERIAL_VERSION {
            return Err(IdentityError::Damaged);
        }
        let group = GroupId(bytes[1..17].try_into().expect("the length was checked"));
        let seed = bytes[17..].try_into().expect("the length was checked");
        Ok(Authority { group, key: NodeKey::from_seed(seed) })
    }

    /// The group it speaks for.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The key that the ticket carries and joiners pin.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// Signs a statement of the authority, such as the delegation to a broadcast's root.
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.key.sign(message)
    }

    /// The certificate of `node`, whose own key is `key`, from an hour before `now_unix_s` until `expires_unix_s`.
    pub fn issue(
        &self,
        node: NodeId,
        key: PublicKey,
        role: Role,
        now_unix_s: u64,
        expires_unix_s: u64,
    ) -> Result<Certificate, IdentityError> {
        let mut dns_names = vec![names::node(node, self.group)];
        if role == Role::Coordinator {
            dns_names.push(names::coordinator(self.group));
        }
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let lifetime = (now_unix_s.saturating_sub(CLOCK_SKEW_S), expires_unix_s);
        sign_certificate(&self.key, names::AUTHORITY, key, dns_names, usages.to_vec(), lifetime)
    }
}

/// A certificate for `key`, signed by `issuer`, valid from and until `lifetime` (seconds since 1970).
pub(super) fn sign_certificate(
    issuer: &NodeKey,
    issuer_name: &str,
    key: PublicKey,
    dns_names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
    lifetime: (u64, u64),
) -> Result<Certificate, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name("mobcast node");
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(lifetime.0.min(LAST_UNIX_S));
    params.not_after = epoch + Duration::from_secs(lifetime.1.min(LAST_UNIX_S));
    params.serial_number = Some(serial_number()?);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    for name in dns_names {
        params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
    }
    let mut issuer_params = CertificateParams::default();
    issuer_params.distinguished_name = common_name(issuer_name);
    let signed = params.signed_by(&SubjectKey(key), &Issuer::from_params(&issuer_params, issuer))?;
    Ok(Certificate(signed.der().to_vec()))
}

fn common_name(name: &str) -> rcgen::DistinguishedName {
    let mut distinguished = rcgen::DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn serial_number() -> Result<SerialNumber, IdentityError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| IdentityError::NoRandomness)?;
    // X.509 wants a positive number.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// The public half of a key that is somewhere else.
struct SubjectKey(PublicKey);

impl rcgen::PublicKeyData for SubjectKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}
