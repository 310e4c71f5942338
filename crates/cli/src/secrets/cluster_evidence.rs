//! Evidence that a cluster exists although its secrets bundle is missing.
//!
//! A second bundle cannot access the existing cluster, and `up` would create a second cluster with it. So a bundle is
//! generated only if every source of evidence was read, and no source shows that the cluster exists. If a source does not
//! answer, no bundle is generated.

use std::path::{Path, PathBuf};
use std::{fs, io};

use talmox_clock::Clock;
use talmox_engine::event::RunEnd;
use talmox_engine::run_log;
use talmox_model::Cluster;
use talmox_plan::desired::TAG;
use talmox_plan::ownership::{ClusterMark, Marker};
use talmox_pve::api::access;
use talmox_pve::api::cluster::{self, Guest};
use talmox_pve::api::qemu::{self, Vm};
use talmox_pve::config::VmConfig;
use talmox_pve::id::VmId;
use talmox_pve::{Client, PveError};
use talmox_talos_config::secrets::Bundle;
use tokio::task::JoinSet;

use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::rendered_folder::{DEFAULT_FOLDER, RenderedFolder};
use crate::secrets::lock::FILE as LOCK_FILE;
use crate::session::{client_files, proxmox};
use crate::{disk, runtime};

/// Reason why no bundle is generated.
#[derive(Debug)]
enum Evidence {
    /// A VM or file of the cluster exists.
    Exists(CommandError),
    /// It is unknown whether a VM of the cluster exists.
    Unknown(CommandError),
}

impl Evidence {
    fn into_error(self) -> CommandError {
        match self {
            Self::Exists(error) | Self::Unknown(error) => error,
        }
    }
}

/// Returns an error if the cluster exists, or if it is unknown whether the cluster exists. For commands that need Proxmox
/// in any case.
pub(crate) async fn refuse(chosen: &Chosen, client: &Client) -> Result<(), CommandError> {
    refuse_files(chosen)?;
    look_at_vms(chosen, client).await.map_err(Evidence::into_error)
}

/// Returns an error if the cluster exists. For commands that only read: they report a missing answer of Proxmox themselves.
pub(crate) async fn refuse_existing(chosen: &Chosen, client: &Client) -> Result<(), CommandError> {
    refuse_files(chosen)?;
    match look_at_vms(chosen, client).await {
        Err(Evidence::Exists(error)) => Err(error),
        Ok(()) | Err(Evidence::Unknown(_)) => Ok(()),
    }
}

/// Returns an error if the cluster exists, for a command that does not need Proxmox. Proxmox is queried if credentials
/// are available. If Proxmox does not answer, `--new-cluster` (`is_new`) is required. Without credentials,
/// `--new-cluster` is required only if the inventory was used before.
pub(crate) fn refuse_offline(
    chosen: &Chosen,
    is_new: bool,
    printer: &Printer,
) -> Result<(), CommandError> {
    refuse_files(chosen)?;
    if chosen.cluster().file.proxmox.endpoint.get().is_none() {
        return Ok(());
    }
    let why = match proxmox::client(chosen, None, Clock::real(), printer) {
        Ok((client, _)) => {
            let looked = runtime::run(async { Ok(look_at_vms(chosen, &client).await) })?;
            match looked {
                Ok(()) => return Ok(()),
                Err(Evidence::Exists(error)) => return Err(error),
                Err(Evidence::Unknown(error)) if is_new => error.chain(),
                Err(Evidence::Unknown(error)) => return Err(not_asked(chosen, &error)),
            }
        }
        Err(error) if is_new || !was_used(chosen) => error.chain(),
        Err(error) => return Err(not_asked(chosen, &error)),
    };
    printer.warn(&format!(
        "Proxmox was not checked for an existing cluster {}: {why}",
        chosen.cluster().name
    ));
    Ok(())
}

