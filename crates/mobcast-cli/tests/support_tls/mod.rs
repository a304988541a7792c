//! TLS as strangers speak it: without a certificate, or with one that they have made themselves. They believe anybody.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use mobcast_proto::GroupId;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

/// Somebody who speaks TLS.
pub struct Impostor {
    config: Arc<ClientConfig>,
}

impl Impostor {
    /// As a port scanner.
    pub fn without_certificate() -> Impostor {
        Impostor::new(None)
    }

    /// With a certificate that says what the one of a joiner of this group says, signed by itself.
    pub fn with_own_certificate(group: GroupId) -> Impostor {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let name = format!("joiner.{group}.mobcast");
        let certificate = CertificateParams::new(vec![name]).and_then(|params| params.self_signed(&key));
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        Impostor::new(Some((certificate.expect("a certificate").der().clone(), key)))
    }

    fn new(own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>) -> Impostor {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Credulous));
        let mut config = match own {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).expect("they fit"),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![mobcast_net::channel::ALPN.to_vec()];
        Impostor { config: Arc::new(config) }
    }

    /// Makes the handshake, greets, and waits for anything that only members hear.
    pub fn connect(&self, stream: TcpStream) -> io::Result<u8> {
        let name = ServerName::try_from("coordinator").expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(b"hello")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        Ok(first[0])
    }
}

/// Believes every certificate.
#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
