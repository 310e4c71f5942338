//! Documents beside the v1alpha1 one, and patches that are no strategic merge.

/// Documents of their own: kind and body. The kinds grew with the releases; what an older one does not
/// know it refuses, and so must we.
pub(crate) const DOCUMENTS: &[(&str, &str)] = &[
    (
        "ExtensionServiceConfig",
        "name: tailscale\nenvironment:\n  - TS_AUTHKEY=tskey-1\n  - TS_ROUTES=10.0.0.0/8",
    ),
    (
        "ExtensionServiceConfig",
        "name: tailscale\nenvironment: [TS_ACCEPT_DNS=false]",
    ),
    (
        "ExtensionServiceConfig",
        "name: nut-client\nconfigFiles:\n  - content: MONITOR a\n    mountPath: /usr/local/etc/nut/upsmon.conf",
    ),
    (
        "ExtensionServiceConfig",
        "name: nut-client\nconfigFiles:\n  - content: |-\n      MONITOR b\n      X\n    mountPath: /usr/local/etc/nut/upsmon.conf\n  - {content: '', mountPath: /b}",
    ),
    ("HostnameConfig", "hostname: talos-cp-01\nauto: off"),
    ("HostnameConfig", "hostname: '007'\nauto: \"off\""),
    ("HostnameConfig", "auto: stable"),
    ("HostnameConfig", "hostname: only"),
    (
        "LinkConfig",
        "name: eth0\nup: true\nmtu: 1_500\naddresses:\n  - address: 10.0.0.11/16\nroutes:\n  - gateway: 10.0.0.1",
    ),
    (
        "LinkConfig",
        "name: eth0\naddresses: [{address: fd00::11/64, routePriority: 0}]\nroutes: [{destination: 10.9.0.0/16, gateway: 10.0.0.2, metric: 10, table: main}]",
    ),
    ("LinkConfig", "name: eth1\nup: no\nmulticast: false"),
    ("LinkConfig", "name: eth1\nmtu: 0\naddresses: []"),
    (
        "LinkConfig",
        "name: eth0\nroutes: [{destination: '', gateway: ''}]",
    ),
    (
        "DHCPv4Config",
        "name: eth0\nrouteMetric: 512\nignoreHostname: true\nclientIdentifier: mac",
    ),
    (
        "DHCPv4Config",
        "name: eth0\nclientIdentifier: duid\nduidRaw: 00:01:02:0a",
    ),
    ("DHCPv6Config", "name: eth0\nclientIdentifier: none"),
    (
        "VLANConfig",
        "name: eth0.20\nvlanID: 20\nvlanMode: 802.1q\nparent: eth0\nup: true\naddresses: [{address: 10.20.0.5/24}]",
    ),
    ("VLANConfig", "name: eth0.20\nvlanID: 21\nvlanMode: 802.1ad"),
    (
        "BondConfig",
        "name: bond0\nlinks: [eth1, eth2]\nbondMode: 802.3ad\nmiimon: 100\nxmitHashPolicy: layer2+3\nlacpRate: slow\nhardwareAddr: 02:00:00:00:00:01",
    ),
    (
        "BondConfig",
        "name: bond0\nlinks: [eth3]\nmiimon: 0\nuseCarrier: false\nadSelect: bandwidth\nfailOverMac: active\narpIpTargets: [10.0.0.1]",
    ),
    (
        "BridgeConfig",
        "name: br0\nlinks: [eth0]\nstp: {enabled: true}\nvlan: {filtering: false}",
    ),
    (
        "DummyLinkConfig",
        "name: dummy0\nhardwareAddr: \"02:00:00:00:00:02\"\naddresses: [{address: 10.99.0.1/32}]",
    ),
    ("Layer2VIPConfig", "name: 10.0.0.20\nlink: eth0"),
    (
        "HCloudVIPConfig",
        "name: fd00::20\nlink: eth0\napiToken: 0123",
    ),
    (
        "LinkAliasConfig",
        "name: net0\nselector:\n  match: mac(link.permanent_addr) == \"00:1a:2b:3c:4d:5e\"",
    ),
    (
        "ResolverConfig",
        "nameservers: [{address: 1.1.1.1}, {address: 'fd00::53'}]\nsearchDomains: {domains: [lan], disableDefault: true}",
    ),
    (
        "ResolverConfig",
        "nameservers: []\nsearchDomains: {domains: [corp]}",
    ),
    (
        "StaticHostConfig",
        "name: 10.0.0.5\nhostnames: [nas, nas.lan]",
    ),
    ("StaticHostConfig", "name: 10.0.0.5\nhostnames: [files]"),
    (
        "TimeSyncConfig",
        "enabled: true\nbootTimeout: 2m\nntp: {servers: [pool.ntp.org]}",
    ),
    (
        "TimeSyncConfig",
        "enabled: off\nbootTimeout: 0s\nntp: {servers: []}",
    ),
    ("TimeSyncConfig", "ptp: {devices: [/dev/ptp0]}"),
    (
        "WireguardConfig",
        "name: wg1\nprivateKey: ABCDEF0123456789ABCDEF0123456789ABCDEF01234=\nlistenPort: 51820\npeers:\n  - publicKey: 0123456789ABCDEF0123456789ABCDEF0123456789A=\n    endpoint: 10.3.4.5:51820\n    allowedIPs: [192.168.2.0/24]\n    persistentKeepaliveInterval: 25s",
    ),
    (
        "EthernetConfig",
        "name: eth0\nrings: {rx: 1024}\nfeatures: {tx-checksum-ipv4: false}\nwakeOnLan: [magic, unicast]",
    ),
    (
        "EthernetConfig",
        "name: eth0\nrings: {rx: 0, tx: 128}\nchannels: {combined: 4}\nfeatures: {tx-checksum-ipv4: on}",
    ),
    (
        "KubeSpanEndpointsConfig",
        "extraAnnouncedEndpoints: ['192.168.13.46:52000', '[fd00::1]:51820']",
    ),
    ("NetworkDefaultActionConfig", "ingress: block"),
    ("NetworkDefaultActionConfig", "ingress: accept"),
    (
        "NetworkRuleConfig",
        "name: apid\nportSelector:\n  ports: [50000, 50001-50010]\n  protocol: tcp\ningress:\n  - subnet: 10.0.0.0/8\n    except: 10.1.0.0/16",
    ),
    (
        "NetworkRuleConfig",
        "name: apid\nportSelector: {ports: [51000], protocol: udp}\ningress: [{subnet: 192.168.0.0/16}]",
    ),
    (
        "NetworkRuleConfig",
        "name: apid\nportSelector: {ports: []}\ningress: []",
    ),
    (
        "UserVolumeConfig",
        "name: longhorn\nprovisioning:\n  diskSelector:\n    match: disk.transport == \"nvme\" && !system_disk\n  minSize: 10GB\n  maxSize: 100GiB\n  grow: false",
    ),
    (
        "UserVolumeConfig",
        "name: longhorn\nfilesystem: {type: ext4}\nprovisioning: {minSize: 1073741824, maxSize: 80%}",
    ),
    ("UserVolumeConfig", "name: data\nvolumeType: directory"),
    (
        "UserVolumeConfig",
        "name: data\nprovisioning: {diskSelector: {match: 'disk.size > 10u * GB'}, maxSize: 1.5GB}\nencryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}, {slot: 1, static: {passphrase: s}}]}",
    ),
    (
        "RawVolumeConfig",
        "name: rawdata\nprovisioning: {diskSelector: {match: '!system_disk'}, minSize: 2GiB}",
    ),
    (
        "SwapVolumeConfig",
        "name: swap1\nprovisioning: {diskSelector: {match: disk.rotational}, maxSize: 4GB}",
    ),
    (
        "ExistingVolumeConfig",
        "name: old\ndiscovery: {volumeSelector: {match: volume.partition_label == 'x'}}\nmount: {readOnly: true}",
    ),
    (
        "VolumeConfig",
        "name: EPHEMERAL\nprovisioning:\n  diskSelector: {match: 'true'}\n  maxSize: 50GB",
    ),
    (
        "VolumeConfig",
        "name: EPHEMERAL\nencryption: {provider: luks2, keys: [{slot: 0, tpm: {}}], options: [no_read_workqueue]}",
    ),
    (
        "VolumeConfig",
        "name: STATE\nencryption: {provider: luks2, keys: [{slot: 0, tpm: {options: {pcrs: [7, 11]}, checkSecurebootStatusOnEnroll: true}}]}",
    ),
    ("ZswapConfig", "maxPoolPercent: 25\nshrinkerEnabled: true"),
    (
        "OOMConfig",
        "sampleInterval: 100ms\nstrictCgroupClassOrdering: true",
    ),
    (
        "WatchdogTimerConfig",
        "device: /dev/watchdog0\ntimeout: 120s",
    ),
    (
        "WatchdogTimerConfig",
        "device: /dev/watchdog1\ntimeout: 1m30s",
    ),
    (
        "KmsgLogConfig",
        "name: remote\nurl: tcp://192.168.3.7:3478/",
    ),
    ("KmsgLogConfig", "name: remote\nurl: udp://10.0.0.1:514"),
    ("EventSinkConfig", "endpoint: 192.168.10.3:3247"),
    (
        "SideroLinkConfig",
        "apiUrl: https://siderolink.api/?jointoken=secret&user=alice",
    ),
    (
        "TrustedRootsConfig",
        "name: my-ca\ncertificates: |\n  -----BEGIN CERTIFICATE-----\n  AAAA\n  -----END CERTIFICATE-----",
    ),
    (
        "PCIDriverRebindConfig",
        "name: 0000:04:00.00\ntargetDriver: vfio-pci",
    ),
    (
        "RegistryMirrorConfig",
        "name: docker.io\nendpoints:\n  - url: https://mirror.example/v2\n    overridePath: true\nskipFallback: false",
    ),
    (
        "RegistryMirrorConfig",
        "name: docker.io\nendpoints: [{url: 'http://10.0.0.9:5000'}]",
    ),
    (
        "RegistryAuthConfig",
        "name: docker.io\nusername: me\npassword: 0123",
    ),
    (
        "RegistryTLSConfig",
        "name: mirror.example\ninsecureSkipVerify: true",
    ),
    (
        "EnvironmentConfig",
        "variables: {A: b, http_proxy: 'http://p:1', N: 007}",
    ),
    (
        "KubeSpanConfig",
        "enabled: true\nmtu: 1380\nfilters: {endpoints: ['0.0.0.0/0'], excludeAdvertisedNetworks: [10.0.0.0/8]}",
    ),
    ("KubeSpanConfig", "enabled: false\nmtu: 0"),
    (
        "ImageVerificationConfig",
        "rules:\n  - image: registry.k8s.io/*\n    keyless: {issuer: https://accounts.google.com, subject: a@b.c}\n  - image: '*'\n    skip: true",
    ),
    (
        "ImageVerificationConfig",
        "rules: [{image: registry.k8s.io/*, deny: true}]",
    ),
    ("BlackholeRouteConfig", "name: 10.200.0.0/16\nmetric: 100"),
    (
        "RoutingRuleConfig",
        "name: '1000'\nsrc: 10.0.0.0/8\ntable: '100'\naction: unicast",
    ),
    ("VRFConfig", "name: vrf0\nlinks: [eth0]\ntable: '123'"),
    (
        "TCPProbeConfig",
        "name: probe\nendpoint: 10.0.0.1:80\ninterval: 1s\ntimeout: 500ms\nfailureThreshold: 3",
    ),
    (
        "ExternalVolumeConfig",
        "name: share\nfilesystemType: virtiofs\nmount: {virtiofs: {tag: data}}",
    ),
];

