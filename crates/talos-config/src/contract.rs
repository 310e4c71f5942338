//! The version contract: what a Talos version wants in its config, answered in one place.
//!
//! A contract is a minor version. Configs for Talos 1.14 are made with contract 1.13, which its
//! nodes take as they are.

use std::fmt;
use std::str::FromStr;

/// A Talos minor version that a config is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    major: u32,
    minor: u32,
}

/// The text names no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing version {0:?}")]
pub struct ContractError(String);

impl FromStr for Contract {
    type Err = ContractError;

    /// Reads `1.12`, `v1.12`, `v1.12.7`, `1.13.0-rc.1`…
    fn from_str(version: &str) -> Result<Self, ContractError> {
        let refused = || ContractError(version.to_owned());
        let text = version.strip_prefix('v').unwrap_or(version);
        let mut parts = text.splitn(3, '.');
        let mut number = || {
            let digits = parts.next().filter(|digits| !digits.is_empty())?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { digits.parse().ok() } else { None }
        };
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "v{}.{}", self.major, self.minor)
    }
}

impl Contract {
    /// The oldest and the newest contract that configs are made for.
    pub const OLDEST: Self = Self::new(1, 8);
    pub const NEWEST: Self = Self::new(1, 13);

    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The contract to make configs with for nodes of this version.
    #[must_use]
    pub fn for_nodes(self) -> Self {
        self.min(Self::NEWEST)
    }

    fn since(self, minor: u32) -> bool {
        self >= Self::new(1, minor)
    }

    /// `HostnameConfig`, `RegistryMirrorConfig` and the like instead of v1alpha1 keys.
    pub fn network_documents(self) -> bool {
        self.since(12)
    }

    /// `features.stableHostname`, before there was `HostnameConfig`.
    pub fn stable_hostname_feature(self) -> bool {
        !self.network_documents()
    }

    /// `features.rbac` and `features.apidCheckExtKeyUsage` are written although always on.
    pub fn shows_rbac_features(self) -> bool {
        !self.since(12)
    }

    /// `apiServer.disablePodSecurityPolicy` is written although it does nothing any more.
    pub fn shows_disabled_psp(self) -> bool {
        !self.since(12)
    }

    /// The endpoint's host goes into the API server's certificate.
    pub fn endpoint_in_api_server_sans(self) -> bool {
        !self.since(12)
    }

    /// GRUB takes its kernel arguments from the UKI.
    pub fn grub_uses_uki_cmdline(self) -> bool {
        self.since(12)
    }

    /// An empty `machine.network` is written.
    pub fn shows_empty_network(self) -> bool {
        !self.since(13)
    }

    /// `KubeSpanConfig` instead of `machine.network.kubespan`.
    pub fn kubespan_document(self) -> bool {
        self.since(13)
    }

    /// Disk encryption belongs into `VolumeConfig`.
    pub fn volume_encryption_document(self) -> bool {
        self.since(11)
    }

    /// Workers know the cluster's name.
    pub fn cluster_name_for_workers(self) -> bool {
        self.since(8)
    }

    /// CoreDNS is pointed at the host's resolver.
    pub fn forwards_kube_dns_to_host(self) -> bool {
        self.since(8)
    }

    /// Control planes are kept out of external load balancers by a label.
    pub fn excludes_from_load_balancers(self) -> bool {
        self.since(8)
    }

    /// `features.hostDNS`.
    pub fn host_dns(self) -> bool {
        self.since(7)
    }

    /// The service account key is RSA.
    pub fn rsa_service_account_key(self) -> bool {
        self.since(7)
    }

    /// KubePrism is on by default.
    pub fn kube_prism(self) -> bool {
        self.since(6)
    }

    /// `features.diskQuotaSupport`.
    pub fn disk_quota(self) -> bool {
        self.since(5)
    }

    /// Secrets in etcd are encrypted with secretbox; with AES-CBC before.
    pub fn secretbox(self) -> bool {
        self.since(3)
    }

    /// The installer image carries the platform: `nocloud-installer`, `metal-installer`.
    pub fn platform_installers(self) -> bool {
        self.since(10)
    }

    /// What this Talos version runs, if it is one we know.
    pub fn support(self) -> Option<&'static Support> {
        SUPPORT.iter().find(|support| support.talos == self)
    }
}

/// Which Kubernetes versions a Talos version runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    pub talos: Contract,
    /// The oldest and newest Kubernetes minor version (1.x) it runs.
    pub kubernetes_min: u32,
    pub kubernetes_max: u32,
    /// What it installs when nothing is said.
    pub kubernetes_default: &'static str,
    /// The oldest Talos version that may be upgraded to it.
    pub upgrade_from: Contract,
}

impl Support {
    /// Whether this Talos version runs a Kubernetes version such as `v1.33.2`.
    pub fn runs_kubernetes(&self, version: &str) -> Option<bool> {
        let version: Contract = version.parse().ok()?;
        let minors = self.kubernetes_min..=self.kubernetes_max;
        Some(version.major == 1 && minors.contains(&version.minor))
    }
}

const fn supports(
    talos: u32,
    kubernetes_min: u32,
    kubernetes_max: u32,
    kubernetes_default: &'static str,
    upgrade_from: u32,
) -> Support {
    Support {
        talos: Contract::new(1, talos),
        kubernetes_min,
        kubernetes_max,
        kubernetes_default,
        upgrade_from: Contract::new(1, upgrade_from),
    }
}

static SUPPORT: &[Support] = &[
    supports(8, 26, 31, "1.31.4", 5),
    supports(9, 27, 32, "1.32.4", 8),
    supports(10, 28, 33, "1.33.6", 8),
    supports(11, 29, 34, "1.34.1", 9),
    supports(12, 30, 35, "1.35.4", 10),
    supports(13, 31, 36, "1.36.3", 11),
    // Its release candidate brought 1.37.0-rc.0.
    supports(14, 32, 37, "1.37.0", 12),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(version: &str) -> Contract {
        version.parse().expect("a version")
    }

    #[test]
    fn versions_are_read_as_talos_does() {
        assert_eq!(contract("1.12"), Contract::new(1, 12));
        assert_eq!(contract("v1.13.0-rc.1"), Contract::new(1, 13));
        assert_eq!(contract("v1.8").to_string(), "v1.8");
        for wrong in ["", "v1", "1.x", "1.12-rc.1", "vv1.2", "1..2"] {
            assert!(wrong.parse::<Contract>().is_err(), "{wrong}");
        }
        assert_eq!(contract("1.14.2").for_nodes(), Contract::NEWEST);
    }

    #[test]
    fn kubernetes_must_be_in_the_window() {
        let support = contract("v1.12.7").support().unwrap();
        assert_eq!(support.runs_kubernetes("v1.35.0"), Some(true));
        assert_eq!(support.runs_kubernetes("1.36.0"), Some(false));
        assert_eq!(support.runs_kubernetes("latest"), None);
        assert!(Contract::new(1, 99).support().is_none());
    }
}
