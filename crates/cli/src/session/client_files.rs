//! Whether kubeconfig and talosconfig on the disk lead to the cluster, and to no other; and whether a lab's or a real
//! cluster's are there, which have the same secrets.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use talmox_engine::access::PROVISIONAL;
use talmox_talos_config::client::{ContextExpiry, kubeconfig, talosconfig};
use talmox_talos_config::secret::SecretText;
use talmox_talos_config::secrets::{Bundle, CertificateAndKey};
use talmox_talos_config::time::UnixTime;
use talmox_yaml::Node;

use crate::choose::ClientPaths;
use crate::command_code::CommandCode;
use crate::disk;
use crate::error::CommandError;

/// Certificates with less than that are made anew: whoever runs `up` each month is never locked out.
const SOON: Duration = Duration::from_hours(30 * 24);

/// The last line of a kubeconfig for a lab. Its server does not always show that: an endpoint that the lab does not
/// serve, such as a name, is written as it is for the real cluster.
const LAB_MARK: &str = "# Written by talmox for a lab: it does not lead to a real cluster.\n";

/// A kubeconfig, marked as one for a lab.
pub(crate) fn marked_for_lab(kubeconfig: &SecretText) -> SecretText {
    SecretText::new(format!("{}{LAB_MARK}", kubeconfig.expose()))
}

/// Whether a kubeconfig is for a lab.
pub(crate) fn is_for_lab(kubeconfig: &SecretText) -> bool {
    kubeconfig.expose().ends_with(LAB_MARK) || ways(kubeconfig).iter().any(Way::is_into_lab)
}

/// Whether a kubeconfig or talosconfig leads to a cluster outside of labs. One that cannot be parsed may.
pub(crate) fn leads_to_real_cluster(text: &SecretText) -> bool {
    if text.expose().ends_with(LAB_MARK) {
        return false;
    }
    let is_parsed = talmox_yaml::read(text.expose()).is_ok();
    !is_parsed || ways(text).iter().any(|way| !way.is_into_lab())
}

/// The names of the contexts of a talosconfig; none if it is not one.
pub(crate) fn contexts(talosconfig: &SecretText) -> Vec<String> {
    let documents = talmox_yaml::read(talosconfig.expose()).unwrap_or_default();
    let root = documents.first().and_then(Node::as_map);
    let contexts = root.and_then(|root| root.get("contexts")).and_then(Node::as_map);
    let entries = contexts.into_iter().flat_map(|contexts| &contexts.entries);
    entries.filter_map(|entry| Some(entry.key.as_str()?.to_owned())).collect()
}

/// Where the Kubernetes API of a cluster is found from here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers<'a> {
    /// By its endpoint.
    pub(super) server: &'a str,
    /// By its control planes.
    pub(super) around: &'a [String],
    pub(super) is_lab: bool,
}

/// What is known of the files of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// They are as they would be written.
    pub(super) is_current: bool,
    /// They are as they would be written while the shared address does not answer.
    pub(super) is_around: bool,
    /// They were written when the cluster was up, however long ago.
    pub(super) was_up: bool,
}

/// Looks at the files.
pub(super) fn standing(
    paths: &ClientPaths,
    bundle: &Bundle,
    servers: Servers<'_>,
    now: UnixTime,
) -> Standing {
    let Servers { server, around, is_lab } = servers;
    let read = |path: &Path| disk::read_secret(path).ok().flatten();
    let (kube, talos) = (read(&paths.kubeconfig), read(&paths.talosconfig));
    let none = Standing { is_current: false, is_around: false, was_up: false };
    let (Some(kube), Some(talos)) = (kube, talos) else { return none };
    let (authority, ways) = (bundle.certs.k8s.crt_base64(), ways(&kube));
    let own: Vec<&Way> = ways.iter().filter(|way| way.authority == authority).collect();
    // After a rehearsal, the real cluster would seem to have been up, and to have lost its etcd.
    let is_known = own
        .iter()
        .any(|way| matches!(&*way.places, [place] if place == server || around.contains(place)));
    let is_marked = kube.expose().ends_with(LAB_MARK);
    if !is_lab && (is_marked || is_for_lab(&kube) && !is_known) {
        return none;
    }
    // One that leads around the shared address is as good as none, unless that is what there should be.
    let is_provisional = kube.expose().starts_with(PROVISIONAL);
    let was_up = !own.is_empty() && !is_provisional;
    let leads_there = own.iter().any(|way| way.places == [server]);
    let leads_around =
        own.iter().any(|way| matches!(&*way.places, [place] if around.contains(place)));
    let kube_lasts = lasts(kubeconfig::expiry(kube.expose()), &bundle.certs.k8s, now);
    let talos_lasts = lasts(talosconfig::expiry(talos.expose()), &bundle.certs.os, now);
    let is_talos =
        self::ways(&talos).iter().any(|way| way.authority == bundle.certs.os.crt_base64());
    let is_good = kube_lasts && is_talos && talos_lasts;
    Standing {
        is_current: !is_provisional && leads_there && is_good,
        is_around: is_provisional && leads_around && is_good,
        was_up,
    }
}

