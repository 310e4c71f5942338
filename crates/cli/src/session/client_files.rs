//! State of existing client files: whether they are for this cluster, for another cluster, or for a lab with the same
//! secrets.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use talmox_engine::access::PROVISIONAL;
use talmox_talos_api::parse_node_address;
use talmox_talos_config::client::{ContextExpiry, kubeconfig, talosconfig};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, CertificateAndKey};
use talmox_talos_config::time::UnixTime;
use talmox_values::HttpUrl;
use talmox_yaml::Node;

use crate::choose::ClientPaths;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;

/// Remaining validity below which `up` renews the client certificates. A monthly `up` keeps the certificates valid.
const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);

/// Last line of a kubeconfig for a lab. The server address alone does not always show that a kubeconfig is for a lab. If
/// the lab does not serve the endpoint, such as a DNS name, the kubeconfig has the endpoint of the real cluster.
const LAB_MARK: &str = "# Written by talmox for a lab: it does not lead to a real cluster.\n";

/// Adds [`LAB_MARK`] to a kubeconfig.
pub(crate) fn marked_for_lab(kubeconfig: &SecretText) -> SecretText {
    SecretText::new(format!("{}{LAB_MARK}", kubeconfig.expose()))
}

/// Whether a kubeconfig is for a lab.
pub(crate) fn is_for_lab(kubeconfig: &SecretText) -> bool {
    kubeconfig.expose().ends_with(LAB_MARK)
        || entries_in(kubeconfig).iter().any(ClusterEntry::is_for_lab)
}

/// Whether a kubeconfig or talosconfig is for a real cluster. A file that cannot be parsed also counts.
pub(crate) fn is_for_real_cluster(text: &SecretText) -> bool {
    if text.expose().ends_with(LAB_MARK) {
        return false;
    }
    let is_parsed = talmox_yaml::read(text.expose()).is_ok();
    !is_parsed || entries_in(text).iter().any(|entry| !entry.is_for_lab())
}

/// Context names of a talosconfig. Empty if the file is not a talosconfig.
pub(crate) fn contexts(talosconfig: &SecretText) -> Vec<String> {
    let documents = talmox_yaml::read(talosconfig.expose()).unwrap_or_default();
    let root = documents.first().and_then(Node::as_map);
    let contexts = root.and_then(|root| root.get("contexts")).and_then(Node::as_map);
    let entries = contexts.into_iter().flat_map(|contexts| &contexts.entries);
    entries.filter_map(|entry| Some(entry.key.as_str()?.to_owned())).collect()
}

/// URLs of the Kubernetes API of a cluster, after the reach map is applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers<'a> {
    /// URL of the endpoint.
    pub(super) server: &'a str,
    /// URLs of the control planes.
    pub(super) control_planes: &'a [String],
    pub(super) is_lab: bool,
}

/// State of the client files of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientFileState {
    /// Whether the files are up to date.
    pub(super) is_current: bool,
    /// Whether the files are up to date for a cluster whose shared address (VIP) does not answer. Then the files use a
    /// control plane instead.
    pub(super) is_provisional_current: bool,
    /// Whether the files were written after the cluster was up.
    pub(super) was_up: bool,
}

