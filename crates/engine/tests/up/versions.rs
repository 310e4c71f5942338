//! Pairs of a Proxmox release and a Talos version.
//!
//! A scenario that changes a cluster runs with one pair, so that its tests take no longer than with one version. Each file of
//! such scenarios has all pairs. A build with the environment variable `TALMOX_EVERY_VERSION` runs every scenario with all
//! pairs.

use super::rig::LabOptions;

/// A Proxmox release and a Talos version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    pub(crate) release: &'static str,
    pub(crate) talos: &'static str,
}

pub(crate) const PVE_8_TALOS_11: Versions = Versions { release: "8.4", talos: "v1.11.2" };
pub(crate) const PVE_8_TALOS_12: Versions = Versions { release: "8.4", talos: "v1.12.4" };
pub(crate) const PVE_8_TALOS_13: Versions = Versions { release: "8.4", talos: "v1.13.6" };
pub(crate) const PVE_9_TALOS_11: Versions = Versions { release: "9.2", talos: "v1.11.2" };
pub(crate) const PVE_9_TALOS_12: Versions = Versions { release: "9.2", talos: "v1.12.4" };
pub(crate) const PVE_9_TALOS_13: Versions = Versions { release: "9.2", talos: "v1.13.6" };

const ALL: [Versions; 6] = [
    PVE_8_TALOS_11,
    PVE_8_TALOS_12,
    PVE_8_TALOS_13,
    PVE_9_TALOS_11,
    PVE_9_TALOS_12,
    PVE_9_TALOS_13,
];

impl Versions {
    /// Settings of a lab with this release.
    pub(crate) fn lab_options(self) -> LabOptions {
        LabOptions { release: self.release, ..LabOptions::default() }
    }

    /// This inventory, with this version of Talos.
    pub(crate) fn inventory(self, text: &str) -> String {
        assert!(text.contains("talos_version: v1.11.2\n"), "{text}");
        text.replace("talos_version: v1.11.2\n", &format!("talos_version: {}\n", self.talos))
    }

    /// The right that queries of a guest agent need.
    pub(crate) fn agent_right(self) -> &'static str {
        if self.release == "8.4" { "VM.Monitor" } else { "VM.GuestAgent.Audit" }
    }
}

/// Runs a scenario with the usual pairs, or with all pairs.
#[expect(clippy::print_stderr, reason = "the output of a failed test names the pair")]
pub(crate) async fn each(usual: &[Versions], scenario: impl AsyncFn(Versions)) {
    let is_every = option_env!("TALMOX_EVERY_VERSION").is_some();
    for versions in if is_every { &ALL[..] } else { usual } {
        eprintln!("Proxmox VE {}, Talos {}", versions.release, versions.talos);
        Box::pin(scenario(*versions)).await;
    }
}

#[test]
fn every_file_of_scenarios_has_all_pairs() {
    let files = [
        ("config_change", include_str!("config_change.rs")),
        ("removal_step", include_str!("removal_step.rs")),
        ("node_power", include_str!("node_power.rs")),
        ("removal", include_str!("removal.rs")),
        ("vm_change", include_str!("vm_change.rs")),
    ];
    for (file, text) in files {
        let used = text.split("each(&[").skip(1).filter_map(|rest| rest.split(']').next());
        let used: Vec<&str> = used.flat_map(|pairs| pairs.split(", ")).collect();
        for pve in [8, 9] {
            for talos in [11, 12, 13] {
                let pair = format!("PVE_{pve}_TALOS_{talos}");
                assert!(used.contains(&pair.as_str()), "{file} has no scenario with {pair}");
            }
        }
    }
}