/// Where the cluster was when its client files were written. A cluster that was moved to other addresses, or whose nodes have
/// other names by now, is found there.
pub(super) fn addresses(paths: &ClientPaths, bundle: &Bundle) -> Vec<IpAddr> {
    let own = [bundle.certs.k8s.crt_base64(), bundle.certs.os.crt_base64()];
    let mut all = vec![];
    for path in [&paths.kubeconfig, &paths.talosconfig] {
        let Ok(Some(text)) = disk::read_secret(path) else { continue };
        let ways = ways(&text).into_iter().filter(|way| own.contains(&way.authority));
        all.extend(ways.flat_map(|way| way.places).filter_map(|place| address(&place)));
    }
    all.sort_unstable();
    all.dedup();
    // A lab is left with the program that ran it.
    all.retain(|address| !address.is_loopback());
    all
}

/// The address in `https://ADDRESS:PORT` or `ADDRESS`; none where it is a name.
fn address(place: &str) -> Option<IpAddr> {
    let authority = place.strip_prefix("https://").unwrap_or(place).split('/').next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    authority.parse().ok().or_else(|| host.trim_matches(['[', ']']).parse().ok())
}

/// What leads to another cluster is not replaced. Labs come and go, and the ways into them with them.
pub(crate) fn refuse_others(paths: &ClientPaths, bundle: &Bundle) -> Result<(), CommandError> {
    let own = [bundle.certs.k8s.crt_base64(), bundle.certs.os.crt_base64()];
    for path in [&paths.kubeconfig, &paths.talosconfig] {
        let Some(text) = disk::read_secret(path)? else { continue };
        if ways(&text).iter().any(|way| !own.contains(&way.authority) && !way.is_into_lab()) {
            let message =
                format!("nothing was changed: {} leads to another cluster", path.display());
            return Err(CommandError::failed(CommandCode::ClientFilesConflict, message).hint(
                "move it away, or have the files of this one written elsewhere with --output DIR",
            ));
        }
    }
    Ok(())
}

/// Whether one of the certificates is good for a while, or for as long as its authority.
fn lasts<E>(
    ends: Result<Vec<ContextExpiry>, E>,
    authority: &CertificateAndKey,
    now: UnixTime,
) -> bool {
    let last = authority.authority().map(|authority| authority.certificate.not_after);
    let enough = last.map_or(now.plus(SOON), |last| last.min(now.plus(SOON)));
    let ends = ends.unwrap_or_default();
    ends.iter().filter_map(|context| context.not_after).any(|end| end >= enough)
}

/// A way into a cluster.
struct Way {
    authority: String,
    /// The server of a kubeconfig, or the endpoints of a talosconfig.
    places: Vec<String>,
}

impl Way {
    fn is_into_lab(&self) -> bool {
        let is_loopback = |place: &String| {
            place.strip_prefix("https://").unwrap_or(place.as_str()).starts_with("127.")
        };
        !self.places.is_empty() && self.places.iter().all(is_loopback)
    }
}

