//! Formats of VM options.

use super::super::perl::{fits, is_true, split_list};
use super::super::property::split_index;
use super::super::vm::is_drive;
use super::{ValueFormat, expect};

/// Boot device in the option `boot`.
pub(crate) const BOOT_DEVICE: ValueFormat = ValueFormat {
    name: "pve-qm-bootdev",
    check: |text, _| {
        let special = text.starts_with("efidisk") || text.starts_with("tpmstate");
        let other = match split_index(text) {
            Some(("net", index)) => index < 32,
            Some(("usb", index)) => index < 14,
            Some(("hostpci", index)) => index < 16,
            _ => false,
        };
        expect(is_drive(text) && !special || other, format!("invalid boot device '{text}'"))
    },
};

pub(crate) const BOOT_DISK: ValueFormat = ValueFormat {
    name: "pve-qm-bootdisk",
    check: |text, _| expect(is_drive(text), format!("invalid boot disk '{text}'")),
};

/// Set of host CPUs, such as `0-3,8`.
pub(crate) const CPU_SET: ValueFormat = ValueFormat {
    name: "pve-cpuset",
    check: |text, _| {
        let range = |part: &str| {
            let part = part.trim();
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let digits =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
            digits(from) && digits(to) && number(from) <= number(to)
        };
        let parts = text.trim_end_matches(',');
        let ok = parts.is_empty() || parts.split(',').all(range);
        expect(ok, "unable to parse cpuset option")
    },
};

pub(crate) const PHYSICAL_BITS: ValueFormat = ValueFormat {
    name: "pve-phys-bits",
    check: |text, _| {
        let bits =
            text.trim_end_matches('\n').parse().is_ok_and(|bits: u8| (8..=64).contains(&bits));
        expect(
            fits!(text, r"(host|\d{1,2})") && (fits!(text, "host") || bits),
            "value must be an integer between 8 and 64 or 'host'",
        )
    },
};

pub(crate) const HOTPLUG: ValueFormat = ValueFormat {
    name: "pve-hotplug-features",
    check: |text, _| {
        if matches!(text, "0" | "1") {
            return Ok(());
        }
        split_list(text).into_iter().try_for_each(|feature| {
            let known =
                matches!(feature, "network" | "disk" | "cpu" | "memory" | "usb" | "cloudinit");
            expect(known, format!("invalid hotplug feature '{feature}'"))
        })
    },
};

pub(crate) const STARTUP: ValueFormat = ValueFormat {
    name: "pve-startup-order",
    check: |text, _| expect(Startup::parse(text).is_some(), "unable to parse startup options"),
};

/// Start and shutdown order of a VM: `order=1,up=30,down=60`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Startup {
    pub(crate) order: Option<u64>,
    pub(crate) up: Option<u64>,
    pub(crate) down: Option<u64>,
}

impl Startup {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !is_true(text) {
            return None;
        }
        let mut startup = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (slot, digits) = match part.split_once('=') {
                None | Some(("order", _)) => {
                    (&mut startup.order, part.strip_prefix("order=").unwrap_or(part))
                }
                Some(("up", digits)) => (&mut startup.up, digits),
                Some(("down", digits)) => (&mut startup.down, digits),
                Some(_) => return None,
            };
            if !fits!(digits, r"\d+") {
                return None;
            }
            *slot = Some(digits.trim_end().parse().unwrap_or(u64::MAX));
        }
        Some(startup)
    }
}
