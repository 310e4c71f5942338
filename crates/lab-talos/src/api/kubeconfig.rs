//! `MachineService.Kubeconfig`: the kubeconfig of the administrator, in a tar archive.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use talmox_talos_api::proto::common::Data;
use talmox_talos_api::server::Status;
use talmox_talos_config::pki::{Authority, LeafRequest, Name, Usage};
use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::time::UnixTime;
use talmox_yaml::build::{list, map, text};
use tonic::codegen::BoxStream;

use super::machine::only_on_control_planes;
use super::{Session, stream};
use crate::config::Facts;

const YEAR: Duration = Duration::from_hours(8760);

pub(super) fn kubeconfig(session: &Session) -> Result<BoxStream<Data>, Status> {
    only_on_control_planes(session, "kubeconfig")?;
    let config = session.node(|node| node.config.clone())?;
    let unset = || Status::failed_precondition("k8s API server CA config is not set");
    let config = config.ok_or_else(unset)?;
    let now = i64::try_from(session.simulation.now().as_secs()).unwrap_or(i64::MAX);
    let text = write(&config.facts, UnixTime::from_seconds(now)).ok_or_else(unset)?;
    let archive = archive("kubeconfig", text.as_bytes(), now);
    Ok(stream::bytes(&archive.map_err(|error| Status::unknown(error.to_string()))?))
}

fn write(facts: &Facts, now: UnixTime) -> Option<String> {
    let authority = Authority::from_pem(&facts.kube_ca, facts.kube_ca_key.as_deref()?).ok()?;
    let lifetime = facts.admin_lifetime.as_deref().and_then(duration).unwrap_or(YEAR);
    let leaf = LeafRequest {
        subject: Name {
            organizations: vec!["system:masters".to_owned()],
            common_name: Some("admin".to_owned()),
        },
        alt_names: vec![],
        usage: Usage::Client,
        key_encipherment: true,
        not_before: now.minus(Duration::from_mins(5)),
        lifetime,
    };
    let (certificate, key) = authority.issue(&leaf, &mut SystemRandomness::new()).ok()?;
    let (host, port) = facts.endpoint.clone()?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let cluster = facts.cluster_name.as_str();
    let user = format!("admin@{cluster}");
    let named = |kind: &str, name: &str, value| {
        list([map([("name", Some(text(name))), (kind, Some(value))])])
    };
    let encoded = |pem: &str| Some(text(STANDARD.encode(pem)));
    let root = map([
        ("apiVersion", Some(text("v1"))),
        ("kind", Some(text("Config"))),
        (
            "clusters",
            Some(named(
                "cluster",
                cluster,
                map([
                    ("server", Some(text(format!("https://{host}:{port}")))),
                    ("certificate-authority-data", encoded(&facts.kube_ca)),
                ]),
            )),
        ),
        (
            "users",
            Some(named(
                "user",
                &user,
                map([
                    ("client-certificate-data", encoded(&certificate.to_pem())),
                    ("client-key-data", encoded(key.to_pem().expose())),
                ]),
            )),
        ),
        (
            "contexts",
            Some(named(
                "context",
                &user,
                map([
                    ("cluster", Some(text(cluster))),
                    ("namespace", Some(text("default"))),
                    ("user", Some(text(&user))),
                ]),
            )),
        ),
        ("current-context", Some(text(&user))),
    ]);
    Some(talmox_yaml::emit(&root, 2))
}

/// Parses a duration in Go's notation, such as `8760h0m0s`.
fn duration(written: &str) -> Option<Duration> {
    let mut seconds = 0;
    let mut number = String::new();
    for letter in written.chars() {
        let unit = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds += std::mem::take(&mut number).parse::<u64>().ok()? * unit;
    }
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Gzipped tar archive with one file.
pub(super) fn archive(name: &str, content: &[u8], time: i64) -> std::io::Result<Vec<u8>> {
    let mut header = [0_u8; 512];
    let mut field = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    field(0, name);
    field(100, "0000600\0");
    field(108, "0000000\0");
    field(116, "0000000\0");
    field(124, &format!("{:011o}\0", content.len()));
    field(136, &format!("{:011o}\0", time.max(0)));
    field(148, "        ");
    field(156, "0");
    field(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = GzEncoder::new(vec![], Compression::default());
    archive.write_all(&header)?;
    archive.write_all(content)?;
    let rest = content.len().next_multiple_of(512) - content.len();
    archive.write_all(&vec![0; rest + 1024])?;
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_in_go_notation() {
        assert_eq!(duration("8760h0m0s"), Some(YEAR));
        assert_eq!(duration("90m"), Some(Duration::from_mins(90)));
        assert_eq!(duration("soon"), None);
        assert_eq!(duration("0s"), None);
    }
}
