//! `GenerateClientConfiguration`: client certificates signed by the node's Talos CA.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_talos_api::proto::machine::{
    GenerateClientConfiguration, GenerateClientConfigurationRequest,
};
use talmox_talos_api::server::Status;
use talmox_talos_config::pki::{Authority, LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use talmox_yaml::build::{list, map, text};

use super::Session;
use super::machine::only_on_control_planes;

pub(super) fn generate(
    session: &Session,
    request: &GenerateClientConfigurationRequest,
) -> Result<GenerateClientConfiguration, Status> {
    only_on_control_planes(session, "generate client configuration")?;
    let ttl = request.crt_ttl.as_ref().and_then(|ttl| Duration::try_from(*ttl).ok());
    let Some(ttl) = ttl.filter(|ttl| !ttl.is_zero()) else {
        return Err(Status::invalid_argument("crt_ttl should be positive"));
    };
    let config = session.node(|node| node.config.clone())?;
    let config = config.ok_or_else(|| Status::unknown("the node has no config"))?;
    let facts = &config.facts;
    let failed = || Status::unknown("error creating secrets bundle from config");
    let authority = Authority::from_pem(&facts.ca, facts.ca_key.as_deref().unwrap_or_default());
    let authority = authority.map_err(|_| failed())?;
    // Talos ignores unknown roles without an error.
    let roles: BTreeSet<&str> = request.roles.iter().map(String::as_str).collect();
    let roles: Vec<&str> = roles.into_iter().filter(|role| role.starts_with("os:")).collect();
    let now = i64::try_from(session.simulation.now().as_secs()).unwrap_or(i64::MAX);
    let leaf = LeafRequest {
        subject: Name {
            organizations: roles.iter().map(|role| (*role).to_owned()).collect(),
            common_name: None,
        },
        alt_names: vec![],
        usage: Usage::Client,
        key_encipherment: false,
        not_before: UnixTime::from_seconds(now),
        lifetime: ttl,
    };
    let issued = authority.issue(&leaf, &mut SystemRandomness::new());
    let (certificate, key) = issued.map_err(|_| failed())?;
    let (crt, key) = (certificate.to_pem(), key.to_pem());
    let context = match roles.as_slice() {
        [only] => format!("{}@{}", only.trim_start_matches("os:"), facts.cluster_name),
        _ => facts.cluster_name.clone(),
    };
    let encoded = |pem: &str| Some(text(STANDARD.encode(pem)));
    let fields = map([
        ("endpoints", Some(list([]))),
        ("ca", encoded(&facts.ca)),
        ("crt", encoded(&crt)),
        ("key", encoded(key.expose())),
    ]);
    let contexts = map([(context.as_str(), Some(fields))]);
    let root = map([("context", Some(text(&context))), ("contexts", Some(contexts))]);
    Ok(GenerateClientConfiguration {
        metadata: None,
        ca: facts.ca.clone().into_bytes(),
        crt: crt.into_bytes(),
        key: key.expose().as_bytes().to_vec(),
        talosconfig: talmox_yaml::emit(&root, 4).into_bytes(),
    })
}
