//! Machine types such as `q35` and `pc-i440fx-9.2+pve1`.

use crate::pve_state::PveState;
use crate::schema::{self, FormatName};
use crate::{ApiError, Release};

/// Machine type in a `machine` option.
fn kind(release: Release, machine: Option<&String>) -> Option<String> {
    let format = schema::format(release, FormatName::Machine);
    format.parse(machine?).ok()?.get("type").map(str::to_owned)
}

pub(crate) fn is_q35(release: Release, machine: Option<&String>) -> bool {
    kind(release, machine).is_some_and(|kind| kind.contains("q35"))
}

/// Version in a machine type, such as `9.2` in `pc-q35-9.2+pve1`.
fn version(kind: &str) -> Option<(u32, u32)> {
    let prefixes = ["pc-i440fx-", "pc-q35-", "pc-", "virt-"];
    let version = prefixes.iter().find_map(|prefix| kind.strip_prefix(prefix))?;
    let mut numbers = version.split(['.', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Rejects a machine type that is newer than the installed QEMU.
pub(crate) fn check(
    release: Release,
    node: &str,
    machine: Option<&String>,
) -> Result<(), ApiError> {
    let Some(kind) = kind(release, machine) else { return Ok(()) };
    let installed = release.qemu();
    let newest = version(&format!("virt-{installed}")).unwrap_or_default();
    if version(&kind).is_some_and(|wanted| wanted > newest) {
        return Err(ApiError::failed(format!(
            "Installed QEMU version '{installed}' is too old to run machine type '{kind}', please \
             upgrade node '{node}'"
        )));
    }
    Ok(())
}

/// Machine type with version that QEMU uses for a `machine` option.
pub(crate) fn running(release: Release, machine: Option<&String>) -> String {
    let newest = release.qemu().rsplit_once('.').map_or("", |(version, _)| version);
    let revision = match release {
        Release::V8 => "+pve1",
        Release::V9 => "+pve0",
    };
    match kind(release, machine).as_deref() {
        None | Some("pc") => format!("pc-i440fx-{newest}{revision}"),
        Some("q35") => format!("pc-q35-{newest}{revision}"),
        Some("virt") => format!("virt-{newest}{revision}"),
        Some(other) => other.to_owned(),
    }
}

/// Machine type to store in the config. For Windows guests, Proxmox stores it with a version, because Windows does not tolerate
/// a change of the machine type.
pub(crate) fn pinned(
    pve_state: &PveState,
    machine: Option<&String>,
    ostype: &str,
) -> Result<Option<String>, ApiError> {
    let format = schema::format(pve_state.release, FormatName::Machine);
    let mut fields = machine.and_then(|machine| format.parse(machine).ok()).unwrap_or_default();
    if is_windows(ostype) {
        let version = pve_state.release.qemu().rsplit_once('.').map_or("", |(version, _)| version);
        match fields.get("type") {
            None | Some("pc") => fields.set("type", format!("pc-i440fx-{version}")),
            Some("q35") => fields.set("type", format!("pc-q35-{version}")),
            Some(_) => {}
        }
    }
    check_options(&fields)?;
    let text = format.print(&fields);
    Ok((!text.is_empty()).then_some(text))
}

fn is_windows(ostype: &str) -> bool {
    matches!(
        ostype,
        "wxp" | "w2k" | "w2k3" | "w2k8" | "wvista" | "win7" | "win8" | "win10" | "win11"
    )
}

pub(crate) fn check_options(machine: &schema::Fields) -> Result<(), ApiError> {
    let is_q35 = machine.get("type").is_some_and(|kind| kind.contains("q35"));
    if machine.get("viommu") == Some("intel") && !is_q35 {
        return Err(ApiError::failed("to use Intel vIOMMU please set the machine type to q35"));
    }
    match (machine.get("viommu"), machine.number("aw-bits")) {
        (Some("intel"), Some(bits)) if bits != 39 && bits != 48 => {
            let text = "Intel vIOMMU supports only 39 or 48 bits as address width";
            return Err(ApiError::failed(text));
        }
        (None, Some(_)) => {
            return Err(ApiError::failed("cannot set aw-bits if no vIOMMU is configured"));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_type_versions_are_parsed() {
        assert_eq!(version("pc-q35-9.2+pve1"), Some((9, 2)));
        assert_eq!(version("pc-i440fx-10.1"), Some((10, 1)));
        assert_eq!(version("pc-8.0"), Some((8, 0)));
        assert_eq!(version("virt-9.1.0"), Some((9, 1)));
        for kind in ["q35", "pc", "virt"] {
            assert_eq!(version(kind), None, "{kind}");
        }
    }

    #[test]
    fn machine_type_newer_than_qemu_is_rejected() {
        let machine = "pc-q35-42.9+pve0".to_owned();
        let error = check(Release::V8, "pve1", Some(&machine)).unwrap_err();
        assert_eq!(
            error.message,
            "Installed QEMU version '9.2.0' is too old to run machine type 'pc-q35-42.9+pve0', \
             please upgrade node 'pve1'"
        );
        let known = "pc-q35-9.2+pve1".to_owned();
        assert_eq!(check(Release::V8, "pve1", Some(&known)), Ok(()));
    }

    #[test]
    fn running_machine_type_has_a_version() {
        assert_eq!(running(Release::V8, None), "pc-i440fx-9.2+pve1");
        let machine = "q35,viommu=virtio".to_owned();
        assert_eq!(running(Release::V9, Some(&machine)), "pc-q35-10.1+pve0");
    }
}
