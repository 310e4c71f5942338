//! Version contract: the config features of each Talos version.
//!
//! A contract is a minor version of Talos. Configs for Talos 1.14 are generated with contract 1.13, because nodes with
//! Talos 1.14 accept them unchanged.

use std::fmt;
use std::str::FromStr;

/// Talos minor version that a config is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    major: u32,
    minor: u32,
}

/// Error for a text that is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing version {0:?}")]
pub struct ContractError(String);

impl FromStr for Contract {
    type Err = ContractError;

    /// Parses versions such as `1.12`, `v1.12`, `v1.12.7` and `1.13.0-rc.1`.
    fn from_str(version: &str) -> Result<Self, ContractError> {
        let rejected = || ContractError(version.to_owned());
        let text = version.strip_prefix('v').unwrap_or(version);
        let mut parts = text.splitn(3, '.');
        let mut number = || {
            let digits = parts.next().filter(|digits| !digits.is_empty())?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { digits.parse().ok() } else { None }
        };
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(rejected()),
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "v{}.{}", self.major, self.minor)
    }
}

impl Contract {
    /// Oldest and newest contract for which configs can be generated.
    pub const OLDEST: Self = Self::new(1, 8);
    pub const NEWEST: Self = Self::new(1, 13);

    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Contract for generating configs of nodes with this Talos version.
    #[must_use]
    pub fn for_nodes(self) -> Self {
        self.min(Self::NEWEST)
    }

    fn since(self, minor: u32) -> bool {
        self >= Self::new(1, minor)
    }

    /// Whether `HostnameConfig`, `RegistryMirrorConfig` and similar documents replace v1alpha1 keys.
    pub fn network_documents(self) -> bool {
        self.since(12)
    }

    /// Whether `features.stableHostname` is written. `HostnameConfig` replaces it in later versions.
    pub fn stable_hostname_feature(self) -> bool {
        !self.network_documents()
    }

    /// Whether `features.rbac` and `features.apidCheckExtKeyUsage` are written, although they are always enabled.
    pub fn shows_rbac_features(self) -> bool {
        !self.since(12)
    }

    /// Whether `apiServer.disablePodSecurityPolicy` is written, although it no longer has an effect.
    pub fn shows_disabled_psp(self) -> bool {
        !self.since(12)
    }

    /// Whether the host of the endpoint is added to the certificate of the API server.
    pub fn endpoint_in_api_server_sans(self) -> bool {
        !self.since(12)
    }

    /// Whether GRUB uses the kernel arguments of the UKI.
    pub fn grub_uses_uki_cmdline(self) -> bool {
        self.since(12)
    }

    /// Whether an empty `machine.network` is written.
    pub fn shows_empty_network(self) -> bool {
        !self.since(13)
    }

    /// Whether `KubeSpanConfig` replaces `machine.network.kubespan`.
    pub fn kubespan_document(self) -> bool {
        self.since(13)
    }

    /// Whether `VolumeConfig` documents contain the settings for disk encryption.
    pub fn volume_encryption_document(self) -> bool {
        self.since(11)
    }

    /// Whether the config of a worker contains the name of the cluster.
    pub fn cluster_name_for_workers(self) -> bool {
        self.since(8)
    }

    /// Whether CoreDNS forwards queries to the resolver of the host.
    pub fn forwards_kube_dns_to_host(self) -> bool {
        self.since(8)
    }

    /// Whether control planes have the label that excludes them from external load balancers.
    pub fn excludes_from_load_balancers(self) -> bool {
        self.since(8)
    }

    /// Whether `features.hostDNS` is written.
    pub fn host_dns(self) -> bool {
        self.since(7)
    }

    /// Whether the service account key is an RSA key.
    pub fn rsa_service_account_key(self) -> bool {
        self.since(7)
    }

    /// Whether KubePrism is enabled by default.
    pub fn kube_prism(self) -> bool {
        self.since(6)
    }

    /// Whether `features.diskQuotaSupport` is written.
    pub fn disk_quota(self) -> bool {
        self.since(5)
    }

    /// Whether secrets in etcd are encrypted with secretbox. Otherwise they are encrypted with AES-CBC.
    pub fn secretbox(self) -> bool {
        self.since(3)
    }

    /// Whether the name of the installer image contains the platform: `nocloud-installer`, `metal-installer`.
    pub fn platform_installers(self) -> bool {
        self.since(10)
    }

    /// Kubernetes versions that this Talos version supports; `None` for an unknown Talos version.
    pub fn support(self) -> Option<&'static Support> {
        SUPPORT.iter().find(|support| support.talos == self)
    }
}

/// Kubernetes versions that a Talos version supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    pub talos: Contract,
    /// Oldest and newest Kubernetes minor version (1.x).
    pub kubernetes_min: u32,
    pub kubernetes_max: u32,
    /// Kubernetes version that is installed by default.
    pub kubernetes_default: &'static str,
    /// Oldest Talos version from which an upgrade to this version is possible.
    pub upgrade_from: Contract,
}

impl Support {
    /// Whether this Talos version supports a Kubernetes version such as `v1.33.2`.
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
    // The release candidate of Talos 1.14 installs 1.37.0-rc.0.
    supports(14, 32, 37, "1.37.0", 12),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(version: &str) -> Contract {
        version.parse().expect("a version")
    }

    #[test]
    fn versions_are_parsed_as_in_talos() {
        assert_eq!(contract("1.12"), Contract::new(1, 12));
        assert_eq!(contract("v1.13.0-rc.1"), Contract::new(1, 13));
        assert_eq!(contract("v1.8").to_string(), "v1.8");
        for wrong in ["", "v1", "1.x", "1.12-rc.1", "vv1.2", "1..2"] {
            assert!(wrong.parse::<Contract>().is_err(), "{wrong}");
        }
        assert_eq!(contract("1.14.2").for_nodes(), Contract::NEWEST);
    }

    #[test]
    fn kubernetes_versions_are_checked_against_the_supported_range() {
        let support = contract("v1.12.7").support().unwrap();
        assert_eq!(support.runs_kubernetes("v1.35.0"), Some(true));
        assert_eq!(support.runs_kubernetes("1.36.0"), Some(false));
        assert_eq!(support.runs_kubernetes("latest"), None);
        assert!(Contract::new(1, 99).support().is_none());
    }
}
