//! TLS 1.2 and 1.3 by rustls.
//!
//! The roots are those of the system (as in k6, and with `SSL_CERT_FILE` as there), not a compiled list: a company's
//! own authority is installed there. As in k6 sessions are not resumed: a run that opens a connection per iteration
//! would measure another handshake.

use std::cell::OnceCell;
use std::fmt::Display;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, CipherSuite, DigitallySignedStruct, ProtocolVersion,
    RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::connection::{Dialled, Peer};
use super::encrypted_key::decrypt;
use super::error::ErrorCode;
use super::ocsp::Ocsp;
use super::stream::{Counted, Stream};
use super::{RequestError, Url};
use crate::log::rfc_3339;

/// A supported version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

/// A client certificate with its chain and private key.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ClientCertificateError(String);

impl ClientCertificate {
    /// Reads PEM; `password` decrypts the key.
    ///
    /// # Errors
    /// Invalid input, or a key of another certificate.
    pub(crate) fn from_pem(
        certificate: &str,
        key: &str,
        password: Option<&str>,
    ) -> Result<Self, ClientCertificateError> {
        let wrong =
            |what: &str, error: &dyn Display| ClientCertificateError(format!("{what}{error}"));
        let decrypted = password.map(|password| decrypt(key, password)).transpose();
        let decrypted = decrypted.map_err(|error| wrong("the private key: ", &error))?;
        let key = decrypted.as_deref().unwrap_or(key);
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let chain = chain.map_err(|error| wrong("the certificate: ", &error))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|error| wrong("the private key: ", &error))?;
        let certificate = Self { chain, key };
        let pair = certificate.certified(&rustls::crypto::ring::default_provider());
        pair.map(|_| certificate).map_err(|error| wrong("", &error))
    }

    fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, rustls::Error> {
        CertifiedKey::from_der(self.chain.clone(), self.key.clone_key(), provider)
    }
}

/// Presents the first certificate that an authority named by the server has signed.
#[derive(Debug)]
struct ClientCertificates(Vec<Arc<CertifiedKey>>);

impl ResolvesClientCert for ClientCertificates {
    fn resolve(
        &self,
        authorities: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        // A certificate contains the name of its issuer as the server's list has it.
        let names = |certificate: &CertificateDer<'_>| {
            authorities.iter().any(|name| certificate.windows(name.len()).any(|part| part == *name))
        };
        let found = self.0.iter().find(|key| {
            key.key.choose_scheme(schemes).is_some()
                && (authorities.is_empty() || key.cert.iter().any(names))
        });
        found.cloned()
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

pub(crate) fn cipher_suite(name: &str) -> Option<CipherSuite> {
    let suites =
        rustls::crypto::ring::ALL_CIPHER_SUITES.iter().map(rustls::SupportedCipherSuite::suite);
    suites.into_iter().find(|suite| suite_name(*suite) == name)
}

/// TLS settings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Accept any certificate.
    pub insecure: bool,
    /// The lowest version to accept.
    pub min: TlsVersion,
    /// The highest version to offer.
    pub max: TlsVersion,
    /// Suites to offer for TLS 1.2; empty offers all.
    pub(crate) cipher_suites: Vec<CipherSuite>,
    pub(crate) certificates: Vec<Arc<ClientCertificate>>,
}

impl Default for TlsSettings {
    fn default() -> Self {
        let (cipher_suites, certificates) = Default::default();
        let (min, max) = (TlsVersion::Tls12, TlsVersion::Tls13);
        Self { insecure: false, min, max, cipher_suites, certificates }
    }
}

/// Result of a handshake, in k6's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TlsInfo {
    /// `tls1.2` or `tls1.3`.
    pub(crate) version: &'static str,
    /// IANA's name.
    pub(crate) cipher_suite: &'static str,
    pub(crate) ocsp: Ocsp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// HTTP/1.1 alone, for an upgrade to another protocol.
    Http1,
    /// HTTP/2 or HTTP/1.1.
    Http2,
    /// HTTP/2 alone, for gRPC: a server must not choose HTTP/1.1.
    OnlyHttp2,
}

impl Offer {
    fn protocols(self) -> Vec<Vec<u8>> {
        let (http1, http2) = (b"http/1.1".to_vec(), HTTP2.to_vec());
        match self {
            Self::Http1 => vec![http1],
            Self::Http2 => vec![http2, http1],
            Self::OnlyHttp2 => vec![http2],
        }
    }
}