/// What the named documents above can be deleted by.
pub(crate) const DOCUMENT_DELETES: &[(&str, &str)] = &[
    ("HostnameConfig", ""),
    ("LinkConfig", "name: eth0"),
    ("LinkConfig", "name: eth1"),
    ("ExtensionServiceConfig", "name: tailscale"),
    ("ExtensionServiceConfig", "name: nut-client"),
    ("NetworkRuleConfig", "name: apid"),
    ("UserVolumeConfig", "name: longhorn"),
    ("RegistryMirrorConfig", "name: docker.io"),
    ("VLANConfig", "name: eth0.20"),
    ("ResolverConfig", ""),
    ("EnvironmentConfig", ""),
    ("KubeSpanConfig", ""),
];

/// Deletes inside documents: the body of a patch document.
pub(crate) const DOCUMENT_FIELD_DELETES: &[(&str, &str)] = &[
    ("HostnameConfig", "auto: {$patch: delete}\nhostname: n1"),
    (
        "LinkConfig",
        "name: eth0\naddresses:\n  - address: 10.0.0.11/16\n    $patch: delete\n  - address: 10.0.0.99/16",
    ),
    ("LinkConfig", "name: eth0\nroutes: {$patch: delete}"),
    ("LinkConfig", "name: eth0\nmtu: {$patch: delete}"),
    (
        "ExtensionServiceConfig",
        "name: nut-client\nconfigFiles:\n  - mountPath: /b\n    $patch: delete",
    ),
    (
        "ExtensionServiceConfig",
        "name: tailscale\nenvironment: {$patch: delete}",
    ),
    (
        "NetworkRuleConfig",
        "name: apid\ningress:\n  - subnet: 10.0.0.0/8\n    $patch: delete",
    ),
    (
        "NetworkRuleConfig",
        "name: apid\nportSelector:\n  ports: {$patch: delete}",
    ),
    (
        "UserVolumeConfig",
        "name: longhorn\nprovisioning: {minSize: {$patch: delete}}",
    ),
    (
        "ResolverConfig",
        "nameservers:\n  - address: 1.1.1.1\n    $patch: delete",
    ),
    (
        "RegistryMirrorConfig",
        "name: docker.io\nendpoints:\n  - url: https://mirror.example/v2\n    $patch: delete",
    ),
    ("EnvironmentConfig", "variables: {A: {$patch: delete}}"),
    (
        "UserVolumeConfig",
        "name: longhorn\nprovisioning: {diskSelector: {match: {$patch: delete}}}",
    ),
];

