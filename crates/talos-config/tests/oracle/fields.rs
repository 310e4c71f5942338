//! What random patches are made of: fragments as people write them, and some as they should not.
//!
//! A field is a dotted path into the v1alpha1 document and the YAML that stands there. Names come from
//! small pools (`eth0`, `eth1`, VLAN 10 and 20…), so that fragments of different patches meet in the
//! same place and have to be merged. Several lines may name the same path: they are alternatives.

/// Fields that Talos accepts on their own.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    // Network, by name.
    ("machine.network.hostname", "talos-cp-01"),
    ("machine.network.hostname", "'007'"),
    ("machine.network.hostname", "1e3"),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  dhcp: true",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  dhcp: false\n  mtu: 9000\n  addresses: [10.0.0.11/16]\n  routes:\n    - network: 0.0.0.0/0\n      gateway: 10.0.0.1\n      metric: 1_024",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth1\n  addresses:\n    - 10.1.0.11/24\n    - fd00::11/64\n- interface: eth0\n  vip: {ip: 10.0.0.20}",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  ignore: off\n  dummy: no",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  cidr: 10.9.0.1/8\n  mtu: 0",
    ),
    // Network, by selector: equal selectors merge, others append.
    (
        "machine.network.interfaces",
        "- deviceSelector:\n    hardwareAddr: \"bc:24:11:00:00:01\"\n  addresses: [10.0.0.12/16]",
    ),
    (
        "machine.network.interfaces",
        "- deviceSelector: {hardwareAddr: 'bc:24:11:00:00:01'}\n  mtu: 1400\n  dhcpOptions: {routeMetric: 100, ipv4: true, duidv6: 00:01:02}",
    ),
    (
        "machine.network.interfaces",
        "- deviceSelector: {driver: virtio*, physical: true}\n  dhcp: yes\n- deviceSelector: {busPath: 00:*}\n  mtu: 1500",
    ),
    (
        "machine.network.interfaces",
        "- deviceSelector: {physical: true, driver: virtio*}\n  ignore: true",
    ),
    // VLANs, bonds, bridges, wireguard.
    (
        "machine.network.interfaces",
        "- interface: eth0\n  vlans:\n    - vlanId: 10\n      addresses: [192.168.10.5/24]\n      dhcp: false",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  vlans:\n    - vlanId: 10\n      mtu: 1400\n      vip: {ip: 192.168.10.20}\n    - vlanId: 20\n      routes: [{network: 10.20.0.0/16, gateway: 192.168.20.1}]",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth1\n  vlans:\n    - vlanId: 0x14\n      dhcp: on",
    ),
    (
        "machine.network.interfaces",
        "- interface: bond0\n  bond:\n    mode: 802.3ad\n    lacpRate: fast\n    xmitHashPolicy: layer3+4\n    miimon: 100\n    updelay: 200\n    interfaces: [eth1, eth2]\n  dhcp: true",
    ),
    (
        "machine.network.interfaces",
        "- interface: bond0\n  bond:\n    mode: active-backup\n    deviceSelectors:\n      - hardwareAddr: 'bc:24:11:*'\n        driver: virtio_net\n    useCarrier: false\n    adActorSysPrio: 65535",
    ),
    (
        "machine.network.interfaces",
        "- interface: br0\n  bridge:\n    interfaces: [eth0]\n    stp: {enabled: true}\n    vlan: {vlanFiltering: false}",
    ),
    (
        "machine.network.interfaces",
        "- interface: wg0\n  wireguard:\n    privateKey: ABCDEF0123456789ABCDEF0123456789ABCDEF01234=\n    listenPort: 51820\n    peers:\n      - publicKey: 0123456789ABCDEF0123456789ABCDEF0123456789A=\n        endpoint: 192.168.1.2:51820\n        persistentKeepaliveInterval: 25s\n        allowedIPs: [10.10.0.0/24]",
    ),
    ("machine.network.interfaces", "[]"),
    ("machine.network.nameservers", "[1.1.1.1, 8.8.8.8]"),
    (
        "machine.network.nameservers",
        "- 9.9.9.9\n- 2606:4700:4700::1111",
    ),
    ("machine.network.nameservers", "[]"),
    ("machine.network.searchDomains", "[lan, home.arpa]"),
    ("machine.network.disableSearchDomain", "on"),
    (
        "machine.network.extraHostEntries",
        "- ip: 10.0.0.5\n  aliases: [nas, nas.lan]",
    ),
    (
        "machine.network.kubespan",
        "{enabled: true, mtu: 1_400, filters: {endpoints: ['0.0.0.0/0', '!192.168.0.0/16']}}",
    ),
    ("machine.network.kubespan.mtu", "0"),
    (
        "machine.network.kubespan.advertiseKubernetesNetworks",
        "false",
    ),
    // Install and disks.
    ("machine.install.disk", "/dev/vda"),
    ("machine.install.disk", "\"\""),
    (
        "machine.install.image",
        "factory.example/nocloud-installer/abc:v1.12.0",
    ),
    ("machine.install.wipe", "true"),
    ("machine.install.bootloader", "n"),
    (
        "machine.install.extraKernelArgs",
        "[net.ifnames=0, -selinux]",
    ),
    (
        "machine.install.extensions",
        "- image: ghcr.io/siderolabs/gvisor:20220117.0-v1.0.0",
    ),
    (
        "machine.install.diskSelector",
        "{size: '>= 100GB', type: ssd}",
    ),
    (
        "machine.install.diskSelector",
        "size: 4GB\nmodel: WDC*\nbusPath: /pci0000:00/*",
    ),
    ("machine.install.legacyBIOSSupport", "true"),
    ("machine.install.grubUseUKICmdline", "false"),
    (
        "machine.disks",
        "- device: /dev/sdb\n  partitions:\n    - mountpoint: /var/mnt/extra\n      size: 100 MB",
    ),
    (
        "machine.disks",
        "- device: /dev/sdb\n  partitions:\n    - mountpoint: /var/mnt/rest",
    ),
    (
        "machine.disks",
        "- device: /dev/sdc\n  partitions:\n    - mountpoint: /var/mnt/exact\n      size: 10737418240",
    ),
    // Kubelet.
    (
        "machine.kubelet.image",
        "ghcr.io/siderolabs/kubelet:v1.33.1",
    ),
    ("machine.kubelet.clusterDNS", "[10.96.0.10, 169.254.2.53]"),
    (
        "machine.kubelet.extraArgs",
        "rotate-server-certificates: true",
    ),
    (
        "machine.kubelet.extraArgs",
        "{v: 2, feature-gates: A=true, node-labels: 'a=b,c=d'}",
    ),
    (
        "machine.kubelet.extraArgs",
        "max-pods: 0250\nsystem-reserved: cpu=100m",
    ),
    ("machine.kubelet.extraArgs", "v: ''"),
    ("machine.kubelet.extraArgs.feature-gates", "B=false"),
    (
        "machine.kubelet.extraMounts",
        "- destination: /var/lib/longhorn\n  type: bind\n  source: /var/lib/longhorn\n  options: [bind, rshared, rw]",
    ),
    (
        "machine.kubelet.extraMounts",
        "- {destination: /var/local, source: /var/local, type: bind, options: []}",
    ),
    (
        "machine.kubelet.extraMounts",
        "- destination: /mnt/id\n  source: /mnt/id\n  uidMappings: [{containerID: 0, hostID: 1_000, size: 0x10}]\n  gidMappings: [{hostID: 1000}]",
    ),
    (
        "machine.kubelet.nodeIP",
        "{validSubnets: [10.0.0.0/8, '!10.1.0.0/16']}",
    ),
    (
        "machine.kubelet.extraConfig",
        "serverTLSBootstrap: true\nmaxPods: 250\nevictionHard: {memory.available: 5%}\nimageGCHighThresholdPercent: 85.0",
    ),
    (
        "machine.kubelet.extraConfig",
        "{maxPods: 110, evictionHard: {nodefs.available: 10%}, allowedUnsafeSysctls: [a, b]}",
    ),
    (
        "machine.kubelet.extraConfig",
        "{allowedUnsafeSysctls: [c], featureGates: {A: yes, B: 'yes'}}",
    ),
    ("machine.kubelet.registerWithFQDN", "true"),
    ("machine.kubelet.skipNodeRegistration", "false"),
    ("machine.kubelet.defaultRuntimeSeccompProfileEnabled", "off"),
    (
        "machine.kubelet.credentialProviderConfig",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: [{name: ecr, defaultCacheDuration: 12h, apiVersion: v1, matchImages: ['*.dkr']}]",
    ),
    // Machine, the rest.
    ("machine.certSANs", "[10.0.0.20, talos.example.org]"),
    ("machine.certSANs", "- fd00::1\n- '10'\n- 10"),
    ("machine.certSANs", "[]"),
    (
        "machine.nodeLabels",
        "{topology.kubernetes.io/zone: a, gpu: \"true\"}",
    ),
    ("machine.nodeLabels", "gpu: 'false'\nempty: ''"),
    ("machine.nodeAnnotations", "{owner: me, count: \"7\"}"),
    ("machine.nodeTaints", "{dedicated: 'gpu:NoSchedule'}"),
    (
        "machine.sysctls",
        "{net.core.somaxconn: \"65535\", vm.nr_hugepages: 1024}",
    ),
    (
        "machine.sysctls",
        "net.core.somaxconn: 4096\nnet.ipv4.ip_forward: on",
    ),
    ("machine.sysctls", "{}"),
    (
        "machine.sysfs",
        "{devices.system.cpu.cpu0.cpufreq.scaling_governor: performance}",
    ),
    (
        "machine.env",
        "{http_proxy: 'http://proxy:3128', GRPC_GO_LOG_VERBOSITY_LEVEL: 99}",
    ),
    (
        "machine.kernel.modules",
        "- name: nvidia\n- name: nvidia_uvm",
    ),
    (
        "machine.kernel.modules",
        "- name: br_netfilter\n  parameters: [nf_conntrack_max=131072]\n- name: nvidia\n  parameters: []",
    ),
    (
        "machine.files",
        "- content: |\n    [plugins]\n      x = true\n  permissions: 0o644\n  path: /etc/cri/conf.d/20-customization.part\n  op: create",
    ),
    (
        "machine.files",
        "- {content: hello, permissions: 0644, path: /var/etc/a, op: create}\n- {content: '', permissions: 420, path: /var/etc/b, op: overwrite}",
    ),
    (
        "machine.files",
        "- content: \"a\\tb\\nc\"\n  permissions: 0\n  path: /var/c\n  op: append",
    ),
    (
        "machine.files",
        "- content: >-\n    folded\n    text\n\n    end\n  path: /var/d\n  permissions: 0o7777",
    ),
    (
        "machine.time",
        "{disabled: false, servers: [time.cloudflare.com], bootTimeout: 2m0s}",
    ),
    ("machine.time", "servers: [pool.ntp.org]\nbootTimeout: 90s"),
    ("machine.time.bootTimeout", "1h"),
    ("machine.time.bootTimeout", "0"),
    (
        "machine.registries",
        "mirrors:\n  docker.io:\n    endpoints: [https://mirror.example]\n    overridePath: true",
    ),
    (
        "machine.registries",
        "mirrors: {docker.io: {endpoints: ['https://mirror2.example']}, '*': {skipFallback: true}}",
    ),
    (
        "machine.registries",
        "config:\n  mirror.example:\n    auth: {username: u, password: '0123'}\n    tls: {insecureSkipVerify: true, ca: LS0tLS0K}",
    ),
    (
        "machine.registries.config",
        "mirror.example: {auth: {auth: YTpi}, tls: {insecureSkipVerify: no}}",
    ),
    (
        "machine.logging",
        "destinations:\n  - endpoint: udp://127.0.0.1:12345\n    format: json_lines\n    extraTags: {server: s03}",
    ),
    (
        "machine.logging",
        "destinations: [{endpoint: 'tcp://[fd00::1]:5044/', format: json_lines}]",
    ),
    (
        "machine.udev.rules",
        "- SUBSYSTEM==\"drm\", KERNEL==\"renderD*\", GROUP=\"44\", MODE=\"0660\"",
    ),
    (
        "machine.systemDiskEncryption",
        "ephemeral: {provider: luks2, keys: [{nodeID: {}, slot: 0}]}",
    ),
    (
        "machine.systemDiskEncryption",
        "state:\n  provider: luks2\n  keys:\n    - tpm: {}\n      slot: 1\n    - static: {passphrase: 1234}\n      slot: 2\n  options: [no_read_workqueue]",
    ),
    ("machine.features.kubePrism", "{enabled: false}"),
    ("machine.features.kubePrism.port", "7_446"),
    (
        "machine.features.hostDNS",
        "{enabled: true, forwardKubeDNSToHost: false, resolveMemberNames: true}",
    ),
    (
        "machine.features.kubernetesTalosAPIAccess",
        "{enabled: true, allowedRoles: [os:reader], allowedKubernetesNamespaces: [kube-system]}",
    ),
    ("machine.features.imageCache.localEnabled", "true"),
    ("machine.features.nodeAddressSortAlgorithm", "v2"),
    ("machine.features.rbac", "false"),
    ("machine.features.diskQuotaSupport", "no"),
    (
        "machine.controlPlane",
        "controllerManager: {disabled: true}\nscheduler: {disabled: false}",
    ),
    (
        "machine.seccompProfiles",
        "- name: audit.json\n  value: {defaultAction: SCMP_ACT_LOG, n: 1.50}",
    ),
    (
        "machine.baseRuntimeSpecOverrides",
        "{process: {rlimits: [{type: RLIMIT_NOFILE, hard: 1024, soft: 1024}]}}",
    ),
    (
        "machine.pods",
        "- apiVersion: v1\n  kind: Pod\n  metadata: {name: nginx, creationTimestamp: null, annotations: {a: 2020-01-01}}\n  spec: {containers: [{name: nginx, image: nginx, ports: [{containerPort: 080}]}]}",
    ),
    ("machine.acceptedCAs", "- crt: LS0tLS1CRUdJTg=="),
    ("machine.token", "123456.0123456789012345"),
    ("machine.type", "controlplane"),
    ("machine.type", "worker"),
    // Cluster.
    ("cluster.clusterName", "0x10"),
    ("cluster.clusterName", "home"),
    (
        "cluster.controlPlane",
        "{endpoint: 'https://10.0.0.20:6443', localAPIServerPort: 7443}",
    ),
    (
        "cluster.controlPlane.endpoint",
        "https://user@k8s.example.org:443/path?x=1#frag",
    ),
    ("cluster.controlPlane.endpoint", "HTTPS://[FD00::1]:6443"),
    ("cluster.network.cni", "{name: none}"),
    (
        "cluster.network.cni",
        "name: custom\nurls: [https://example.com/cni.yaml]",
    ),
    (
        "cluster.network.cni",
        "name: flannel\nflannel: {extraArgs: ['--iface=eth0'], kubeNetworkPoliciesEnabled: true}",
    ),
    ("cluster.network.podSubnets", "[10.42.0.0/16]"),
    ("cluster.network.podSubnets", "[10.42.0.0/16, fd00:42::/56]"),
    ("cluster.network.podSubnets", "[]"),
    ("cluster.network.serviceSubnets", "- 10.43.0.0/16"),
    ("cluster.network.dnsDomain", "corp.local"),
    ("cluster.apiServer.certSANs", "[api.example.org]"),
    (
        "cluster.apiServer.extraArgs",
        "{oidc-issuer-url: 'https://id.example', audit-log-maxage: 030}",
    ),
    (
        "cluster.apiServer.extraArgs",
        "audit-log-maxage: 1_0\nanonymous-auth: false",
    ),
    ("cluster.apiServer.env", "{A: b, N: 12}"),
    (
        "cluster.apiServer.extraVolumes",
        "- {hostPath: /var/lib/x, mountPath: /x, readonly: true}\n- hostPath: /var/y\n  mountPath: /y",
    ),
    (
        "cluster.apiServer.resources",
        "requests: {cpu: 1, memory: 1Gi}\nlimits: {cpu: 1.5}",
    ),
    (
        "cluster.apiServer.admissionControl",
        "- name: PodSecurity\n  configuration:\n    exemptions:\n      namespaces: [longhorn-system]\n    defaults: {enforce: privileged}",
    ),
    (
        "cluster.apiServer.admissionControl",
        "- name: EventRateLimit\n  configuration: {limits: [{type: Server, qps: 5000, burst: 20_000}]}",
    ),
    (
        "cluster.apiServer.admissionControl",
        "- name: PodSecurity\n  configuration: {defaults: null, extra: {a: [1, two, 3.0]}}",
    ),
    (
        "cluster.apiServer.auditPolicy",
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n  - level: None\n    users: [system:kube-proxy]\n  - level: RequestResponse",
    ),
    ("cluster.apiServer.auditPolicy", "{}"),
    ("cluster.apiServer.disablePodSecurityPolicy", "false"),
    (
        "cluster.apiServer.authorizationConfig",
        "- type: Webhook\n  name: hook\n  webhook: {timeout: 3s, failurePolicy: Deny, retries: 1e2}",
    ),
    (
        "cluster.controllerManager.extraArgs",
        "{bind-address: 0.0.0.0, node-cidr-mask-size: 24}",
    ),
    (
        "cluster.controllerManager.image",
        "registry.k8s.io/kube-controller-manager:v1.33.1",
    ),
    ("cluster.proxy", "{disabled: true}"),
    (
        "cluster.proxy",
        "mode: nftables\nextraArgs: {metrics-bind-address: '0.0.0.0:10249'}",
    ),
    (
        "cluster.scheduler.config",
        "profiles: [{schedulerName: s, plugins: {score: {disabled: [{name: '*'}]}}}]",
    ),
    ("cluster.scheduler.extraArgs", "bind-address: '::'"),
    ("cluster.discovery", "{enabled: false}"),
    (
        "cluster.discovery",
        "registries: {kubernetes: {disabled: false}, service: {endpoint: https://discovery.example/, disabled: y}}",
    ),
    (
        "cluster.etcd",
        "{extraArgs: {election-timeout: 5000}, advertisedSubnets: [10.0.0.0/16]}",
    ),
    (
        "cluster.etcd.extraArgs",
        "listen-metrics-urls: http://0.0.0.0:2381",
    ),
    ("cluster.coreDNS", "{disabled: true}"),
    (
        "cluster.externalCloudProvider",
        "enabled: true\nmanifests: ['https://example.com/ccm.yaml']",
    ),
    ("cluster.extraManifests", "[https://example.com/a.yaml]"),
    (
        "cluster.extraManifestHeaders",
        "{Token: '1234567', X-ExtraInfo: info}",
    ),
    (
        "cluster.inlineManifests",
        "- name: ns\n  contents: |\n    apiVersion: v1\n    kind: Namespace\n    metadata:\n      name: ci\n",
    ),
    (
        "cluster.inlineManifests",
        "- name: cilium\n  contents: \"# chart\\n---\\na: b  \\n\"\n- {name: empty, contents: ''}",
    ),
    ("cluster.adminKubeconfig", "{certLifetime: 8760h}"),
    ("cluster.allowSchedulingOnControlPlanes", "true"),
    ("cluster.allowSchedulingOnMasters", "false"),
    ("debug", "true"),
    ("persist", "no"),
    ("version", "v1alpha1"),
];

