//! `machine.install.diskSelector` as a CEL expression. Talos evaluates it in this form since 1.9.

use talmox_yaml::Node as Yaml;

use super::super::disk::Disk;
use super::super::disk_match::{self, Candidate};
use super::super::talos_state::Node;
use super::{Facts, text};

/// CEL expression for a selector; `None` for an empty selector.
pub(super) fn expression(selector: &Yaml) -> Option<String> {
    let map = selector.as_map()?;
    let value = |key: &str| text(map.get(key)).filter(|text| !text.is_empty());
    let mut parts = vec![];
    if let Some(wanted) = value("size") {
        let end = wanted.find(|c: char| !"<>=".contains(c)).unwrap_or(wanted.len());
        let (sign, size) = wanted.split_at(end);
        let sign = if sign.is_empty() { "==" } else { sign };
        parts.push(format!("disk.size {sign} {}u", disk_match::size(size)?));
    }
    let patterns = ["uuid", "wwid", "model", "serial", "modalias"];
    let patterns = patterns.into_iter().map(|key| (key, key)).chain([("busPath", "bus_path")]);
    for (key, field) in patterns {
        if let Some(pattern) = value(key) {
            parts.push(format!("glob({pattern:?}, disk.{field})"));
        }
    }
    match value("type").as_deref() {
        Some("ssd") => parts.push("!disk.rotational".to_owned()),
        Some("hdd") => parts.push("disk.rotational".to_owned()),
        Some("nvme") => parts.push("disk.transport == \"nvme\"".to_owned()),
        Some("sd") => parts.push("disk.transport == \"mmc\"".to_owned()),
        _ => {}
    }
    (!parts.is_empty()).then(|| parts.join(" && "))
}

impl Node {
    /// Disk that the installer writes to.
    pub(crate) fn install_disk(&self, facts: &Facts) -> Option<&Disk> {
        let mut disks = self.hardware.disks.iter().filter(|disk| !disk.is_cdrom);
        // A disk selector takes precedence over a disk name.
        match (&facts.install_match, &facts.install_disk) {
            (Some(wanted), _) => disks.find(|disk| {
                disk_match::matches(wanted, &Candidate { disk, is_system_disk: false })
            }),
            (None, Some(path)) => disks.find(|disk| disk.is_at(path)),
            (None, None) => disks.next(),
        }
    }
}