/// Returns an error if Proxmox has VMs of a cluster with the same name and another bundle, and no run has used this
/// bundle yet. This happens if a clone of the inventory lacks the secrets file, and `render` generated a bundle there
/// without access to Proxmox.
pub(crate) async fn refuse_second(
    chosen: &Chosen,
    client: &Client,
    bundle: &Bundle,
) -> Result<(), CommandError> {
    if was_used_by_up(chosen) {
        return Ok(());
    }
    let wanted = SearchedCluster { chosen, cluster: chosen.cluster() };
    // If Proxmox does not answer, the observation that follows reports the error.
    let Ok(all) = client.send(&cluster::resources()).await else { return Ok(()) };
    let own = ClusterMark::of(&bundle.cluster.id);
    let mut guests = all.guests;
    guests.retain(|guest| guest.is_vm && !guest.template);
    let name = wanted.cluster.name.as_str();
    let (mut unread, mut is_used) = (None, false);
    for (guest, config) in read_configs(client, guests).await {
        let config = match config {
            Ok(config) => config,
            Err(error) => {
                unread.get_or_insert((guest, error));
                continue;
            }
        };
        let tags = config.tags();
        let is_named = tags.contains(TAG) && tags.contains(name)
            || Marker::named_cluster(config.description()) == Some(name);
        let lines = config.description().lines();
        let (own_markers, others): (Vec<Marker>, Vec<Marker>) = lines
            .filter_map(|line| line.parse::<Marker>().ok())
            .partition(|marker| marker.cluster == own);
        is_used |= !own_markers.is_empty();
        let other = others.into_iter().next();
        if let Some(marker) = other.filter(|_| is_named) {
            let message = format!(
                "VM {} on {} is the node {} of a cluster {name} with other secrets than {}",
                guest.vmid,
                guest.node,
                marker.node,
                chosen.secrets_path().display()
            );
            return Err(CommandError::failed(CommandCode::SecretsUnmade, message).hint(
                "if it is this cluster, restore its secrets file from a backup or from git; if it is another one, give this cluster \
                 another `cluster_name:`",
            ));
        }
    }
    // A VM with the marker of this bundle shows that the bundle is in use. Then the plan reports VMs that cannot be read.
    let Some((guest, error)) = unread.filter(|_| !is_used) else { return Ok(()) };
    let message = format!(
        "VM {} on {} cannot be read, and may be of a cluster {name} with other secrets than {}, which no run has used yet",
        guest.vmid,
        guest.node,
        chosen.secrets_path().display()
    );
    let failed = CommandError::failed(CommandCode::SecretsUnmade, message).because(error);
    Err(failed.hint(unread_hint(&guest)))
}

/// Whether the last completed `up` or `destroy` of this cluster on Proxmox was an `up`. Then the VMs of the cluster have
/// this bundle. Runs in a lab are ignored.
fn was_used_by_up(chosen: &Chosen) -> bool {
    let Ok(runs) = run_log::list(&chosen.run_folder().join("runs")) else { return false };
    let name = chosen.cluster().name.as_str();
    let mut ended = runs.iter().filter(|run| {
        let header = &run.header;
        let is_known = matches!(header.command.as_str(), "up" | "destroy");
        is_known && !header.is_lab && header.cluster == name && run.end == Some(RunEnd::Done)
    });
    ended.next().is_some_and(|run| run.header.command == "up")
}

fn unread_hint(guest: &Guest) -> String {
    format!(
        "bring {} up, then run the same command; or use a token that sees only the VMs of this cluster (`talmox init --role`)",
        guest.node
    )
}

fn not_asked(chosen: &Chosen, error: &CommandError) -> CommandError {
    let name = &chosen.cluster().name;
    let message = format!(
        "no secrets were generated: talmox cannot tell whether {name} exists: {}",
        error.chain()
    );
    let hint = match &error.hint {
        Some(hint) => format!("{hint}\n"),
        None => String::new(),
    };
    CommandError::failed(CommandCode::SecretsUnmade, message).hint(format!(
        "{hint}only if {name} has never been created: run the same command with --new-cluster"
    ))
}