/// Whole documents that are refused, or nearly.
pub(crate) const ODD_DOCUMENTS: &[&str] = &[
    "apiVersion: v1alpha1\nkind: LinkConfg\nname: eth0",
    "apiVersion: v1beta1\nkind: LinkConfig\nname: eth0",
    "kind: LinkConfig\nname: eth0",
    "apiVersion: v1alpha1\nname: eth0",
    "apiVersion: v1alpha1\nkind: LinkConfig",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtuu: 1",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [10.0.0.1/24]",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{address: 10.0.0.1}]",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: 7\nmtu: '9000'",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: null\nup: null",
    "apiVersion: v1alpha1\nkind: BondConfig\nname: bond0\nbondMode: best",
    "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: sometimes",
    "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: ~",
    "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: r\nportSelector: {ports: [10-5], protocol: tcp}",
    "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: r\nportSelector: {ports: [http], protocol: tcp}",
    "apiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: r\nportSelector: {ports: ['51000'], protocol: tcp}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nprovisioning: {diskSelector: {match: 'disk.size >'}}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nprovisioning: {minSize: 10 parsecs}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nprovisioning: {maxSize: 180%}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nfilesystem: {type: zfs}",
    "apiVersion: v1alpha1\nkind: WatchdogTimerConfig\ntimeout: 120",
    "apiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: not-an-ip\nlink: eth0",
    "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: k\nurl: 'tcp://[::1'",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n$patch: replace",
    "kind: HostnameConfig\n$patch: delete",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: nosuch\n$patch: delete",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: nosuch\nmtu: {$patch: delete}",
    "$patch: delete",
    "[]",
    "text",
    "null",
    "{}",
    "# nothing but a comment",
    "machine: {type: worker}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nprovisioning: {maxSize: -5GB}",
    "apiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\nprovisioning: {maxSize: -10%}",
    "apiVersion: v1alpha1\nkind: UserVolumeConfig\nname: v\nprovisioning: {minSize: {}, diskSelector: {match: {}}}",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{address: {}}]",
    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtu: 1.5",
    "apiVersion: v1alpha1\nkind: OOMConfig\nsampleInterval: 0\ntriggerExpression: {}",
    "apiVersion: v1alpha1\nkind: KubeSpanEndpointsConfig\nextraAnnouncedEndpoints: ['[fe80::1%eth0]:80']",
    "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: k\nurl: http://%68/",
    "{apiVersion: v1alpha1, kind: ResolverConfig, nameservers: [{address: ::1}]}",
    "{apiVersion: v1alpha1, kind: LinkConfig, name: -}",
];

