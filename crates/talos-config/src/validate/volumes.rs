//! Validation of the documents about disks and volumes.

use super::{Report, View};
use crate::cel::{self, Environment, ResultType};
use crate::format::duration;
use crate::format::size::parse_bytes;
use crate::schema::Release;

/// System volumes that can have a document. The fourth and following volumes exist since Talos 1.14.
const SYSTEM_VOLUMES: [&str; 7] =
    ["STATE", "EPHEMERAL", "IMAGECACHE", "ETCD", "CRI", "KUBELET", "LOG"];
/// Minimum interval of scrubbing, in nanoseconds.
const MIN_SCRUB_INTERVAL: i64 = 10_000_000_000;
/// Maximum length of a volume name. Partition labels have 36 characters, and Talos uses two of them for a prefix.
const MAX_NAME: usize = 34;

pub(super) fn validate(kind: &str, view: View<'_>, release: Release, report: &mut Report) {
    match kind {
        "UserVolumeConfig" => {
            name(view, true, report);
            user_volume(view, release, report);
        }
        "RawVolumeConfig" | "SwapVolumeConfig" => {
            name(view, true, report);
            provisioning(view.get("provisioning"), true, true, release, report);
            encryption(view.get("encryption"), report);
        }
        "ExistingVolumeConfig" => {
            name(view, false, report);
            match view.at(&["discovery", "volumeSelector", "match"]).text() {
                "" => report.error("volume selector is required"),
                expression => {
                    let checked = cel::check(expression, &Environment::volume(), ResultType::Bool);
                    if let Err(reason) = checked {
                        report.error(format!("volume selector is invalid: {reason}"));
                    }
                }
            }
            upkeep(view, report);
        }
        "ExternalVolumeConfig" => {
            name(view, true, report);
            external_volume(view, report);
        }
        "VolumeConfig" => system_volume(view, release, report),
        "ZswapConfig" => {
            let percent = view.get("maxPoolPercent");
            report.check(
                (0..=100).contains(&percent.int()),
                "maxPoolPercent must be between 0 and 100",
            );
        }
        _ => {}
    }
}

fn name(view: View<'_>, limited: bool, report: &mut Report) {
    let name = view.get("name").text();
    report.check(!name.is_empty(), "name is required");
    if limited && !(1..=MAX_NAME).contains(&name.len()) {
        report.error(format!("name must be between 1 and {MAX_NAME} characters long"));
    }
    report.check(
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
        "name can only contain lowercase and uppercase ASCII letters, digits, and hyphens",
    );
}

fn user_volume(view: View<'_>, release: Release, report: &mut Report) {
    let kind = match view.get("volumeType").text() {
        "" => "partition",
        kind => kind,
    };
    match kind {
        "directory" => {
            let parts = [
                ("provisioning", has_provisioning(view.get("provisioning"))),
                ("encryption", has_encryption(view.get("encryption"))),
                ("filesystem", view.get("filesystem").is_set()),
                ("mount", view.get("mount").is_set()),
            ];
            for (part, given) in parts {
                if given {
                    report.error(format!("{part} spec is invalid for volumeType directory"));
                }
            }
        }
        "disk" | "partition" => {
            let has_size = kind == "partition";
            provisioning(view.get("provisioning"), true, has_size, release, report);
            filesystem(view.get("filesystem"), release, report);
            encryption(view.get("encryption"), report);
        }
        other => report.error(format!("unsupported volume type {other:?}")),
    }
    upkeep(view, report);
}

/// Validates the intervals of trim and scrub. These keys exist since Talos 1.14.
fn upkeep(view: View<'_>, report: &mut Report) {
    let interval = |key| duration::parse(view.at(&[key, "interval"]).text()).unwrap_or(0);
    report.check(interval("trim") >= 0, "trim interval cannot be negative");
    let scrubbed = interval("scrub");
    report.check(
        scrubbed == 0 || scrubbed >= MIN_SCRUB_INTERVAL,
        "scrub interval: minimum value is 10s",
    );
}

fn filesystem(view: View<'_>, release: Release, report: &mut Report) {
    let kind = view.get("type").text();
    let is_btrfs = kind == "btrfs" && release >= Release::V1_14;
    if !matches!(kind, "" | "none" | "xfs" | "ext4") && !is_btrfs {
        report.error(format!("unsupported filesystem type: {kind}"));
        return;
    }
    // The default filesystem type is xfs.
    let is_xfs = matches!(kind, "" | "none" | "xfs");
    report.check(
        is_xfs || !view.get("projectQuotaSupport").is_true(),
        "project quota support is only available for xfs filesystem",
    );
    report.check(
        is_xfs || !view.get("xfs").is_set(),
        "xfs options are only available for xfs filesystem",
    );
}