/// ALPN name of HTTP/2 (RFC 9113 §3.1).
const HTTP2: &[u8] = b"h2";

/// Opens TLS connections; reads the system's roots for the first one.
pub(super) struct Tls {
    settings: TlsSettings,
    connector: OnceCell<(TlsConnector, Stapled)>,
}

impl Tls {
    pub(super) fn new(settings: TlsSettings) -> Self {
        Self { settings, connector: OnceCell::new() }
    }

    pub(super) async fn handshake(
        &self,
        url: &Url,
        tcp: TcpStream,
        address: SocketAddr,
        offer: Offer,
    ) -> Result<Dialled, RequestError> {
        let name = ServerName::try_from(url.host.to_string()).map_err(|_| RequestError::Tls {
            message: format!("tls: `{}` is not a name a certificate can have", url.host),
            code: ErrorCode::X509_HOSTNAME,
        })?;
        let (connector, stapled) = self.connector()?;
        let counted = Counted { stream: tcp, traffic: Rc::default() };
        let mut connecting = pin!(connector.with_alpn(offer.protocols()).connect(name, counted));
        let mut ocsp = Ocsp::UNKNOWN;
        let stream = poll_fn(|cx| {
            let polled = connecting.as_mut().poll(cx);
            // Other handshakes use the same verifier between the polls of this one.
            ocsp = stapled.lock().take().unwrap_or(ocsp);
            polled
        });
        let stream = stream.await.map_err(|error| failed(&error))?;
        let session = stream.get_ref().1;
        let info = TlsInfo {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "tls1.2",
                Some(ProtocolVersion::TLSv1_3) => "tls1.3",
                _ => "",
            },
            cipher_suite: session
                .negotiated_cipher_suite()
                .map_or("", |suite| suite_name(suite.suite())),
            ocsp,
        };
        let http2 = session.alpn_protocol() == Some(HTTP2);
        let peer = Peer { address, tls: Some(info) };
        Ok(Dialled { stream: Stream::Tls(Box::new(stream)), peer, http2 })
    }

    fn connector(&self) -> Result<&(TlsConnector, Stapled), RequestError> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector);
        }
        let stapled = Stapled::default();
        let config = config(&self.settings, stapled.clone()).map_err(|error| {
            RequestError::Tls { message: format!("tls: {error}"), code: ErrorCode::TLS }
        })?;
        Ok(self.connector.get_or_init(|| (Arc::new(config).into(), stapled)))
    }
}

fn config(settings: &TlsSettings, stapled: Stapled) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut provider = rustls::crypto::ring::default_provider();
    // Go's order, so that a server chooses the same suite as for k6.
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => 2,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => 3,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 4,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => 5,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => 6,
        _ => 7,
    });
    if !settings.cipher_suites.is_empty() {
        // As in Go, those of TLS 1.3 are always offered.
        provider.cipher_suites.retain(|suite| {
            suite.tls13().is_some() || settings.cipher_suites.contains(&suite.suite())
        });
    }
    let certified = settings.certificates.iter().map(|one| one.certified(&provider).map(Arc::new));
    let certificates = ClientCertificates(certified.collect::<Result<_, _>>()?);
    let provider = Arc::new(provider);
    let versions: Vec<&SupportedProtocolVersion> = [
        (TlsVersion::Tls13, &rustls::version::TLS13),
        (TlsVersion::Tls12, &rustls::version::TLS12),
    ]
    .into_iter()
    .filter(|(version, _)| (settings.min..=settings.max).contains(version))
    .map(|(_, version)| version)
    .collect();
    let roots = (!settings.insecure).then(|| {
        let mut roots = RootCertStore::empty();
        // Unreadable roots are skipped; a handshake that needs one fails.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { roots, provider, stapled }))
        .with_client_cert_resolver(Arc::new(certificates));
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn outdated(error: &rustls::Error) -> bool {
    use CertificateError as Wrong;
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            Wrong::Expired
                | Wrong::ExpiredContext { .. }
                | Wrong::NotValidYet
                | Wrong::NotValidYetContext { .. }
        )
    )
}