/// Paths that a generated config has, to be deleted whole.
pub(crate) const GENERATED_PATHS: &[&str] = &[
    "machine.features.kubePrism",
    "machine.features.hostDNS.forwardKubeDNSToHost",
    "machine.features",
    "machine.install.image",
    "machine.install",
    "machine.kubelet",
    "machine.network",
    "machine.certSANs",
    "machine.nodeLabels",
    "machine.ca.key",
    "cluster.discovery",
    "cluster.discovery.registries.kubernetes",
    "cluster.apiServer",
    "cluster.apiServer.auditPolicy",
    "cluster.apiServer.admissionControl",
    "cluster.network",
    "cluster.network.podSubnets",
    "cluster.proxy",
    "cluster.etcd",
    "cluster",
];

/// Deletes of list elements: the first other key selects.
pub(crate) const ELEMENT_DELETES: &[(&str, &str)] = &[
    (
        "machine.network.interfaces",
        "- interface: eth0\n  $patch: delete",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  $patch: delete\n- interface: eth5\n  dhcp: true",
    ),
    (
        "machine.network.interfaces",
        "- $patch: delete\n  interface: eth1",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  vlans:\n    - vlanId: 10\n      $patch: delete",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: {$patch: delete}",
    ),
    (
        "machine.network.interfaces",
        "- mtu: 9000\n  $patch: delete",
    ),
    (
        "machine.network.interfaces",
        "- dhcp: true\n  $patch: delete",
    ),
    ("machine.kernel.modules", "- name: nvidia\n  $patch: delete"),
    (
        "machine.kubelet.extraMounts",
        "- destination: /var/lib/longhorn\n  $patch: delete",
    ),
    ("machine.files", "- path: /var/etc/a\n  $patch: delete"),
    ("machine.files", "- permissions: 0644\n  $patch: delete"),
    ("machine.disks", "- device: /dev/sdb\n  $patch: delete"),
    ("machine.pods", "- kind: Pod\n  $patch: delete"),
    (
        "cluster.apiServer.admissionControl",
        "- name: PodSecurity\n  $patch: delete",
    ),
    (
        "cluster.apiServer.extraVolumes",
        "- readonly: true\n  $patch: delete",
    ),
    (
        "cluster.inlineManifests",
        "- name: cilium\n  $patch: delete",
    ),
    (
        "cluster.extraManifests",
        "- https://example.com/a.yaml\n- $patch: delete",
    ),
    ("machine.certSANs", "- $patch: delete"),
    ("machine.registries.mirrors", "docker.io: {$patch: delete}"),
    ("machine.nodeLabels", "gpu: {$patch: delete}\nnew: label"),
    ("machine.kubelet.extraArgs", "v: {$patch: delete}"),
    ("machine.kubelet.extraConfig", "maxPods: {$patch: delete}"),
    (
        "machine.kubelet.extraConfig",
        "evictionHard: {memory.available: {$patch: delete}}",
    ),
    (
        "cluster.apiServer.admissionControl",
        "- name: PodSecurity\n  configuration: {exemptions: {$patch: delete}}",
    ),
    (
        "cluster.apiServer.auditPolicy",
        "{$patch: delete, kind: Policy}",
    ),
    ("machine.systemDiskEncryption", "state: {$patch: delete}"),
    (
        "machine.sysctls",
        "net.core.somaxconn: {$patch: delete}\nvm.swappiness: 1",
    ),
    ("machine.sysctls", "$patch: delete\nx: y"),
    ("machine.sysctls", "{$patch: remove}"),
    ("machine.ca", "crt: {$patch: delete}"),
    ("cluster.ca", "key: {$patch: delete}"),
    ("cluster.serviceAccount", "{key: {$patch: delete}}"),
    (
        "machine.registries",
        "config: {mirror.example: {tls: {$patch: delete}}}",
    ),
    (
        "cluster.apiServer.admissionControl",
        "- configuration: {}\n  $patch: delete",
    ),
];

