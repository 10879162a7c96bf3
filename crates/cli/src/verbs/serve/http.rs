//! What the gateway needs to serve HTTP, or why it is not served.

use trl_gateway::{HttpConfig, HttpError, Patience, Tokens, UnauthenticatedLimits};

use crate::config::HttpSettings;
use crate::failure::{Failure, Result};

pub(super) const HOW_TO_SET_A_TOKEN: &str = "set TRL_AUTH_TOKEN to a secret: \
     `export TRL_AUTH_TOKEN=$(head -c 24 /dev/urandom | base64)`; or name a file of tokens with --tokens";

pub(super) fn config(settings: &HttpSettings) -> Result<HttpConfig> {
    let HttpSettings { address, by_flag: _, token, tokens_file, hosts, origins, tls } = settings;
    let token = token.as_ref().map(|secret| secret.0.as_str());
    let tokens =
        Tokens::load(token, tokens_file.as_deref()).map_err(|error| Failure::config(error.to_string()))?;
    if tokens.is_empty() {
        return Err(Failure::config(HttpError::NoToken.to_string()).hint(HOW_TO_SET_A_TOKEN));
    }
    Ok(HttpConfig {
        address: address.clone(),
        tokens,
        hosts: hosts.clone(),
        origins: origins.clone(),
        tls: tls.clone(),
        patience: Patience::default(),
        unauthenticated: UnauthenticatedLimits::default(),
    })
}
