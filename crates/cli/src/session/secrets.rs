//! Secrets bundle of a session.

use talmox_talos_config::pki::Certificate;
use talmox_talos_config::secrets::Bundle;

use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::environment;
use crate::error::CommandError;
use crate::secrets::SecretsFile;

/// Reads the bundle of a cluster. `None` if the cluster has no bundle.
pub(crate) fn known(chosen: &Chosen) -> Result<Option<Bundle>, CommandError> {
    let file = SecretsFile::open(chosen)?;
    Ok(file.as_ref().map(SecretsFile::bundle).transpose()?.flatten())
}

/// Returns an error if a certificate authority of the bundle has expired.
pub(super) fn check(bundle: &Bundle) -> Result<(), CommandError> {
    let certs = &bundle.certs;
    let all = [("Talos", &certs.os), ("Kubernetes", &certs.k8s), ("etcd", &certs.etcd)];
    let now = environment::now();
    for (name, pair) in all {
        let Ok(authority) = Certificate::from_pem(&pair.crt) else { continue };
        if authority.not_after <= now {
            let message = format!(
                "the certificate authority of {name} in the secrets expired at {}",
                authority.not_after
            );
            return Err(CommandError::failed(CommandCode::AuthorityExpired, message).hint(
                "check the clock of this machine. If it is correct, the nodes reject every certificate: give them a new \
                 authority as the Talos documentation on CA rotation describes, then add it to the secrets",
            ));
        }
    }
    Ok(())
}