/// Whether talmox was used with this inventory before: the run folder has files of a run, or the secrets file exists.
fn was_used(chosen: &Chosen) -> bool {
    // The lock file of the secrets file is ignored, because this process has just created it.
    let is_of_run = |entry: io::Result<fs::DirEntry>| {
        entry.map_or(true, |entry| entry.file_name() != LOCK_FILE)
    };
    let has_run = match fs::read_dir(chosen.run_folder()) {
        Ok(mut entries) => entries.any(is_of_run),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    has_run || chosen.secrets_path().exists()
}

fn exists(chosen: &Chosen, what: &str, else_do: &str) -> CommandError {
    let path = chosen.secrets_path();
    let message = format!(
        "no secrets were generated: {what}, so the cluster {} may exist, and {} is missing or has no bundle",
        chosen.cluster().name,
        path.display()
    );
    CommandError::failed(CommandCode::SecretsUnmade, message).hint(format!(
        "restore {} from a backup or from git: without it the cluster cannot be accessed\n{else_do}",
        path.display()
    ))
}

/// Returns an error if client files, run logs or rendered configs show that the cluster exists.
fn refuse_files(chosen: &Chosen) -> Result<(), CommandError> {
    let paths = chosen.client_paths();
    for path in [&paths.kubeconfig, &paths.talosconfig] {
        let Some(text) = disk::read_secret(path)? else { continue };
        if client_files::is_for_real_cluster(&text) {
            let what = format!("{} has credentials for a cluster", path.display());
            let else_do =
                "if it is for another cluster, or for one that no longer exists, move it away";
            return Err(exists(chosen, &what, else_do));
        }
    }
    refuse_runs(chosen)?;
    for folder in [PathBuf::from(DEFAULT_FOLDER), chosen.folder().join(DEFAULT_FOLDER)] {
        if is_rendered_for(chosen, &folder)? {
            let what = format!("{} has machine configs of its nodes", folder.display());
            let else_do = "if they belong to another cluster, or to one that no longer exists, move the folder away";
            return Err(exists(chosen, &what, else_do));
        }
    }
    Ok(())
}

/// Returns an error if the newest run that made changes is not a completed `destroy`, or if a run log cannot be read.
fn refuse_runs(chosen: &Chosen) -> Result<(), CommandError> {
    let folder = chosen.run_folder().join("runs");
    let failed = |error| {
        CommandError::failed(
            CommandCode::SecretsUnmade,
            format!("no secrets were generated: cannot read {}", folder.display()),
        )
        .because(error)
        .hint("make the folder readable; its logs show whether the cluster was created")
    };
    let runs = run_log::list(&folder).map_err(failed)?;
    // `list` omits run logs that cannot be read.
    if count_logs(&folder).map_err(failed)? > runs.len() {
        let what = format!("{} has a run log that cannot be read", folder.display());
        return Err(exists(chosen, &what, "if the cluster no longer exists, move the logs away"));
    }
    let gone = "if the cluster no longer exists, move the logs away";
    let changed = runs.iter().find(|run| match run.header.command.as_str() {
        "up" => run.done > 0 || run.end.is_none(),
        command => command == "destroy",
    });
    match changed {
        Some(run) if run.header.command == "up" => {
            let path = folder.join(format!("{}.jsonl", run.id));
            Err(exists(chosen, &format!("{} is the log of a run of `up`", path.display()), gone))
        }
        Some(run) if run.end != Some(RunEnd::Done) => {
            let path = folder.join(format!("{}.jsonl", run.id));
            let what = format!("{} is the log of a `destroy` that did not finish", path.display());
            Err(exists(chosen, &what, gone))
        }
        _ => Ok(()),
    }
}

fn count_logs(folder: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut count = 0;
    for entry in entries {
        let path = entry?.path();
        count += usize::from(path.extension().is_some_and(|extension| extension == "jsonl"));
    }
    Ok(count)
}

/// Whether `render` wrote configs of this cluster to a folder. Several clusters may use the same folder, so the node
/// names and the context name are compared.
fn is_rendered_for(chosen: &Chosen, folder: &Path) -> Result<bool, CommandError> {
    let output = RenderedFolder::open(folder)?;
    if !output.is_rendered() {
        return Ok(false);
    }
    let cluster = chosen.cluster();
    let is_of_node = |path: &str| {
        let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str());
        cluster.nodes.iter().any(|node| stem == Some(node.name.value.as_str()))
    };
    if !output.paths().any(is_of_node) {
        return Ok(false);
    }
    let talosconfig = disk::read_secret(&folder.join("talosconfig"))?;
    let contexts = talosconfig.map(|text| client_files::contexts(&text)).unwrap_or_default();
    Ok(contexts.is_empty() || contexts.contains(&cluster.name))
}

