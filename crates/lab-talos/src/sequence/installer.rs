//! Installer: the images that a node can pull, the permitted upgrades, and the Talos that is written to the disk.

use super::super::disk_data::{DiskKey, Installed};
use super::super::simulation::Simulation;
use super::super::talos_state::Node;
use super::super::version::Version;
use crate::image::{Platform, TalosImage};

/// META key that an upgrade writes. The key is removed when the installed Talos has booted.
pub(super) const UPGRADE_TAG: u8 = 6;
/// META key that names an image, which the next boot installs.
pub(super) const STAGED: u8 = 7;
pub(super) const STAGED_OPTIONS: u8 = 8;

impl Simulation {
    /// Talos that an installer image would install on this node. The error is the reason why the image cannot be pulled.
    pub(crate) fn installer(&self, vmid: u32, image: &str) -> Result<TalosImage, String> {
        let failed = |why: &str| format!("failed to pull image \"{image}\": {why}");
        let pull_obstacle =
            self.look(|talos| talos.nodes.get(&vmid).map(|node| self.pull_obstacle(node)));
        match pull_obstacle {
            Some(None) => {}
            Some(Some(why)) => return Err(failed(why)),
            None => return Err(failed("the node is gone")),
        }
        let Some(factory) = &self.settings.factory else { return Err(failed("not found")) };
        factory.installer(image).map_err(|why| failed(&why))
    }

    /// Writes an image to the boot disk. The running Talos stays on the disk, for a rollback.
    pub(super) fn write_to_disk(&self, disk: &DiskKey, running: Installed, image: &TalosImage) {
        let installed = as_installed(image, &running.platform);
        self.hypervisor.write_disk(disk, |written| {
            written.is_blank = false;
            written.previous = Some(running);
            written.installed = Some(installed);
            written.meta.insert(UPGRADE_TAG, "B".to_owned());
            written.meta.remove(&STAGED);
            written.meta.remove(&STAGED_OPTIONS);
        });
    }
}

/// Talos that is on the disk after the installation. An installer before 1.10 keeps the platform of the node. A later installer
/// writes the platform that it was built for.
pub(super) fn as_installed(image: &TalosImage, platform: &str) -> Installed {
    let is_neutral = Version::parse(&image.version).is_some_and(|version| version.minor < 10);
    Installed {
        version: image.version.clone(),
        schematic: image.schematic.to_yaml(),
        schematic_id: image.schematic_id.clone(),
        platform: match image.platform {
            _ if is_neutral => platform.to_owned(),
            Platform::Metal => "metal".to_owned(),
            Platform::Nocloud => "nocloud".to_owned(),
        },
        secureboot: image.secureboot,
    }
}

/// Checks of the installer before it writes to the disk: permitted version steps of Talos, and supported Kubernetes versions.
pub(super) fn preflight(node: &Node, image: &TalosImage) -> Result<(), String> {
    let Some(target) = Version::parse(&image.version) else {
        return Err(format!("invalid version {:?}", image.version));
    };
    let host = &node.version;
    let plain = |version: &Version| version.to_string().trim_start_matches('v').to_owned();
    if host.minor < oldest_host(target.minor) {
        let (host, target) = (plain(host), plain(&target));
        return Err(format!("host version {host} is too old to upgrade to Talos {target}"));
    }
    if host.minor >= target.minor + 2 {
        let (host, target) = (plain(host), plain(&target));
        return Err(format!("host version {host} is too new to downgrade to Talos {target}"));
    }
    let Some(config) = &node.config else { return Ok(()) };
    let Some(kubernetes) = Version::parse(&config.facts.kubelet_version) else { return Ok(()) };
    // Each Talos release supports six minor releases of Kubernetes. The newest of them increases by one with each Talos
    // release.
    let (oldest, newest) = (target.minor + 18, target.minor + 23);
    let problem = if kubernetes.minor < oldest {
        "too old"
    } else if kubernetes.minor > newest {
        "too new"
    } else {
        return Ok(());
    };
    let (kubernetes, target) = (plain(&kubernetes), plain(&target));
    Err(format!("version of Kubernetes {kubernetes} is {problem} to be used with Talos {target}"))
}

/// Oldest minor release from which an upgrade to `target` is possible.
fn oldest_host(target: u32) -> u32 {
    match target {
        ..=8 => 5,
        9 => 8,
        later => later - 2,
    }
}

#[cfg(test)]
mod tests {
    use super::oldest_host;

    #[test]
    fn upgrades_are_limited_to_supported_releases() {
        let table = [(8, 5), (9, 8), (10, 8), (11, 9), (12, 10), (13, 11), (14, 12)];
        for (target, oldest) in table {
            assert_eq!(oldest_host(target), oldest, "1.{target}");
        }
    }
}