/// Patches that are no strategic merge: JSON6902 in JSON and YAML, and what only looks like one.
pub(crate) const WHOLE_PATCHES: &[&str] = &[
    "- op: add\n  path: /machine/certSANs/-\n  value: talos.example.org",
    "[{\"op\": \"replace\", \"path\": \"/machine/install/disk\", \"value\": \"/dev/vda\"}]",
    "[{\"op\": \"add\", \"path\": \"/machine/sysctls\", \"value\": {\"a\": \"0644\"}}, {\"op\": \"copy\", \"from\": \"/machine/type\", \"path\": \"/cluster/clusterName\"}]",
    "- {op: remove, path: /cluster/discovery}",
    "- op: remove\n  path: /machine/nothing",
    "- op: replace\n  path: /machine/nothing\n  value: 1",
    "- op: test\n  path: /machine/install/wipe\n  value: false\n- op: replace\n  path: /machine/install/wipe\n  value: true",
    "- op: test\n  path: /persist\n  value: false",
    "- op: move\n  from: /machine/certSANs\n  path: /cluster/extraManifests",
    "- op: add\n  path: /machine/unknown\n  value: x",
    "- op: add\n  path: /machine/nodeLabels/a~1b\n  value: \"1\"",
    "- op: jump\n  path: /machine",
    "- path: /machine",
    "- op: add\n  path: /machine/certSANs/7\n  value: x",
    "- op: add\n  path: /machine/certSANs/0\n  value: first",
    "- op: add\n  path: /cluster/apiServer/extraArgs\n  value: {v: \"1_000\"}",
    "[]",
    "- machine\n- cluster",
    "[{\"op\": \"add\"",
    "machine: [",
    "machine:\n\ttype: worker",
    "",
    "---\n---\n",
    "{\"machine\": {\"sysctls\": {\"a\": \"b\"}}}",
    "- op: test\n  path: /machine/nothing\n  value: null",
    "[{\"op\": \"test\", \"path\": \"/machine/nothing\", \"value\": null}]",
    "- op: add\n  path: /machine/kubelet/extraConfig\n  value: {f: 1e6, g: -0, h: 1.50, n: yes}",
];