/// Searches all VMs in Proxmox for a VM of the cluster.
async fn look_at_vms(chosen: &Chosen, client: &Client) -> Result<(), Evidence> {
    let unreachable = |error| Evidence::Unknown(proxmox::unreachable(error));
    let permissions = client.send(&access::permissions()).await.map_err(unreachable)?;
    let all = client.send(&cluster::resources()).await.map_err(unreachable)?;
    let wanted = SearchedCluster { chosen, cluster: chosen.cluster() };
    let mut guests: Vec<Guest> = all.guests;
    guests.retain(|guest| guest.is_vm && !guest.template);
    if let Some(guest) = guests.iter().find(|guest| wanted.has_tags(guest)) {
        let what = format!("VM {} on {} has its tags", guest.vmid, guest.node);
        return Err(wanted.exists(&what, guest));
    }
    // A token without VM.Audit gets an empty list of VMs. Such a list does not prove that the cluster has no VMs.
    if let Some(path) = wanted
        .audit_paths()
        .find(|paths| !paths.iter().any(|path| permissions.allows(path, "VM.Audit")))
    {
        let message = format!("the token lacks VM.Audit on {}", path[0]);
        let hint = "`talmox init --role` prints the commands that grant it";
        return Err(Evidence::Unknown(
            CommandError::failed(CommandCode::SecretsUnmade, message).hint(hint),
        ));
    }
    for vmid in wanted.vmids() {
        if guests.iter().any(|guest| guest.vmid == vmid) {
            continue;
        }
        match client.send(&cluster::is_free(vmid)).await {
            Ok(_) => {}
            Err(error) if error.is_already_exists() => {
                let message =
                    format!("vmid {vmid} is used by a VM or container that the token cannot see");
                let hint = "grant VM.Audit on it, or give the node another `vmid:`";
                return Err(Evidence::Unknown(
                    CommandError::failed(CommandCode::SecretsUnmade, message).hint(hint),
                ));
            }
            Err(error) => return Err(unreachable(error)),
        }
    }
    look_at_configs(&wanted, client, guests).await
}

/// Checks the notes and the UUID of every VM. A VM of the cluster is reported first, even if another VM cannot be read.
async fn look_at_configs(
    wanted: &SearchedCluster<'_>,
    client: &Client,
    guests: Vec<Guest>,
) -> Result<(), Evidence> {
    let mut unread = None;
    for (guest, config) in read_configs(client, guests).await {
        match config {
            Ok(config) => {
                if let Some(sign) = wanted.sign(&guest, &config) {
                    let what = format!("VM {} on {} {sign}", guest.vmid, guest.node);
                    return Err(wanted.exists(&what, &guest));
                }
            }
            Err(error) => {
                unread.get_or_insert((guest, error));
            }
        }
    }
    let Some((guest, error)) = unread else { return Ok(()) };
    let message = format!("VM {} on {} cannot be read", guest.vmid, guest.node);
    let failed = CommandError::failed(CommandCode::SecretsUnmade, message).because(error);
    Err(Evidence::Unknown(failed.hint(unread_hint(&guest))))
}

/// Configs of the VMs, or the errors, sorted by vmid. VMs that were deleted after they were listed are omitted.
async fn read_configs(
    client: &Client,
    guests: Vec<Guest>,
) -> Vec<(Guest, Result<VmConfig, PveError>)> {
    let mut looks = JoinSet::new();
    for guest in guests {
        let client = client.clone();
        looks.spawn(async move {
            let vm = Vm::new(&guest.node, guest.vmid);
            let config = client.send(&qemu::config(&vm)).await;
            let is_gone =
                config.is_err() && client.send(&cluster::is_free(guest.vmid)).await.is_ok();
            (!is_gone).then_some((guest, config))
        });
    }
    let mut looked: Vec<_> = looks.join_all().await.into_iter().flatten().collect();
    looked.sort_by_key(|(guest, _)| guest.vmid);
    looked
}

