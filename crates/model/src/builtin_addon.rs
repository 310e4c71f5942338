//! Add-ons that an inventory can name with `builtin:`.

/// Add-on with a pinned chart and with values for Talos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinAddon {
    pub name: &'static str,
    /// URL of the Helm repository.
    pub repo: &'static str,
    /// Name of the chart in the repository.
    pub chart: &'static str,
    /// Version of the chart, unless the inventory sets another one.
    pub version: &'static str,
    pub namespace: &'static str,
    /// Values for Talos, as YAML. The values of the inventory win over them.
    pub values: &'static str,
    /// Whether the add-on installs a pod network and replaces kube-proxy.
    pub is_network: bool,
}

/// Values that the documentation of Talos names for Cilium. Hubble is off because its chart creates new certificates at every
/// rendering, so each run would find a difference.
const CILIUM: &str = "\
ipam: {mode: kubernetes}
kubeProxyReplacement: true
k8sServiceHost: localhost
k8sServicePort: 7445
cgroup:
  autoMount: {enabled: false}
  hostRoot: /sys/fs/cgroup
securityContext:
  capabilities:
    ciliumAgent: [CHOWN, KILL, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_ADMIN, SYS_RESOURCE, DAC_OVERRIDE, FOWNER, SETGID, SETUID]
    cleanCiliumState: [NET_ADMIN, SYS_ADMIN, SYS_RESOURCE]
hubble: {enabled: false}
";

/// All built-in add-ons, sorted by name.
pub const BUILTIN_ADDONS: &[BuiltinAddon] = &[BuiltinAddon {
    name: "cilium",
    repo: "https://helm.cilium.io",
    chart: "cilium",
    version: "1.16.5",
    namespace: "kube-system",
    values: CILIUM,
    is_network: true,
}];

impl BuiltinAddon {
    /// The built-in add-on with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        BUILTIN_ADDONS.iter().find(|known| known.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_every_built_in_add_on_are_a_mapping() {
        for known in BUILTIN_ADDONS {
            let documents = talmox_yaml::read(known.values).unwrap();
            assert!(documents.len() == 1 && documents[0].as_map().is_some(), "{}", known.name);
            assert_eq!(BuiltinAddon::named(known.name), Some(known));
        }
        assert_eq!(BuiltinAddon::named("no-such"), None);
    }
}
