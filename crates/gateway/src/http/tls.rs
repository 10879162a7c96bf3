//! TLS with a certificate and a key from files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those that lead to the root.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    #[error("the certificate {} and the key {} cannot be used: {problem}", certificate.display(), key.display())]
    Unusable { certificate: PathBuf, key: PathBuf, problem: String },
}

/// The certificates as they are in the file; for those who are to know this server by them.
pub(crate) fn chain_text(files: &TlsFiles) -> Result<String, TlsError> {
    let path = &files.certificate;
    let text = fs::read_to_string(path)
        .map_err(|error| TlsError::File { path: path.clone(), problem: error.to_string() })?;
    Ok(certificates_of(&text))
}

/// Without anything else: a file may have its key beside its certificate.
fn certificates_of(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut found = String::new();
    for part in text.split(BEGIN).skip(1) {
        if let Some((inside, _)) = part.split_once(END) {
            found.push_str(&format!("{BEGIN}{inside}{END}\n"));
        }
    }
    found
}

pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let TlsFiles { certificate, key } = files;
    let bad = |path: &Path, problem: String| TlsError::File { path: path.to_owned(), problem };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(bad(certificate, "there is no certificate in it".to_owned()));
    }
    let mode = fs::metadata(key).map_err(|error| bad(key, error.to_string()))?.mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(bad(key, format!("everybody can read it (mode {mode:04o}); `chmod 600` closes it")));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
    let unusable = |error: tokio_rustls::rustls::Error| TlsError::Unusable {
        certificate: certificate.clone(),
        key: key.clone(),
        problem: error.to_string(),
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_same_file_is_not_told() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n";
        assert_eq!(
            certificates_of(&format!("{key}{certificate}note\n{certificate}{key}")),
            certificate.repeat(2)
        );
    }
}