/// Reads the client files and determines their state.
pub(super) fn client_file_state(
    paths: &ClientPaths,
    bundle: &Bundle,
    servers: Servers<'_>,
    now: UnixTime,
) -> ClientFileState {
    let Servers { server, control_planes, is_lab } = servers;
    let read = |path: &Path| disk::read_secret(path).ok().flatten();
    let (kube, talos) = (read(&paths.kubeconfig), read(&paths.talosconfig));
    let none = ClientFileState { is_current: false, is_provisional_current: false, was_up: false };
    let (Some(kube), Some(talos)) = (kube, talos) else { return none };
    let (authority, entries) = (bundle.certs.k8s.crt_base64(), entries_in(&kube));
    let own: Vec<&ClusterEntry> =
        entries.iter().filter(|entry| entry.authority == authority).collect();
    // Client files of a lab are ignored for a real cluster. Otherwise the real cluster would look as if it had been up
    // and had lost its etcd data.
    let is_known = own
        .iter()
        .any(|entry| matches!(&*entry.places, [place] if place == server || control_planes.contains(place)));
    let is_marked = kube.expose().ends_with(LAB_MARK);
    if !is_lab && (is_marked || is_for_lab(&kube) && !is_known) {
        return none;
    }
    // A provisional kubeconfig uses a control plane instead of the shared address. It is up to date only while the shared
    // address does not answer.
    let is_provisional = kube.expose().starts_with(PROVISIONAL);
    let was_up = !own.is_empty() && !is_provisional;
    let uses_endpoint = own.iter().any(|entry| entry.places == [server]);
    let uses_control_plane =
        own.iter().any(|entry| matches!(&*entry.places, [place] if control_planes.contains(place)));
    let kube_lasts = lasts(kubeconfig::expiry(kube.expose()), &bundle.certs.k8s, now);
    let talos_lasts = lasts(talosconfig::expiry(talos.expose()), &bundle.certs.os, now);
    let is_talos = self::entries_in(&talos)
        .iter()
        .any(|entry| entry.authority == bundle.certs.os.crt_base64());
    let is_good = kube_lasts && is_talos && talos_lasts;
    ClientFileState {
        is_current: !is_provisional && uses_endpoint && is_good,
        is_provisional_current: is_provisional && uses_control_plane && is_good,
        was_up,
    }
}

/// Addresses of the cluster in its client files. They are used to find a cluster whose addresses or node names changed in
/// the inventory.
pub(super) fn addresses(paths: &ClientPaths, bundle: &Bundle) -> Vec<IpAddr> {
    let own = [bundle.certs.k8s.crt_base64(), bundle.certs.os.crt_base64()];
    let mut all = vec![];
    for path in [&paths.kubeconfig, &paths.talosconfig] {
        let Ok(Some(text)) = disk::read_secret(path) else { continue };
        let entries = entries_in(&text).into_iter().filter(|entry| own.contains(&entry.authority));
        all.extend(entries.flat_map(|entry| entry.places).filter_map(|place| address(&place)));
    }
    all.sort_unstable();
    all.dedup();
    // Loopback addresses belong to a lab, and are not valid after the lab has stopped.
    all.retain(|address| !address.is_loopback());
    all
}

/// The IP address in a URL or in an endpoint such as `ADDRESS` or `ADDRESS:PORT`. `None` for a DNS name.
fn address(place: &str) -> Option<IpAddr> {
    match HttpUrl::parse(place) {
        Ok(url) => url.ip(),
        // The endpoints in a talosconfig have no scheme, and most of them have no port.
        Err(_) => parse_node_address(place).host.parse().ok(),
    }
}

/// Returns an error if a client file is for another real cluster, because it must not be overwritten. Files for labs may
/// be replaced.
pub(crate) fn refuse_others(paths: &ClientPaths, bundle: &Bundle) -> Result<(), CommandError> {
    let own = [bundle.certs.k8s.crt_base64(), bundle.certs.os.crt_base64()];
    for path in [&paths.kubeconfig, &paths.talosconfig] {
        let Some(text) = disk::read_secret(path)? else { continue };
        if entries_in(&text)
            .iter()
            .any(|entry| !own.contains(&entry.authority) && !entry.is_for_lab())
        {
            let message = format!("nothing was changed: {} is for another cluster", path.display());
            return Err(CommandError::failed(CommandCode::ClientFilesConflict, message).hint(
                "move it away, or write the files of this cluster to another folder with --output DIR",
            ));
        }
    }
    Ok(())
}

/// Whether one of the certificates is valid for at least [`RENEW_BEFORE`], or as long as its certificate authority.
fn lasts<E>(
    ends: Result<Vec<ContextExpiry>, E>,
    authority: &CertificateAndKey,
    now: UnixTime,
) -> bool {
    let last = authority.authority().map(|authority| authority.certificate.not_after);
    let enough = last.map_or(now.plus(RENEW_BEFORE), |last| last.min(now.plus(RENEW_BEFORE)));
    let ends = ends.unwrap_or_default();
    ends.iter().filter_map(|context| context.not_after).any(|end| end >= enough)
}

