//! Codes of the diagnostics of an inventory.

crate::codes! {
    /// Stable name of a diagnostic of an inventory.
    pub enum Code {
        Unreadable = "unreadable" {
            title: "A file cannot be read",
            meaning: "A file of the inventory, or a file that the inventory names, exists but cannot be opened. Usually the \
                permissions of the file or of its folder do not let the current user read it, or the path is a folder.",
            action: "Run `ls -l` on the path in the message and correct owner, mode or path.",
        }
        TooLarge = "too-large" {
            title: "A file is larger than an inventory can be",
            meaning: "talmox limits the size of the files that it reads, so that a wrong path (an image, a log) cannot use up the \
                memory.",
            action: "Check that the path names the file you meant. Move large manifests into files of their own, and refer to them.",
        }
        NotUtf8 = "not-utf8" {
            title: "A file is not UTF-8 text",
            meaning: "YAML files of an inventory are UTF-8. The file has bytes that are not, for example because an editor saved it \
                as UTF-16 or Latin-1, or because it is an encrypted or binary file.",
            action: "Save the file as UTF-8: `iconv -f latin1 -t utf-8 FILE`. Secrets belong into the secrets bundle: `talmox \
                secrets set`.",
        }
        Syntax = "syntax" {
            title: "A file is not valid YAML",
            meaning: "The YAML parser stopped at the marked place, so nothing of the file is used. Common causes are tabs, wrong \
                indentation, a missing space after a colon, and text that starts with `*`, `&`, `{` or `[` without quotes.",
            action: "Correct the marked line. If the mark looks right, check the line before it.",
        }
        SeveralDocuments = "several-documents" {
            title: "A file has several YAML documents",
            meaning: "The file has more than one document, separated by `---`, where talmox reads one. Only machine config patches \
                and manifests can have several.",
            action: "Keep one document, or move the others into files of their own.",
        }
        UnknownKey = "unknown-key" {
            title: "The inventory language has no such key",
            meaning: "A key is misspelled, stands at the wrong level, or belongs to another tool. talmox rejects unknown keys, \
                because a setting without effect is worse than an error.",
            action: "Use the key that the hint suggests, or look it up in the schema: `talmox schema`. Editors complete keys with \
                that schema. Settings of Talos itself belong into `patches:`.",
        }
        MisplacedKey = "misplaced-key" {
            title: "A key is in the wrong file or in two files",
            meaning: "Some keys belong to the file of the cluster and others to the list of nodes; the same list must not be in \
                both.",
            action: "Move the key into the file that the message names, and keep it in one file only.",
        }
        DuplicateKey = "duplicate-key" {
            title: "A key is in one mapping twice",
            meaning: "YAML does not allow a key twice, and parsers disagree about which value counts. talmox therefore rejects it.",
            action: "Delete one of the two marked keys.",
        }
        AliasConflict = "alias-conflict" {
            title: "A setting is given under two of its names",
            meaning: "Some settings have a second name for compatibility with other tools. Both names are present, so it is unclear \
                which value counts.",
            action: "Keep the name that the hint shows, and delete the other one.",
        }
        WrongType = "wrong-type" {
            title: "A value has the wrong type",
            meaning: "The value is, for example, a text where a number or a list is expected. Unquoted `yes`, `on` and `1.10` are not \
                text in YAML.",
            action: "Write the value in the form that the message shows; put text that looks like a number into quotes.",
        }
        BadValue = "bad-value" {
            title: "A value is malformed or not allowed",
            meaning: "The value has the right type, but Proxmox, Talos or Kubernetes would reject it: an address, name, size, version \
                or machine config setting.",
            action: "Correct the value as the hint shows. `talmox check --explain NODE` shows which file a value of a node comes \
                from.",
        }
        Missing = "missing" {
            title: "A required setting is missing",
            meaning: "Without the setting talmox cannot describe the cluster, and no default would be safe.",
            action: "Add the setting that the hint names. `talmox init` writes an inventory with all required settings.",
        }
        NeededLater = "needed-later" {
            title: "A setting is missing that a plan needs",
            meaning: "The inventory is valid without the setting, for example to render machine configs. `talmox plan` and `talmox \
                up` need it.",
            action: "Add the setting before you run `talmox plan`.",
        }
        Duplicate = "duplicate" {
            title: "A name, address, vmid or MAC is used twice",
            meaning: "Two nodes of one cluster have the same value, although each of them needs its own. Both places are marked.",
            action: "Change one of the two. A vmid can be omitted: talmox then takes a free one of `proxmox.vmid_range`.",
        }
        SharedClash = "shared-clash" {
            title: "Two clusters on one Proxmox use the same name, address or vmid",
            meaning: "Clusters of one inventory that share a Proxmox must not share names, addresses, vmids or secrets: their VMs \
                would conflict, or one cluster would take the VMs of the other for its own.",
            action: "Change the value in one of the clusters. Give each cluster its own `vmid_range:` and, if the secrets are the \
                same, new secrets with `talmox secrets init`.",
        }
        OutsideSubnet = "outside-subnet" {
            title: "An address is outside its subnet",
            meaning: "A node, gateway or shared address is not in the `network.subnet` that it belongs to, so machines could not \
                reach it.",
            action: "Correct the address or the subnet. Check the prefix length first: `/24` and `/16` are easily confused.",
        }
        AddressClash = "address-clash" {
            title: "An address has two meanings",
            meaning: "One address is used, for example, as the gateway and as the shared address (VIP), or by a node and as the VIP. \
                Only one machine can have an address.",
            action: "Choose a free address for one of the two. A VIP is an address that no machine has.",
        }
        NetworkOverlap = "network-overlap" {
            title: "Networks overlap",
            meaning: "The pod network, the service network and the network of the nodes must not overlap, otherwise traffic goes to \
                the wrong place. Talos does not detect this.",
            action: "Change `network.pod_cidr` or `network.svc_cidr`, or the network of the nodes. For a running cluster the first two \
                cannot change.",
        }
        NoControlPlane = "no-control-plane" {
            title: "The cluster has no control plane",
            meaning: "A Talos cluster needs at least one node under `controlplane:`; etcd and the Kubernetes API run there.",
            action: "Add one node, or three for a cluster that survives the loss of one.",
        }
        EvenControlPlanes = "even-control-planes" {
            title: "The number of control planes is even",
            meaning: "etcd works while a majority of its members runs. A fourth member tolerates no more failures than three, and \
                with two members the loss of either stops etcd.",
            action: "Use one, three or five control planes.",
        }
        TalosVersion = "talos-version" {
            title: "talmox does not know this Talos version",
            meaning: "`talos_version` is not a version that this release of talmox supports: machine configs differ between \
                versions, and talmox generates them.",
            action: "Choose a supported version (the hint lists them), or use a newer talmox.",
        }
        KubernetesVersion = "kubernetes-version" {
            title: "The Talos version does not run this Kubernetes version",
            meaning: "Every Talos release supports a range of Kubernetes versions. Outside it, components may fail to start.",
            action: "Choose a version in the range that the message shows, or omit `kubernetes_version` to use the default of Talos.",
        }
        TooSmall = "too-small" {
            title: "A machine or number range is too small",
            meaning: "A disk, the memory or the range of vmids is below what Talos or this cluster needs.",
            action: "Increase the value to at least what the hint shows. A bare number is GiB for disks and MiB for memory.",
        }
        Gpu = "gpu" {
            title: "A PCI device cannot be passed through as described",
            meaning: "The settings of `gpu:` contradict each other or those of the VM: no device, both a PCI address and a \
                mapping, the wrong machine type, or one device for two nodes on a host.",
            action: "Follow the hint. A PCI mapping (`gpu: {mapping: NAME}`) works with an API token; a raw address needs root.",
        }
        UnknownClass = "unknown-class" {
            title: "A class is not defined",
            meaning: "A node refers to a class that `classes:` does not have.",
            action: "Correct the name, or define the class under `classes:`.",
        }
        MissingFile = "missing-file" {
            title: "A file that the inventory names does not exist",
            meaning: "A patch, manifest, overlay or certificate file is not at the given path. Paths are relative to the file that \
                names them.",
            action: "Correct the path or create the file. A file outside the repository must be allowed with `--allow-file PATH`.",
        }
        BadPatch = "bad-patch" {
            title: "A machine config patch is invalid",
            meaning: "A patch is neither a strategic merge patch nor a list of JSON6902 operations, or the machine config that \
                results from it is one that Talos rejects.",
            action: "Correct the patch. `talmox render` shows the resulting machine config, `talmox config validate -m metal FILE` checks it.",
        }
        Conflict = "conflict" {
            title: "Settings exclude each other",
            meaning: "Both marked settings are valid alone, but not together, for example a token and a password, or SecureBoot \
                with SeaBIOS.",
            action: "Keep one of the two, as the hint says.",
        }
        ClearSecret = "clear-secret" {
            title: "A secret is in the inventory as clear text",
            meaning: "A password, token or key is written in a file that is usually committed to Git. talmox expects a reference.",
            action: "Store the value with `talmox secrets set PATH` and refer to it with `{secret: PATH}`, or use `{env: NAME}`. \
                Revoke a value that was committed.",
        }
        TrackedKeys = "tracked-keys" {
            title: "Git tracks a file with keys",
            meaning: "A kubeconfig, talosconfig, rendered machine config or key file is in the Git index. Everyone with access to the \
                repository can use the keys.",
            action: "Run `git rm --cached FILE`, add it to .gitignore, and replace the keys if the repository was shared.",
        }
        Unverified = "unverified" {
            title: "A download can be replaced on its way",
            meaning: "An image or manifest is loaded over HTTP without a checksum. A machine in the network path can replace it \
                with another one.",
            action: "Use an `https://` address, or add `checksum:` with the SHA-256 of the file (`sha256sum FILE`).",
        }
        UnprovenPeer = "unproven-peer" {
            title: "Secrets go to a machine that cannot prove its identity",
            meaning: "Proxmox with an unchecked certificate, or a Talos machine in maintenance mode, accepts secrets without a proof \
                that it is the right machine. A machine in the network path can read them.",
            action: "Pin the certificate of Proxmox with `fingerprint:`. For nodes use `boot: cidata`, which delivers each config on \
                a volume of its VM.",
        }
        Questionable = "questionable" {
            title: "A setting has no effect or an unusual one",
            meaning: "The inventory is valid, but the setting does nothing in this combination, or its effect is rarely intended.",
            action: "Read the hint, and remove or complete the setting. A warning does not keep `talmox up` from running.",
        }
    }
}

impl Code {
    /// Whether the code means that no part of the file could be read.
    pub(crate) fn is_about_whole_file(self) -> bool {
        matches!(self, Self::Unreadable | Self::TooLarge | Self::NotUtf8 | Self::Syntax)
    }
}
