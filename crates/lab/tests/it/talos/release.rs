//! Tests that a node accepts the documents and keys of its release, and rejects those of later releases.

use talmox_talos_api::TalosError;
use talmox_talos_api::client::{Apply, ApplyMode};
use talmox_talos_config::secret::SecretText;

use super::test_bed::{TestBed, until};

/// Documents, each with the minor release of Talos 1 that introduced its kind.
const DOCUMENTS: [(u32, &str); 12] = [
    (8, "kind: KmsgLogConfig\nname: a\nurl: tcp://10.0.0.1:1/"),
    (
        10,
        "kind: UserVolumeConfig\nname: data\nprovisioning: {diskSelector: {match: 'true'}, minSize: 1GiB}",
    ),
    (10, "kind: PCIDriverRebindConfig\nname: '0000:04:00.0'\ntargetDriver: vfio-pci"),
    (
        11,
        "kind: RawVolumeConfig\nname: raw\nprovisioning: {diskSelector: {match: 'true'}, minSize: 1GiB}",
    ),
    (11, "kind: ZswapConfig\nmaxPoolPercent: 20"),
    (12, "kind: StaticHostConfig\nname: 10.5.0.2\nhostnames: [a.example]"),
    (12, "kind: LinkConfig\nname: eth7\nup: true"),
    (12, "kind: OOMConfig\nsampleInterval: 100ms"),
    (13, "kind: EnvironmentConfig\nvariables: {GRPC_GO_LOG_SEVERITY_LEVEL: info}"),
    (14, "kind: KernelModuleConfig\nname: nvme\nparameters: [a=b]"),
    (14, "kind: KubeFlannelCNIConfig\nbackend: {type: vxlan}"),
    (15, "kind: SometimeConfig\nname: a"),
];

/// Documents with a key that is newer than their kind: minor release of the kind, minor release of the key, and the document.
const LATER_KEYS: [(u32, u32, &str); 7] = [
    (8, 14, "kind: VolumeConfig\nname: EPHEMERAL\ntrim: {enabled: true, interval: 24h}"),
    (
        10,
        14,
        "kind: UserVolumeConfig\nname: data\nfilesystem: {type: xfs, xfs: {minAllocationGroupSize: 1GiB}}\n\
         provisioning: {diskSelector: {match: 'true'}, minSize: 1GiB}",
    ),
    (
        11,
        14,
        "kind: SwapVolumeConfig\nname: swap\nprovisioning: {diskSelector: {match: 'true'}, minSize: 1GiB}\n\
         encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}], allowDiscards: true}",
    ),
    (12, 14, "kind: DHCPv4Config\nname: eth7\nignoreRoutes: true"),
    (12, 14, "kind: TimeSyncConfig\nntp: {servers: [time.example], useNTS: true}"),
    (
        12,
        14,
        "kind: ResolverConfig\nnameservers: [{address: 9.9.9.9, protocol: DoT, tlsServerName: dns.example}, \
         {address: 10.0.0.1}]",
    ),
    (12, 12, "kind: TimeSyncConfig\nntp: {servers: [time.example]}"),
];

/// Keys of the v1alpha1 document: minor release, preceding line in the document, and key.
const KEYS: [(u32, &str, &str); 2] = [
    (9, "diskQuotaSupport: true", "imageCache: {localEnabled: false}"),
    (12, "wipe: false", "grubUseUKICmdline: true"),
];

/// Checks all documents and keys on a node of this release.
fn check_release(minor: u32, version: &str) {
    let bed = TestBed::new(version);
    bed.start(11);
    bed.lab.wait(async {
        let good = bed.config(11, true);
        let anonymous = bed.maintenance(11);
        let apply = async |text: &SecretText| {
            anonymous.apply(&Apply { config: text, mode: ApplyMode::Auto, dry_run: true }).await
        };
        until("maintenance mode", || async { apply(&good).await.ok() }).await;
        let check_config =
            async |what: &str, config: String, since: u32, rejection: &str| match apply(
                &SecretText::new(config),
            )
            .await
            {
                Ok(_) => assert!(since <= minor, "{version} took {what}"),
                Err(TalosError::No { message, .. }) => {
                    assert!(since > minor, "{version} rejected {what}: {message}");
                    assert!(message.contains(rejection), "{version}: {what}: {message}");
                }
                Err(other) => panic!("{version}: {what}: {other:?}"),
            };
        for (since, document) in DOCUMENTS {
            let kind = document.lines().next().unwrap().trim_start_matches("kind: ");
            let config = format!("{}---\napiVersion: v1alpha1\n{document}\n", good.expose());
            let rejection = format!("{kind:?} \"v1alpha1\": not registered");
            check_config(kind, config, since, &rejection).await;
        }
        for (since_kind, since, document) in LATER_KEYS {
            let config = format!("{}---\napiVersion: v1alpha1\n{document}\n", good.expose());
            let rejection = if minor < since_kind {
                "\"v1alpha1\": not registered"
            } else {
                "unknown keys found during decoding:"
            };
            check_config(document, config, since, rejection).await;
        }
        for (since, line, key) in KEYS {
            assert!(good.expose().contains(line), "{line}");
            if !good.expose().contains(key) {
                let config = good.expose().replacen(line, &format!("{line}\n        {key}"), 1);
                check_config(key, config, since, "unknown keys found during decoding:").await;
            }
        }
    });
    bed.lab.stop();
}

macro_rules! releases {
    ($($name:ident: $minor:literal, $version:literal;)+) => {
        $(#[test]
        fn $name() {
            check_release($minor, $version);
        })+
    };
}

releases! {
    a_node_of_1_8_refuses_what_came_later: 8, "v1.8.4";
    a_node_of_1_9_refuses_what_came_later: 9, "v1.9.6";
    a_node_of_1_10_refuses_what_came_later: 10, "v1.10.9";
    a_node_of_1_11_refuses_what_came_later: 11, "v1.11.6";
    a_node_of_1_12_refuses_what_came_later: 12, "v1.12.7";
    a_node_of_1_13_refuses_what_came_later: 13, "v1.13.6";
    a_node_of_1_14_knows_the_documents_it_brought: 14, "v1.14.0-rc.1";
}