/// Search for VMs of the cluster by features that do not depend on its secrets.
struct SearchedCluster<'a> {
    chosen: &'a Chosen,
    cluster: &'a Cluster,
}

impl SearchedCluster<'_> {
    fn exists(&self, what: &str, guest: &Guest) -> Evidence {
        let else_do = format!(
            "if VM {} belongs to another cluster, give this one another `cluster_name:`, and its nodes other names and vmids",
            guest.vmid
        );
        Evidence::Exists(exists(self.chosen, what, &else_do))
    }

    fn has_tags(&self, guest: &Guest) -> bool {
        let has = |tag: &str| guest.tags.iter().any(|known| known.eq_ignore_ascii_case(tag));
        has(TAG) && has(&self.cluster.name)
    }

    fn vmids(&self) -> impl Iterator<Item = VmId> {
        let numbers = self.cluster.nodes.iter().filter_map(|node| node.entry.vmid.get());
        numbers.filter_map(|vmid| VmId::new(vmid.get()).ok())
    }

    /// ACL paths for each node, the usual path first. At least one path of each node must grant VM.Audit.
    fn audit_paths(&self) -> impl Iterator<Item = Vec<String>> {
        self.cluster.nodes.iter().map(|node| {
            let pool = node.settings().placement.pool.get().map(|pool| format!("/pool/{pool}"));
            let vmid = node.entry.vmid.get().map_or(100, |vmid| vmid.get());
            pool.into_iter().chain(["/vms".to_owned(), format!("/vms/{vmid}")]).collect()
        })
    }

    /// Reason why a VM may belong to this cluster. `None` if the VM has no feature of the cluster.
    fn sign(&self, guest: &Guest, config: &VmConfig) -> Option<String> {
        let nodes = &self.cluster.nodes;
        let is_node = |name: &str| nodes.iter().any(|node| node.name.value.as_str() == name);
        // The VM list may be some seconds old, and may lack the name and tags of a new VM. So the config is read too.
        let is_placed = guest.name.as_deref().is_some_and(is_node)
            || config.name().is_some_and(is_node)
            || self.vmids().any(|vmid| vmid == guest.vmid);
        let tags = config.tags();
        if tags.contains(TAG) && tags.contains(&self.cluster.name) {
            return Some("has its tags".to_owned());
        }
        let description = config.description();
        let marker = description.lines().find_map(|line| line.parse::<Marker>().ok());
        let Some(marker) = marker else {
            // Proxmox generates random UUIDs (version 4), but talmox derives UUIDs (version 5).
            let uuid = config.smbios().uuid.unwrap_or_default();
            let is_derived = uuid.as_bytes().get(14) == Some(&b'5');
            let is_near = is_placed || self.is_in_pool(guest);
            return (is_derived && is_near)
                .then(|| format!("has a UUID ({uuid}) that talmox derived"));
        };
        let noted = Marker::named_cluster(description);
        let own = self.cluster.name.as_str();
        let is_tagged_otherwise = tags.contains(TAG) && tags.iter().count() > 1;
        if noted == Some(own) || tags.contains(own) {
            return Some(format!("has the marker of talmox, for the node {}", marker.node));
        }
        if is_placed || is_node(&marker.node) {
            return Some(format!("belongs to a talmox cluster, for the node {}", marker.node));
        }
        // Neither the tags nor the notes name a cluster, so the VM may belong to this cluster.
        (noted.is_none() && !is_tagged_otherwise).then(|| {
            format!("has the marker of talmox without a cluster name, for the node {}", marker.node)
        })
    }

    fn is_in_pool(&self, guest: &Guest) -> bool {
        let Some(pool) = &guest.pool else { return false };
        self.cluster.nodes.iter().any(|node| {
            let own = node.settings().placement.pool.get();
            own.is_some_and(|own| own.to_string() == pool.to_string())
        })
    }
}