/// All ways in that a kubeconfig or a talosconfig tells; none if it is neither.
fn ways(text: &SecretText) -> Vec<Way> {
    let documents = talmox_yaml::read(text.expose()).unwrap_or_default();
    let Some(root) = documents.first().and_then(Node::as_map) else { return vec![] };
    let clusters = root.get("clusters").and_then(Node::as_seq);
    let kube = clusters.into_iter().flat_map(|clusters| &clusters.items).filter_map(|item| {
        let cluster = item.as_map()?.get("cluster")?.as_map()?;
        let authority = cluster.get("certificate-authority-data")?.as_str()?.to_owned();
        let server = cluster.get("server").and_then(Node::as_str);
        Some(Way { authority, places: server.map(str::to_owned).into_iter().collect() })
    });
    let contexts = root.get("contexts").and_then(Node::as_map);
    let talos = contexts.into_iter().flat_map(|contexts| &contexts.entries).filter_map(|entry| {
        let context = entry.value.as_map()?;
        let authority = context.get("ca")?.as_str()?.to_owned();
        let endpoints = context.get("endpoints").and_then(Node::as_seq);
        let endpoints = endpoints.into_iter().flat_map(|endpoints| &endpoints.items);
        let places = endpoints.filter_map(|place| Some(place.as_str()?.to_owned())).collect();
        Some(Way { authority, places })
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

    /// Both files, valid for so long.
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
    fn files_count_as_written_only_if_they_lead_to_the_cluster_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let bundle = secrets::generate().unwrap();
        let now = environment::now();
        let standing = |server: &str| {
            let servers = Servers { server, around: &[], is_lab: false };
            let known = standing(&paths, &bundle, servers, now);
            assert!(!known.is_around);
            (known.is_current, known.was_up)
        };
        assert_eq!(standing(SERVER), (false, false), "there are none");
        write(&paths, &bundle, SERVER, 365 * DAY);
        assert_eq!(standing(SERVER), (true, true));
        assert_eq!(standing("https://10.0.0.30:6443"), (false, true), "the address is another");
        write(&paths, &bundle, SERVER, 20 * DAY);
        assert_eq!(standing(SERVER), (false, true), "they end soon");
        write(&paths, &bundle, SERVER, 365 * DAY);
        let text = disk::read_secret(&paths.kubeconfig).unwrap().unwrap();
        let marked = format!("{PROVISIONAL}{}", text.expose());
        disk::write_private(&paths.kubeconfig, &marked, Before::Anything).unwrap();
        assert_eq!(standing(SERVER), (false, false), "it leads around the shared address");
        let around = |way: &str| {
            let ways = ["https://10.0.0.12:6443".to_owned(), way.to_owned()];
            let server = "https://10.0.0.30:6443";
            let servers = Servers { server, around: &ways, is_lab: false };
            super::standing(&paths, &bundle, servers, now)
        };
        assert!(around(SERVER).is_around && !around(SERVER).is_current);
        assert!(!around("https://10.0.0.13:6443").is_around, "nobody is there any more");
    }

    #[test]
    fn a_rehearsal_says_nothing_about_the_real_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let bundle = secrets::generate().unwrap();
        // The endpoint is a name that the lab does not serve, so that both have the same server.
        let server = "https://k8s.example:6443";
        write(&paths, &bundle, server, 365 * DAY);
        let standing = |is_lab| {
            let servers = Servers { server, around: &[], is_lab };
            let known = standing(&paths, &bundle, servers, environment::now());
            (known.is_current, known.was_up)
        };
        let kubeconfig = || disk::read_secret(&paths.kubeconfig).unwrap().unwrap();
        assert!(!is_for_lab(&kubeconfig()));
        assert_eq!(standing(false), (true, true));
        let marked = marked_for_lab(&kubeconfig());
        disk::write_private(&paths.kubeconfig, marked.expose(), Before::Anything).unwrap();
        assert!(is_for_lab(&kubeconfig()));
        assert_eq!(standing(true), (true, true));
        assert_eq!(standing(false), (false, false));
        // Without the mark, the loopback address tells, unless `reach:` leads there.
        let tunnel = "https://127.0.0.1:16443";
        write(&paths, &bundle, tunnel, 365 * DAY);
        assert!(is_for_lab(&kubeconfig()));
        assert_eq!(standing(false), (false, false));
        let servers = Servers { server: tunnel, around: &[], is_lab: false };
        let known = super::standing(&paths, &bundle, servers, environment::now());
        assert!(known.is_current && known.was_up);
    }

    #[test]
    fn what_leads_to_another_cluster_is_neither_taken_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ClientPaths::within(folder.path());
        let [own, other] = [0; 2].map(|_| secrets::generate().unwrap());
        refuse_others(&paths, &own).unwrap();
        write(&paths, &own, SERVER, 365 * DAY);
        refuse_others(&paths, &own).unwrap();
        write(&paths, &other, SERVER, 365 * DAY);
        let servers = Servers { server: SERVER, around: &[], is_lab: false };
        let known = standing(&paths, &own, servers, environment::now());
        assert_eq!(known, Standing { is_current: false, is_around: false, was_up: false });
        let error = refuse_others(&paths, &own).unwrap_err().chain();
        assert!(error.contains("kubeconfig leads to another cluster"), "{error}");
        std::fs::remove_file(&paths.kubeconfig).unwrap();
        let error = refuse_others(&paths, &own).unwrap_err().chain();
        assert!(error.contains("talosconfig leads to another cluster"), "{error}");
        // What led into a lab that is gone is in nobody's way.
        std::fs::remove_file(&paths.talosconfig).unwrap();
        let text = "clusters: [{cluster: {server: 'https://127.0.0.1:4', \
                    certificate-authority-data: eA==}}]\n";
        disk::write_private(&paths.kubeconfig, text, Before::Anything).unwrap();
        refuse_others(&paths, &own).unwrap();
    }
}
