//! Disk selection by the CEL expressions of a config.

use talmox_talos_config::cel::{Value, evaluate};

use super::disk::Disk;

/// Disk that an expression is evaluated for.
pub(crate) struct Candidate<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) is_system_disk: bool,
}

/// Whether an expression selects the disk. An expression that the lab cannot evaluate selects every disk.
pub(crate) fn matches(expression: &str, candidate: &Candidate<'_>) -> bool {
    let variables =
        [("disk", fields(candidate.disk)), ("system_disk", Value::Bool(candidate.is_system_disk))];
    evaluate(expression, &variables) != Some(Value::Bool(false))
}

/// Parses a size such as `10GB` or `1.5 TiB`. A number without a unit is in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let name = name.trim();
    let unit = if name.is_empty() { 1 } else { unit(name)? };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if fraction.is_empty() {
        return Some(bytes);
    }
    let parts = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(unit).checked_mul(fraction.parse().ok()?)? / parts;
    bytes.checked_add(u64::try_from(part).ok()?)
}

fn unit(name: &str) -> Option<u64> {
    const DECIMAL: [&str; 5] = ["kb", "mb", "gb", "tb", "pb"];
    const BINARY: [&str; 5] = ["kib", "mib", "gib", "tib", "pib"];
    let name = name.to_lowercase();
    if name == "b" {
        return Some(1);
    }
    let power = |names: [&str; 5]| names.iter().position(|known| *known == name).map(|at| at + 1);
    match (power(DECIMAL), power(BINARY)) {
        (Some(power), _) => 1000_u64.checked_pow(u32::try_from(power).ok()?),
        (_, Some(power)) => 1024_u64.checked_pow(u32::try_from(power).ok()?),
        _ => None,
    }
}

/// Fields of a disk that expressions can use.
fn fields(disk: &Disk) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    let links = disk.symlinks().into_iter().map(Value::Text);
    let fields = [
        ("size", Value::Uint(disk.size)),
        ("dev_path", text(&disk.device)),
        ("bus_path", Value::Text(disk.bus_path())),
        ("model", text(disk.model())),
        ("modalias", text(disk.modalias())),
        ("transport", text(disk.transport())),
        ("rotational", Value::Bool(disk.is_rotational())),
        ("readonly", Value::Bool(disk.is_cdrom)),
        ("cdrom", Value::Bool(disk.is_cdrom)),
        ("sector_size", Value::Uint(512)),
        ("io_size", Value::Uint(512)),
        ("symlinks", Value::List(links.collect())),
        ("serial", text(disk.shown_serial())),
        ("wwid", Value::Text(disk.wwid())),
        ("uuid", text("")),
    ];
    Value::Message(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cel_expressions_select_disks() {
        let disk = Disk {
            slot: "scsi1".to_owned(),
            device: "/dev/sdb".to_owned(),
            size: 50 << 30,
            device_id: "drive-scsi1".to_owned(),
            sequence: 3,
            ..Disk::default()
        };
        let candidate = Candidate { disk: &disk, is_system_disk: false };
        for (expression, is_meant) in [
            ("!system_disk", true),
            ("system_disk", false),
            ("disk.dev_path == '/dev/sdb'", true),
            ("disk.dev_path == \"/dev/sda\" || disk.size >= 50u * GiB", true),
            ("disk.size > 100u * GB", false),
            ("disk.transport == 'virtio' && !(disk.rotational == false)", true),
            ("disk.transport == 'nvme'", false),
            ("glob('QEMU HARD*', disk.model)", true),
            ("disk.dev_path.startsWith('/dev/vd')", false),
            ("'/dev/disk/by-id/x' in disk.symlinks", false),
            ("'/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1' in disk.symlinks", true),
            ("'/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi2' in disk.symlinks", false),
            ("disk.symlinks.exists(s, s.contains('nvme'))", false),
            ("disk.symlinks.exists(s, s.endsWith('drive-scsi1')) && !system_disk", true),
            ("disk.serial == '' && disk.wwid == ''", true),
            // The lab does not support this CEL expression.
            ("disk.symlinks.map(s, s).size() > 9", true),
        ] {
            assert_eq!(matches(expression, &candidate), is_meant, "{expression}");
        }
    }

    #[test]
    fn sizes_are_parsed_with_decimal_and_binary_units() {
        assert_eq!(size("10GB"), Some(10_000_000_000));
        assert_eq!(size("1.5 GiB"), Some(3 << 29));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("much"), None);
    }
}
