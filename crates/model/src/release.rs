//! Talos releases that talmox supports, and the Kubernetes versions that each release supports.

use crate::value::{KubernetesVersion, TalosVersion};

/// Minor release of Talos.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Minor version of Talos 1.x.
    pub minor: u64,
    /// Oldest and newest minor version of Kubernetes 1.x that the release supports.
    pub kubernetes: (u64, u64),
    /// Patch version of the default Kubernetes version. The minor version of the default is the newest supported one.
    pub default_kubernetes_patch: u64,
}

/// Supported releases, oldest first.
pub const RELEASES: &[Release] = &[
    Release { minor: 8, kubernetes: (26, 31), default_kubernetes_patch: 4 },
    Release { minor: 9, kubernetes: (27, 32), default_kubernetes_patch: 4 },
    Release { minor: 10, kubernetes: (28, 33), default_kubernetes_patch: 6 },
    Release { minor: 11, kubernetes: (29, 34), default_kubernetes_patch: 1 },
    Release { minor: 12, kubernetes: (30, 35), default_kubernetes_patch: 4 },
    Release { minor: 13, kubernetes: (31, 36), default_kubernetes_patch: 3 },
    Release { minor: 14, kubernetes: (32, 37), default_kubernetes_patch: 0 },
];

/// Talos version of a new inventory.
pub fn default_talos() -> TalosVersion {
    TalosVersion::new(1, 13, 9)
}

impl Release {
    /// Release of a Talos version; `None` if talmox does not support the release.
    pub fn of(version: &TalosVersion) -> Option<&'static Self> {
        let (major, minor) = version.minor();
        RELEASES.iter().find(|release| major == 1 && release.minor == minor)
    }

    pub fn runs(&self, kubernetes: &KubernetesVersion) -> bool {
        let (major, minor) = kubernetes.minor();
        major == 1 && (self.kubernetes.0..=self.kubernetes.1).contains(&minor)
    }

    pub fn default_kubernetes(&self) -> KubernetesVersion {
        KubernetesVersion::new(1, self.kubernetes.1, self.default_kubernetes_patch)
    }
}