/// Fields that Talos refuses, or that it reads in its own way.
pub(crate) const ODD_FIELDS: &[(&str, &str)] = &[
    ("machine.instal", "{disk: /dev/sda}"),
    ("machine.network.interface", "[]"),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  adresses: [10.0.0.1/24]",
    ),
    ("cluster.apiServer.extraArg", "{a: b}"),
    ("machine.Type", "worker"),
    ("foo", "bar"),
    ("kind", "v1alpha1"),
    ("apiVersion", "v1alpha1"),
    ("machine.certSANs", "10.0.0.1"),
    ("machine.certSANs", "{a: b}"),
    ("machine.certSANs", "[[a]]"),
    ("machine.certSANs", "[null, a]"),
    ("machine.certSANs", "null"),
    ("machine.sysctls", "[a]"),
    ("machine.sysctls", "{a: [1]}"),
    ("machine.sysctls", "{a: {b: c}}"),
    ("machine.sysctls", "null"),
    ("machine.sysctls", "~"),
    ("machine.sysctls", ""),
    ("machine.sysctls", "a: 1\na: 2"),
    ("machine.sysctls", "&x {a: b}"),
    ("machine.install.wipe", "maybe"),
    ("machine.install.wipe", "'true'"),
    ("machine.install.wipe", "1"),
    ("machine.install.wipe", "null"),
    ("machine.install.wipe", "\"\""),
    ("machine.install", "null"),
    ("machine.install", "[]"),
    ("machine.install", "''"),
    ("machine.install.diskSelector", "{size: lots}"),
    ("machine.install.diskSelector", "{type: floppy}"),
    ("machine.network.interfaces", "{interface: eth0}"),
    ("machine.network.interfaces", "- eth0"),
    ("machine.network.interfaces", "[null]"),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: big",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: '1500'",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: 1500.0",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: 1e3",
    ),
    ("machine.network.interfaces", "- interface: eth0\n  mtu: -1"),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  vlans: [{vlanId: 70000}]",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  routes: [{metric: -1}]",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  vlans: null\n  dhcp: null",
    ),
    ("machine.network.interfaces", "- mtu: 1500\n- mtu: 1400"),
    (
        "machine.network.interfaces",
        "- &a {interface: eth0, mtu: 1450}\n- {<<: *a, interface: eth1}\n- *a",
    ),
    (
        "machine.files",
        "- {content: x, permissions: rw-r--r--, path: /x, op: create}",
    ),
    (
        "machine.files",
        "- {content: x, permissions: 0888, path: /x}",
    ),
    (
        "machine.files",
        "- {content: x, permissions: '0644', path: /x}",
    ),
    (
        "machine.files",
        "- {content: 12, permissions: 0x1a4, path: 0644}",
    ),
    (
        "machine.files",
        "- {content: null, permissions: 1_0, path: off}",
    ),
    ("machine.time.bootTimeout", "soon"),
    ("machine.time.bootTimeout", "120"),
    ("machine.time.bootTimeout", "1.5h"),
    (
        "machine.disks",
        "- {device: /dev/sdb, partitions: [{size: much}]}",
    ),
    (
        "machine.logging",
        "{destinations: [{endpoint: 'http://[::1'}]}",
    ),
    ("machine.kubelet.extraArgs", "{a: [x, y]}"),
    ("machine.kubelet.extraArgs", "{a: {b: c}}"),
    ("machine.kubelet.extraArgs", "{v: null}"),
    (
        "machine.kubelet.extraConfig",
        "{maxPods: ten, 1: one, true: yes}",
    ),
    ("machine.kubelet.extraConfig", "{evictionHard: [a]}"),
    ("machine.kubelet.extraConfig", "[a]"),
    ("machine.kubelet.extraConfig", "null"),
    ("machine.acceptedCAs", "- crt: not-base64!"),
    ("machine.ca", "{crt: '', key: ''}"),
    ("machine.type", "unknown"),
    ("machine.type", "1"),
    ("machine.features.kubePrism.port", "seven"),
    ("machine.features.kubePrism.port", "99999999999999999999"),
    ("cluster.controlPlane.endpoint", "10.0.0.1:6443"),
    ("cluster.controlPlane.endpoint", "''"),
    ("cluster.controlPlane.endpoint", "'https://a b'"),
    ("cluster.controlPlane.endpoint", "https://h:port"),
    ("cluster.controlPlane.endpoint", "null"),
    ("cluster.adminKubeconfig", "{certLifetime: 1d}"),
    ("cluster.network.podSubnets", "null"),
    ("cluster.network.podSubnets", "10.0.0.0/8"),
    ("cluster.apiServer.auditPolicy", "null"),
    ("cluster.apiServer.auditPolicy", "[]"),
    (
        "cluster.apiServer.admissionControl",
        "[{name: PodSecurity, configuration: {defaults: [a]}}]",
    ),
    ("cluster.apiServer.extraVolumes", "[{readonly: 'yes'}]"),
    ("cluster.inlineManifests", "[{name: a, contents: {b: c}}]"),
    ("cluster", "null"),
    ("machine", "null"),
    ("machine", "{}"),
    ("cluster", "[]"),
    ("debug", "maybe"),
    ("version", "v1beta1"),
    // Numbers that are none, or not quite.
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: 1500.5",
    ),
    (
        "machine.network.interfaces",
        "- interface: eth0\n  mtu: !!str 1500",
    ),
    ("machine.features.kubePrism.port", ".5"),
    (
        "machine.files",
        "- {content: x, permissions: 1.5, path: /x}",
    ),
    ("cluster.adminKubeconfig", "{certLifetime: 0}"),
    // Keys and tags that are none.
    ("machine.sysctls", "{~: [a], b: c}"),
    ("machine.sysctls", "{~: a}"),
    (
        "machine.kubelet.extraConfig",
        "{a: !!int '12', b: !!str 12, c: !!float 1}",
    ),
    ("machine.kubelet.extraConfig", "{a: !!binary aGk=}"),
    (
        "machine.registries",
        "{config: {a: {tls: {ca: !!binary aGk=}}}}",
    ),
    ("cluster.network.cni", "{name: !!binary aGk=}"),
    ("machine.network.hostname", "-"),
    ("machine.network.hostname", "<<"),
    ("cluster.controlPlane.endpoint", "https://h%41st:6443"),
    // Dates are fine where Talos does not have to copy them.
    ("machine.baseRuntimeSpecOverrides", "{a: 2020-01-01}"),
    ("machine.kubelet.extraConfig", "{a: 2020-01-01}"),
];
