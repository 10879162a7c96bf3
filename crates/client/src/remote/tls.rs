//! TLS to a daemon whose certificate is verified: against the authorities given, else the system's.

use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::{Address, DialError};

pub(super) async fn connect(
    address: &Address,
    ca: Option<&str>,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, DialError> {
    let refused = |problem: String| DialError::Refused(format!("{address}: {problem}"));
    let verifier = Verifier::new(ca).map_err(refused)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::try_from(address.host().to_owned()).map_err(|error| refused(error.to_string()))?;
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(|error| {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(problem @ rustls::Error::InvalidCertificate(why)) if is_of_another_time(why) => refused(format!(
                "its certificate is not valid now: {problem}; check the clocks of both machines, or renew it"
            )),
            Some(problem @ rustls::Error::InvalidCertificate(_)) => refused(format!(
                "its certificate cannot be trusted: {problem}; if it is the right one, give its authority as `ca`"
            )),
            _ => DialError::Unreachable(format!("{address}: TLS: {error}")),
        }
    })
}

fn is_of_another_time(problem: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(problem, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

/// Verifies as usual, and also accepts a certificate that was given itself: one that signs itself, as many make it,
/// is no authority by the book.
#[derive(Debug)]
struct Verifier {
    given: Vec<CertificateDer<'static>>,
    by_authority: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    fn new(ca: Option<&str>) -> Result<Verifier, String> {
        let given = ca.map(certificates).transpose()?.unwrap_or_default();
        let roots = match ca {
            Some(_) => {
                let mut roots = RootCertStore::empty();
                for certificate in &given {
                    roots.add(certificate.clone()).map_err(|error| format!("`ca`: {error}"))?;
                }
                Arc::new(roots)
            }
            None => system()?,
        };
        let by_authority =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::new(ring::default_provider()))
                .build()
                .map_err(|error| error.to_string())?;
        Ok(Verifier { given, by_authority })
    }
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
        if self.given.iter().any(|given| given == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if all.is_empty() => Err("`ca` has no certificate in PEM".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("`ca`: {error}")),
    }
}

/// Those that this machine trusts, read once.
fn system() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // Some systems have old certificates that cannot be read; the others count.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    match roots.is_empty() {
        true => Err("this machine has no certificate authorities; install them (`ca-certificates`), or give one as `ca`".to_owned()),
        false => Ok(Arc::clone(roots)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_certificates() {
        assert!(Verifier::new(Some("")).unwrap_err().contains("no certificate"));
        let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(Verifier::new(Some(wrong)).unwrap_err().contains("`ca`"));
    }
}