/// Cluster entry of a kubeconfig or talosconfig.
struct ClusterEntry {
    authority: String,
    /// Server of a kubeconfig, or endpoints of a talosconfig.
    places: Vec<String>,
}

impl ClusterEntry {
    fn is_for_lab(&self) -> bool {
        let is_loopback =
            |place: &String| address(place).is_some_and(|address| address.is_loopback());
        !self.places.is_empty() && self.places.iter().all(is_loopback)
    }
}

/// Cluster entries of a kubeconfig or talosconfig. Empty for other files.
fn entries_in(text: &SecretText) -> Vec<ClusterEntry> {
    let documents = talmox_yaml::read(text.expose()).unwrap_or_default();
    let Some(root) = documents.first().and_then(Node::as_map) else { return vec![] };
    let clusters = root.get("clusters").and_then(Node::as_seq);
    let kube = clusters.into_iter().flat_map(|clusters| &clusters.items).filter_map(|item| {
        let cluster = item.as_map()?.get("cluster")?.as_map()?;
        let authority = cluster.get("certificate-authority-data")?.as_str()?.to_owned();
        let server = cluster.get("server").and_then(Node::as_str);
        Some(ClusterEntry { authority, places: server.map(str::to_owned).into_iter().collect() })
    });
    let contexts = root.get("contexts").and_then(Node::as_map);
    let talos = contexts.into_iter().flat_map(|contexts| &contexts.entries).filter_map(|entry| {
        let context = entry.value.as_map()?;
        let authority = context.get("ca")?.as_str()?.to_owned();
        let endpoints = context.get("endpoints").and_then(Node::as_seq);
        let endpoints = endpoints.into_iter().flat_map(|endpoints| &endpoints.items);
        let places = endpoints.filter_map(|place| Some(place.as_str()?.to_owned())).collect();
        Some(ClusterEntry { authority, places })
    });
    kube.chain(talos).collect()
}

#[cfg(test)]
mod tests {
    use talmox_talos_config::client::ClientRole;

    use super::*;
    use crate::disk::Before;
    use crate::environment::{self, Kernel};
    use crate::secrets;

    const DAY: Duration = Duration::from_hours(24);
    const SERVER: &str = "https://10.0.0.20:6443";

    /// Writes both client files, with certificates that are valid for `ttl`.
    fn write(paths: &ClientPaths, bundle: &Bundle, server: &str, ttl: Duration) {
        let now = environment::now();
        let request = kubeconfig::KubeconfigRequest {
            cluster: "dev",
            server,
            tls_server_name: None,
            groups: &["system:masters".to_owned()],
            ttl,
        };
        let kube = kubeconfig::generate(bundle, &request, now, &mut Kernel).unwrap();
        let request = talosconfig::TalosconfigRequest {
            context: "dev",
            endpoints: &["10.0.0.11".to_owned()],
            nodes: &[],
            roles: &[ClientRole::Admin],
            ttl,
        };
        let talos = talosconfig::generate(bundle, &request, now, &mut Kernel).unwrap();
        disk::write_private(&paths.kubeconfig, kube.expose(), Before::Anything).unwrap();
        disk::write_private(&paths.talosconfig, talos.expose(), Before::Anything).unwrap();
    }