fn external_volume(view: View<'_>, report: &mut Report) {
    match view.get("filesystemType").text() {
        "virtiofs" => {
            let virtiofs = view.at(&["mount", "virtiofs"]);
            if !virtiofs.is_set() {
                report.error("virtiofs mount spec is required");
            } else if virtiofs.get("tag").text().is_empty() {
                report.error("virtiofs tag is required");
            }
        }
        "" => report.error("invalid filesystem type: none"),
        other => report.error(format!("invalid filesystem type: {other}")),
    }
}

fn system_volume(view: View<'_>, release: Release, report: &mut Report) {
    let name = view.get("name").text();
    let known: &[&str] =
        if release < Release::V1_14 { &SYSTEM_VOLUMES[..3] } else { &SYSTEM_VOLUMES };
    if !known.contains(&name) {
        let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        report.error(format!("only [{}] volumes are supported", known.join(" ")));
        return;
    }
    if name == "STATE" {
        if has_provisioning(view.get("provisioning")) {
            report.error(format!("provisioning config is not allowed for the {name:?} volume"));
        }
        for key in view.at(&["encryption", "keys"]).items() {
            if key.get("lockToState").is_true() {
                report.error(format!("state-locked key is not allowed for the {name:?} volume"));
            }
        }
    }
    if release >= Release::V1_14 {
        system_volume_parts(name, view, report);
    }
    provisioning(view.get("provisioning"), false, true, release, report);
    encryption(view.get("encryption"), report);
    upkeep(view, report);
}

/// Validates rules of Talos 1.14 for individual system volumes.
fn system_volume_parts(name: &str, view: View<'_>, report: &mut Report) {
    let mount = view.get("mount");
    let is_mounted = ["secure", "disableAccessTime"].iter().any(|key| mount.get(key).is_set());
    match name {
        "EPHEMERAL" => {}
        "STATE" | "IMAGECACHE" => {
            if is_mounted {
                report.error(format!("mount config is not allowed for the {name:?} volume"));
            }
            if name == "IMAGECACHE" && view.at(&["filesystem", "xfs"]).is_set() {
                report.error(format!("filesystem config is not allowed for the {name:?} volume"));
            }
        }
        _ => {
            if is_mounted && !has_provisioning(view.get("provisioning")) {
                report.error(format!(
                    "mount config for the {name:?} volume is only supported when it is provisioned onto a dedicated partition"
                ));
            }
        }
    }
}

fn has_provisioning(view: View<'_>) -> bool {
    let selector = view.at(&["diskSelector", "match"]);
    selector.is_set() || ["grow", "minSize", "maxSize"].iter().any(|key| view.get(key).is_set())
}

fn provisioning(
    view: View<'_>,
    required: bool,
    has_size: bool,
    release: Release,
    report: &mut Report,
) {
    match view.at(&["diskSelector", "match"]).text() {
        "" => report.check(!required, "disk selector is required"),
        expression => {
            let checked = cel::check(expression, &Environment::disk(), ResultType::Bool);
            if let Err(reason) = checked {
                report.error(format!("disk selector is invalid: {reason}"));
            }
        }
    }
    let (min, max) = (view.get("minSize").text(), view.get("maxSize").text());
    if !has_size {
        report.check(
            min.is_empty() && max.is_empty() && !view.get("grow").is_set(),
            "min size, max size and grow are not supported",
        );
        return;
    }
    let is_absolute = !max.is_empty() && !max.contains('%') && !max.starts_with('-');
    let bytes = |size: &str| parse_bytes(size.strip_prefix('-').unwrap_or(size)).unwrap_or(0);
    if !min.is_empty() && is_absolute {
        report.check(bytes(min) <= bytes(max), "min size is greater than max size");
    } else if min.is_empty() && max.is_empty() {
        report.check(!required, "min size or max size is required");
    }
    if release >= Release::V1_13 {
        report.check(!min.starts_with('-'), "min size cannot be negative");
    }
}

fn has_encryption(view: View<'_>) -> bool {
    !matches!(view.get("provider").text(), "" | "none") || !view.get("keys").is_empty()
}

fn encryption(view: View<'_>, report: &mut Report) {
    if !has_encryption(view) {
        return;
    }
    let provider = view.get("provider").text();
    if provider != "luks2" {
        report.error("unsupported encryption provider: none");
    }
    report.check(!view.get("keys").is_empty(), "encryption keys are required");
    let mut used = vec![];
    for key in view.get("keys").items() {
        let slot = key.get("slot").int();
        if used.contains(&slot) {
            report.error(format!("duplicate key slot {slot}"));
        }
        used.push(slot);
        let has_kind = ["static", "nodeID", "kms", "tpm"].iter().any(|kind| key.get(kind).is_set());
        if !has_kind {
            report.error(format!(
                "at least one encryption key type must be specified for slot {slot}"
            ));
        }
        for register in key.at(&["tpm", "options", "pcrs"]).items() {
            let register = register.int();
            if !(0..=23).contains(&register) {
                report.error(format!("TPM PCR {register} is out of range (0-23)"));
            }
        }
    }
}
