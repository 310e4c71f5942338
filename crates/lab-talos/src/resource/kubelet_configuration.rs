//! Configuration file of the kubelet.

use serde_json::{Map, Value, json};

use super::kubelet::{cluster_dns, table};
use crate::config::AppliedConfig;

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// `KubeletConfiguration` as Talos writes it. For a duration that is not set, Talos writes zero.
pub(super) fn configuration(config: &AppliedConfig, static_pod_url: &str) -> Map<String, Value> {
    let extra = table(config, "machine.kubelet.extraConfig");
    let skips_registration = config.flag("machine.kubelet.skipNodeRegistration");
    let is_control_plane = config.facts.is_control_plane;
    let mut all = defaults(is_control_plane);
    let mut set = |key: &str, value: Value| all.insert(key.to_owned(), value);
    set("clusterDNS", cluster_dns(config));
    set("clusterDomain", config.facts.dns_domain.as_str().into());
    set("staticPodURL", static_pod_url.into());
    set(
        "authentication",
        json!({
            "anonymous": { "enabled": false },
            "webhook": { "cacheTTL": "0s", "enabled": !skips_registration },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        }),
    );
    set(
        "authorization",
        json!({
            "mode": if skips_registration { "AlwaysAllow" } else { "Webhook" },
            "webhook": { "cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s" },
        }),
    );
    if !config.flag("machine.kubelet.disableManifestsDirectory") {
        set("staticPodPath", "/etc/kubernetes/manifests".into());
    }
    if config.flag("machine.kubelet.defaultRuntimeSeccompProfileEnabled") {
        set("seccompDefault", true.into());
    }
    all.extend(extra);
    if config.flag("machine.features.diskQuotaSupport") {
        let gates = all.entry("featureGates").or_insert_with(|| json!({}));
        let name = "LocalStorageCapacityIsolationFSQuotaMonitoring";
        if gates.get(name).is_none() {
            gates[name] = true.into();
        }
    }
    if is_control_plane && !config.facts.schedules_on_control_planes && !skips_registration {
        let taints = all.entry("registerWithTaints").or_insert_with(|| json!([]));
        let is_set = taints.as_array().into_iter().flatten().any(|t| t["key"] == CONTROL_PLANE);
        if let Some(taints) = taints.as_array_mut().filter(|_| !is_set) {
            taints.push(json!({ "effect": "NoSchedule", "key": CONTROL_PLANE }));
        }
    }
    all
}

fn defaults(is_control_plane: bool) -> Map<String, Value> {
    let all = json!({
        "address": "0.0.0.0",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "cgroupRoot": "/",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cpuManagerReconcilePeriod": "0s",
        "crashLoopBackOff": {},
        "evictionPressureTransitionPeriod": "0s",
        "failSwapOn": false,
        "fileCheckFrequency": "0s",
        "httpCheckFrequency": "0s",
        "imageMaximumGCAge": "0s",
        "imageMinimumGCAge": "0s",
        "kind": "KubeletConfiguration",
        "kubeletCgroups": "/podruntime/kubelet",
        "logging": {
            "flushFrequency": 0,
            "format": "json",
            "options": { "json": { "infoBufferSize": "0" }, "text": { "infoBufferSize": "0" } },
            "verbosity": 0,
        },
        "memorySwap": {},
        "nodeStatusReportFrequency": "0s",
        "nodeStatusUpdateFrequency": "0s",
        "oomScoreAdj": -450,
        "port": 10_250,
        "protectKernelDefaults": true,
        "resolvConf": "/system/resolved/resolv.conf",
        "rotateCertificates": true,
        "runtimeRequestTimeout": "0s",
        "serializeImagePulls": false,
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
        "streamingConnectionIdleTimeout": "5m0s",
        "syncFrequency": "0s",
        "systemCgroups": "/system",
        "systemReserved": {
            "cpu": "50m",
            "ephemeral-storage": "256Mi",
            "memory": if is_control_plane { "512Mi" } else { "384Mi" },
            "pid": "100",
        },
        "tlsMinVersion": "VersionTLS13",
        "volumeStatsAggPeriod": "0s",
    });
    all.as_object().cloned().unwrap_or_default()
}

/// Value with sorted keys. Go writes maps in this order.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            fields
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}