fn not_now(now: UnixTime, relation: &str, limit: UnixTime) -> String {
    let text = |time: UnixTime| rfc_3339(UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    format!(
        "x509: certificate has expired or is not yet valid: current time {} is {relation} {}",
        text(now),
        text(limit)
    )
}

/// The error of a handshake or session. An unknown authority, another host name, dates, alerts and an early end have
/// k6's messages and numbers; the others have the messages of rustls.
pub(super) fn failed(error: &io::Error) -> RequestError {
    use CertificateError as Wrong;
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let (message, code) = match cause {
        Some(rustls::Error::InvalidCertificate(reason)) => match reason {
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
                ("x509: certificate doesn't match hostname".to_owned(), ErrorCode::X509_HOSTNAME)
            }
            // A trusted authority of that name has not signed this. `Other` includes a self-signed authority used as
            // the server's own certificate.
            Wrong::UnknownIssuer
            | Wrong::BadSignature
            | Wrong::UnsupportedSignatureAlgorithmContext { .. }
            | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
            | Wrong::Other(_) => {
                ("x509: unknown authority".to_owned(), ErrorCode::X509_UNKNOWN_AUTHORITY)
            }
            Wrong::ExpiredContext { time, not_after } => {
                (not_now(*time, "after", *not_after), ErrorCode::GENERIC)
            }
            Wrong::NotValidYetContext { time, not_before } => {
                (not_now(*time, "before", *not_before), ErrorCode::GENERIC)
            }
            reason => {
                (format!("tls: failed to verify certificate: x509: {reason}"), ErrorCode::GENERIC)
            }
        },
        Some(rustls::Error::AlertReceived(alert)) => {
            (format!("remote error: tls: {}", alert_text(*alert)), ErrorCode::NET)
        }
        Some(cause) => (format!("tls: {cause}"), ErrorCode::TLS),
        None => match error.kind() {
            io::ErrorKind::ConnectionReset => {
                ("tls: connection reset by peer".to_owned(), ErrorCode::TCP_RESET)
            }
            // Closed during the handshake, perhaps by a server without TLS.
            io::ErrorKind::UnexpectedEof => ("EOF".to_owned(), ErrorCode::GENERIC),
            _ => (format!("tls: {error}"), ErrorCode::TLS),
        },
    };
    RequestError::Tls { message, code }
}

/// Go's name of an alert.
fn alert_text(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnexpectedMessage => "unexpected message",
        AlertDescription::BadRecordMac => "bad record MAC",
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "revoked certificate",
        AlertDescription::CertificateExpired => "expired certificate",
        AlertDescription::CertificateUnknown => "unknown certificate",
        AlertDescription::IllegalParameter => "illegal parameter",
        AlertDescription::UnknownCA => "unknown certificate authority",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::DecodeError => "error decoding message",
        AlertDescription::DecryptError => "error decrypting message",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InsufficientSecurity => "insufficient security level",
        AlertDescription::InternalError => "internal error",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        other => return format!("alert({})", u8::from(other)),
    };
    text.to_owned()
}

/// IANA's and k6's name of a suite; rustls adds the version to those of TLS 1.3.
fn suite_name(suite: CipherSuite) -> &'static str {
    suite.as_str().map_or("", |name| match name {
        "TLS13_AES_128_GCM_SHA256" => "TLS_AES_128_GCM_SHA256",
        "TLS13_AES_256_GCM_SHA384" => "TLS_AES_256_GCM_SHA384",
        "TLS13_CHACHA20_POLY1305_SHA256" => "TLS_CHACHA20_POLY1305_SHA256",
        other => other,
    })
}

/// The stapled response of the last handshake, passed from the verifier to the handshake.
type Stapled = Arc<Mutex<Option<Ocsp>>>;

/// Verifies a server's certificate and reads its stapled OCSP response.
#[derive(Debug)]
struct Verifier {
    /// `None` accepts every certificate (`insecureSkipTLSVerify`); signatures are still verified, so that a handshake
    /// costs the same.
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
    stapled: Stapled,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let chain = |roots: &RootCertStore, intermediates: &[CertificateDer<'_>]| {
                verify_server_cert_signed_by_trust_anchor(
                    &certificate, roots, intermediates, now, algorithms,
                )
            };
            // As in Go: its own dates, then the name, then the chain. Without trusted roots a chain fails at its dates
            // or at its issuer.
            if let Err(wrong) = chain(&RootCertStore::empty(), &[])
                && outdated(&wrong)
            {
                return Err(wrong);
            }
            verify_server_name(&certificate, server_name)?;
            chain(roots, intermediates)?;
        }
        if !ocsp_response.is_empty() {
            *self.stapled.lock() = Some(Ocsp::parse(ocsp_response, algorithms));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