    #[test]
    fn files_are_current_only_if_they_are_for_the_cluster_and_valid_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let bundle = secrets::generate().unwrap();
        let now = environment::now();
        let state_of = |server: &str| {
            let servers = Servers { server, control_planes: &[], is_lab: false };
            let known = client_file_state(&paths, &bundle, servers, now);
            assert!(!known.is_provisional_current);
            (known.is_current, known.was_up)
        };
        assert_eq!(state_of(SERVER), (false, false), "no files");
        write(&paths, &bundle, SERVER, 365 * DAY);
        assert_eq!(state_of(SERVER), (true, true));
        assert_eq!(state_of("https://10.0.0.30:6443"), (false, true), "another address");
        write(&paths, &bundle, SERVER, 20 * DAY);
        assert_eq!(state_of(SERVER), (false, true), "they expire soon");
        write(&paths, &bundle, SERVER, 365 * DAY);
        let text = disk::read_secret(&paths.kubeconfig).unwrap().unwrap();
        let marked = format!("{PROVISIONAL}{}", text.expose());
        disk::write_private(&paths.kubeconfig, &marked, Before::Anything).unwrap();
        assert_eq!(state_of(SERVER), (false, false), "it uses a control plane");
        let with_control_plane = |url: &str| {
            let urls = ["https://10.0.0.12:6443".to_owned(), url.to_owned()];
            let server = "https://10.0.0.30:6443";
            let servers = Servers { server, control_planes: &urls, is_lab: false };
            super::client_file_state(&paths, &bundle, servers, now)
        };
        let state = with_control_plane(SERVER);
        assert!(state.is_provisional_current && !state.is_current);
        assert!(
            !with_control_plane("https://10.0.0.13:6443").is_provisional_current,
            "not a control plane any more"
        );
    }

    #[test]
    fn files_of_a_lab_do_not_count_for_the_real_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let bundle = secrets::generate().unwrap();
        // The endpoint is a DNS name that the lab does not serve, so the kubeconfigs of the lab and of the real cluster
        // have the same server.
        let server = "https://k8s.example:6443";
        write(&paths, &bundle, server, 365 * DAY);
        let state_of = |is_lab| {
            let servers = Servers { server, control_planes: &[], is_lab };
            let known = client_file_state(&paths, &bundle, servers, environment::now());
            (known.is_current, known.was_up)
        };
        let kubeconfig = || disk::read_secret(&paths.kubeconfig).unwrap().unwrap();
        assert!(!is_for_lab(&kubeconfig()));
        assert_eq!(state_of(false), (true, true));
        let marked = marked_for_lab(&kubeconfig());
        disk::write_private(&paths.kubeconfig, marked.expose(), Before::Anything).unwrap();
        assert!(is_for_lab(&kubeconfig()));
        assert_eq!(state_of(true), (true, true));
        assert_eq!(state_of(false), (false, false));
        // In a file without the mark, a loopback address shows a lab, unless `reach:` maps the endpoint to this address.
        let tunnel = "https://127.0.0.1:16443";
        write(&paths, &bundle, tunnel, 365 * DAY);
        assert!(is_for_lab(&kubeconfig()));
        assert_eq!(state_of(false), (false, false));
        let servers = Servers { server: tunnel, control_planes: &[], is_lab: false };
        let known = super::client_file_state(&paths, &bundle, servers, environment::now());
        assert!(known.is_current && known.was_up);
    }

    #[test]
    fn files_of_another_cluster_are_neither_used_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let [own, other] = [0; 2].map(|_| secrets::generate().unwrap());
        refuse_others(&paths, &own).unwrap();
        write(&paths, &own, SERVER, 365 * DAY);
        refuse_others(&paths, &own).unwrap();
        write(&paths, &other, SERVER, 365 * DAY);
        let servers = Servers { server: SERVER, control_planes: &[], is_lab: false };
        let known = client_file_state(&paths, &own, servers, environment::now());
        assert_eq!(
            known,
            ClientFileState { is_current: false, is_provisional_current: false, was_up: false }
        );
        let error = refuse_others(&paths, &own).unwrap_err().chain();
        assert!(error.contains("kubeconfig is for another cluster"), "{error}");
        std::fs::remove_file(&paths.kubeconfig).unwrap();
        let error = refuse_others(&paths, &own).unwrap_err().chain();
        assert!(error.contains("talosconfig is for another cluster"), "{error}");
        // Files of a lab that has stopped may be replaced.
        std::fs::remove_file(&paths.talosconfig).unwrap();
        let text = "clusters: [{cluster: {server: 'https://127.0.0.1:4', \
                    certificate-authority-data: eA==}}]\n";
        disk::write_private(&paths.kubeconfig, text, Before::Anything).unwrap();
        refuse_others(&paths, &own).unwrap();
    }
}
