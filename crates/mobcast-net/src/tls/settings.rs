//! How rustls is set up: TLS 1.3 both ways, one crypto provider (ring), Ed25519 certificates, no resumption, and the
//! traffic secrets handed out to [`crate::channel`].

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::IdentityError;
use super::authority::Certificate;
use super::keys::NodeKey;
use super::peer::Trust;
use super::verify::Verifier;
use crate::channel::ALPN;

/// Whether this processor has instructions for AES. ring has code for those of these two families alone.
fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// The best one first. AES-128-GCM has ten rounds a block where AES-256 has fourteen, and both are faster than ChaCha20 with
/// instructions for AES, and several times slower without.
fn cipher_suites(has_aes: bool) -> Vec<SupportedCipherSuite> {
    let mut suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    if !has_aes {
        suites.rotate_right(1);
    }
    suites
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: cipher_suites(has_aes()),
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
        ..default_provider()
    })
}

/// For connecting as the owner of `key` and `certificate`.
pub fn client(trust: Arc<Trust>, key: &NodeKey, certificate: &Certificate) -> Result<Arc<ClientConfig>, IdentityError> {
    let (chain, key) = credentials(key, certificate);
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier(trust)))
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = alpn();
    config.resumption = Resumption::disabled();
    // The expected name would otherwise travel in the clear and show the group and the node.
    config.enable_sni = false;
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// For being connected to as the owner of `key` and `certificate`.
pub fn server(trust: Arc<Trust>, key: &NodeKey, certificate: &Certificate) -> Result<Arc<ServerConfig>, IdentityError> {
    let (chain, key) = credentials(key, certificate);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Verifier(trust)))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = alpn();
    // As a rule the client's first choice is taken; so ChaCha20 is where either of the two has no instructions for AES.
    config.ignore_client_order = !has_aes();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

fn alpn() -> Vec<Vec<u8>> {
    vec![ALPN.to_vec()]
}

fn credentials(key: &NodeKey, certificate: &Certificate) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8()));
    (vec![CertificateDer::from(certificate.0.clone())], key)
}

#[cfg(test)]
mod tests {
    use rustls::CipherSuite;

    use super::*;

    #[test]
    fn a_processor_without_instructions_for_aes_wants_chacha20() {
        let first = |has_aes| cipher_suites(has_aes)[0].suite();
        assert_eq!(first(true), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(first(false), CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
        assert_eq!(cipher_suites(false).len(), cipher_suites(true).len(), "all are possible");
    }
}
