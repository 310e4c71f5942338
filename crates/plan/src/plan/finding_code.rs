//! Codes of findings.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

talmox_model::codes! {
    /// Stable name of a finding. The name is part of the JSON output.
    pub enum FindingCode {
        VmForeign = "vm-foreign" {
            title: "A VM that talmox does not manage is in the place of a node",
            meaning: "A VM has the vmid or name of a node, but not the marker and UUID that talmox gives its own VMs. talmox never \
                changes or deletes such a VM.",
            action: "Give the node another `vmid:` (or none) or another name. If it is the VM of this node, restore the line that \
                starts with `talmox/1` in its notes.",
        }
        VmUnproven = "vm-unproven" {
            title: "A VM has signs of this cluster, but is not provably owned",
            meaning: "A VM has the UUID of a node or the marker of this cluster, but not both. It is a copy of a VM, its notes were \
                edited, or this inventory is a copy of one that is in use. If its derived UUID, its name and the tags `talmox` and \
                `CLUSTER` prove that it is the VM of the node, `up` restores the marker; otherwise nothing of this node is changed.",
            action: "If it is the VM of the node, put the line that the hint shows into its notes. If it is a copy, remove the line \
                that starts with `talmox/1` from its notes. A copied inventory needs secrets of its own: `talmox secrets init`.",
        }
        VmUnidentified = "vm-unidentified" {
            title: "A VM with tags or a UUID of this cluster has no marker",
            meaning: "etcd would be bootstrapped, and a VM carries the tags of this cluster, or a UUID such as talmox derives in the \
                pool of the cluster. Its notes do not say what it is, so it may be a control plane with etcd data, and a bootstrap \
                could create a second cluster beside it.",
            action: "If the VM is a node of this cluster, put the line that the hint shows into its notes. If it belongs to something \
                else, remove the tags `talmox` and `CLUSTER` from it, or remove it from the pool.",
        }
        VmDuplicate = "vm-duplicate" {
            title: "Two VMs claim to be the same node",
            meaning: "Both VMs have the marker and UUID of one node, usually because one was restored from a backup beside the other. \
                talmox cannot tell which of them holds the data.",
            action: "Find out which one is the copy, and remove the line that starts with `talmox/1` from its notes.",
        }
        VmUnreadable = "vm-unreadable" {
            title: "A VM cannot be read and may belong to this cluster",
            meaning: "Proxmox lists a VM but does not return its config, usually because its host is offline. Only the config shows \
                whether talmox owns a VM, so nothing is created, bootstrapped or destroyed that could duplicate or lose it.",
            action: "Bring the host up, then run the same command. If the host is gone for good, remove it from the Proxmox cluster. \
                `pvecm delnode HOST` can leave its VMs listed: the finding remains until `pvesh get /cluster/resources --type vm` does \
                not list the VM. A token that sees only the pool of this cluster avoids the question: `talmox init --role`.",
        }
        VmHidden = "vm-hidden" {
            title: "A VM exists that the token may not see",
            meaning: "Proxmox reports the vmid as used, but lists no such VM to this token. A VM that left its pool becomes invisible \
                to a token with rights on the pool only.",
            action: "If it belongs to this cluster, put it back: `pveum pool modify POOL --vms VMID`. Otherwise give the node another \
                `vmid:`, or grant VM.Audit on /vms/VMID to the token, so that talmox can read the notes of the VM.",
        }
        VmBeingCreated = "vm-being-created" {
            title: "A task is creating the VM now",
            meaning: "A task of an earlier run still creates or clones the VM in Proxmox. Destroying it at this moment would fail or \
                leave parts of it behind.",
            action: "Wait until the task has ended, then run the same command.",
        }
        VmLocked = "vm-locked" {
            title: "A VM is locked by Proxmox",
            meaning: "The config of the VM has the lock of a create, clone or restore, and no task of this token holds it. A restore \
                from a backup takes the same lock, so the VM may hold data.",
            action: "Wait until no task works on the VM. If none does, run `qm unlock VMID` on its host, then run the same command.",
        }
        VmUnfinished = "vm-unfinished" {
            title: "An interrupted create or clone left a VM behind",
            meaning: "A create or clone with this token ended halfway. The VM has neither a name nor a marker, and is locked. A restore \
                from a backup takes the same lock, so it may also hold data.",
            action: "Wait until no task works on the VM, then look at it with `qm config VMID`. Remove it with `qm unlock VMID && qm \
                destroy VMID` only if it has no disk, name or notes; otherwise give the node another `vmid:`.",
        }
        VmOutdated = "vm-outdated" {
            title: "A stopped VM differs from the inventory",
            meaning: "The inventory was changed after the VM was created, and the VM does not run. talmox starts it without the changes \
                that the plan leaves, because its disks may hold data.",
            action: "Undo these changes in the inventory, or change the VM with `qm set VMID` on its host.",
        }
        VmElsewhere = "vm-elsewhere" {
            title: "A VM is on another host than the inventory says",
            meaning: "The VM was migrated, or the inventory was edited, and talmox does not migrate the VM: its node has no `host:` of its \
                own, HA manages the VM, the other host cannot take it, or the token lacks VM.Migrate. talmox works with the VM where it is.",
            action: "Do what the hint says, or correct the host in the inventory.",
        }
        VmProtected = "vm-protected" {
            title: "A VM is protected from deletion",
            meaning: "The VM has the protection flag of Proxmox, and `destroy` would fail on it. talmox never removes the flag.",
            action: "If the VM must be deleted, run `qm set VMID --protection 0` on its host, then `talmox destroy` again.",
        }
        VmNameInUse = "vm-name-in-use" {
            title: "Another VM has the name of a node",
            meaning: "Proxmox allows several VMs with one name, and talmox identifies its VMs by marker and UUID. People may confuse \
                them.",
            action: "Rename one of the two.",
        }
        VmClusterUnclear = "vm-cluster-unclear" {
            title: "Tags and notes do not assign a VM to this cluster",
            meaning: "The VM has the marker and UUID of a node, but its tags or notes name another cluster or none. A copy of an \
                inventory with its secrets has the same markers, so the VM may be in use under another name; `destroy` keeps it.",
            action: "If the VM belongs to this cluster, set its tags with the command in the hint. If the inventory is a copy, give it \
                secrets of its own.",
        }
        SecretsShared = "secrets-shared" {
            title: "VMs of another cluster use the same secrets",
            meaning: "VMs carry the marker of this cluster and the name of another one: an inventory was copied together with its \
                secrets, or the cluster was renamed. Two clusters with the same secrets would join each other.",
            action: "Move the copied secrets file away and run `talmox secrets init`. After a rename, restore the old names, or set \
                the tags of each VM as the hint shows.",
        }
        NodeWithoutVm = "node-without-vm" {
            title: "A node answers, but its VM is not visible",
            meaning: "A machine with the certificates of this cluster answers at the address of a node, and Proxmox lists no VM for \
                it. The VM was removed from its pool, or its marker was removed.",
            action: "Find the VM in Proxmox as root, and put it back into its pool or restore its marker.",
        }
        NodeUnknown = "node-unknown" {
            title: "Kubernetes lists a node that the inventory does not have",
            meaning: "The node object has neither a node in the inventory nor an owned VM. It is usually left over from a deleted \
                node, or the node joined by hand. talmox deletes it, with consent, only if the node is not ready, nothing answers at its \
                addresses, and no VM has its name, UUID or provider id.",
            action: "Turn off or remove the machine that the hint names, then run `talmox up --allow-removal`. If the node is gone for good: \
                `kubectl delete node NAME`.",
        }
        NodeSilent = "node-silent" {
            title: "Something at the address of a node does not answer as Talos",
            meaning: "The port of the Talos API accepts connections, but the machine does not answer. It may be booting, so `up` waits \
                for it.",
            action: "Run `talmox status` after some minutes. If nothing changes, open the console of its VM.",
        }
        RoleChanged = "role-changed" {
            title: "A former control plane may have etcd data",
            meaning: "etcd would be bootstrapped, and the VM of a worker was created as a control plane, so it may have etcd data. A \
                bootstrap could create a second cluster beside it. Once etcd answers, a node whose role changed is replaced.",
            action: "Move the node back to `controlplane:`, then run the same command.",
        }
        VmidInUse = "vmid-in-use" {
            title: "A vmid belongs to another node",
            meaning: "The VM with this vmid is an owned VM of another node, of the inventory or of an orphan. A renamed node is a new \
                node: its VM is not renamed.",
            action: "Give the node another `vmid:` or none, or keep the old name.",
        }
        VmidNoneFree = "vmid-none-free" {
            title: "No vmid is free",
            meaning: "Every vmid of `proxmox.vmid_range`, or every vmid that Proxmox offers for a template, is in use.",
            action: "Widen `proxmox: {vmid_range: …}`, or pass `--vmid` to `talmox template create`.",
        }
        AddressInUse = "address-in-use" {
            title: "The address of a new node is in use",
            meaning: "Another machine answers at the address that a new VM would get, or another VM has it in its config, or its \
                guest agent reports it. With the same address twice, neither works reliably, and a machine config could reach the wrong machine.",
            action: "Give the node another `ip:`, or turn off the other machine. `ip neigh` and the DHCP server show what it is.",
        }
        AddressOtherMachine = "address-other-machine" {
            title: "Another machine answers at the address of a node",
            meaning: "What answers at the address does not have the certificate or the UUID of this node's VM. talmox sends no config \
                to it, because configs contain the keys of the cluster.",
            action: "Find the machine with that address. Compare the secrets of the inventory, the clocks and the addresses: a node \
                with other secrets looks like another machine.",
        }
        AddressUnknown = "address-unknown" {
            title: "talmox cannot learn the address of a node",
            meaning: "The node gets its address by DHCP, and neither the inventory has its lease nor will a guest agent report it.",
            action: "Add the lease as `dhcp: ADDRESS`, or add the extension siderolabs/qemu-guest-agent to `image.extensions`.",
        }
        GatewayMissing = "gateway-missing" {
            title: "A node with a static address has no gateway",
            meaning: "Without a gateway the node cannot reach container registries and time servers, so it would not join.",
            action: "Add `network: {gateway: ADDRESS}`.",
        }
        EndpointUnknown = "endpoint-unknown" {
            title: "The Kubernetes API has no known address",
            meaning: "All control planes get their addresses by DHCP, and there is no shared address that Talos holds, so no client \
                could find the API.",
            action: "Add `network: {vip: ADDRESS}`, or the lease of a control plane as `dhcp: ADDRESS`.",
        }
        VipInUse = "vip-in-use" {
            title: "Another machine answers at the shared address",
            meaning: "A machine that is not part of this cluster answers at `network.vip`, port 6443. Clients of the cluster would \
                reach that machine.",
            action: "Choose another `vip:`, or turn off the other machine.",
        }
        VipUnheld = "vip-unheld" {
            title: "No component holds the shared address",
            meaning: "`vip_by` leaves the shared address to kube-vip, and no add-on or machine config brings kube-vip. Until an \
                address holder exists, the shared address does not answer.",
            action: "Add kube-vip to `addons:`, or set `vip_by: talos`.",
        }
        ControlPlaneUnknown = "control-plane-unknown" {
            title: "An unknown control plane of this cluster holds the shared address",
            meaning: "The Kubernetes API of this cluster answers at the shared address, but no node of the inventory reports etcd. \
                Bootstrapping now would create a second cluster.",
            action: "Find the machine that has the address (its MAC: `ip neigh show ADDRESS`), and add it to the inventory or turn it \
                off.",
        }
        ControlPlanesLost = "control-planes-lost" {
            title: "All control planes are gone",
            meaning: "The VMs of all control planes are missing while workers are left, or while run logs or client files show that \
                the cluster was up. New control planes start an empty cluster: everything that Kubernetes stored is lost, and workers \
                stop their pods. If the old VMs exist elsewhere, there are two clusters with the same secrets.",
            action: "Restore the VM of a control plane from a Proxmox backup, with its notes, then run the same command. To start \
                again, run `talmox destroy` first; if no VM is left, move kubeconfig, talosconfig and the run logs away. Talos \
                documents the restore of an etcd snapshot under disaster recovery.",
        }
        EtcdMajorityLost = "etcd-majority-lost" {
            title: "etcd has lost its majority",
            meaning: "Too many control planes are gone. The remaining members of etcd can neither work nor accept new members.",
            action: "Restore the missing VMs from a Proxmox backup, with their notes, or follow the disaster recovery of Talos with a \
                snapshot of etcd.",
        }
        EtcdSplit = "etcd-split" {
            title: "The cluster has two etcd clusters",
            meaning: "Two groups of control planes list no common member: etcd was bootstrapped twice. Each group has data of its own, \
                and clients see one or the other.",
            action: "Look at both with kubectl and choose the one to keep. Back up the VMs of the control planes of the other one in \
                Proxmox and delete them, then run `talmox up`: it creates them again, and they join the one that stays.",
        }
        EtcdUnhealthy = "etcd-unhealthy" {
            title: "etcd on a node is not healthy",
            meaning: "The node reports etcd data, but its etcd does not work: no leader, an alarm or a service that does not start. \
                Nothing is bootstrapped while etcd data exists.",
            action: "Run `talmox node services NODE` and `talmox etcd members` for the reason, and `talmox etcd alarms` for alarms.",
        }
        EtcdMemberStale = "etcd-member-stale" {
            title: "etcd lists a control plane whose VM is gone",
            meaning: "The VM must be created again, but etcd counts the old one as a member. The new machine could not join under the \
                same name, and too few of the other members are healthy to remove the old one.",
            action: "Bring the other control planes up, then run the same command: it removes the old member as soon as enough other \
                members are healthy.",
        }
        ConfigUnreadable = "config-unreadable" {
            title: "The machine config of a node was not compared",
            meaning: "The node did not return its machine config, or it has settings that this version of talmox cannot parse. Drift \
                of this node is not detected.",
            action: "Run the command again when the node answers. If its Talos is newer than `talos_version:`, update the inventory or \
                talmox.",
        }
        ConfigUnprotected = "config-unprotected" {
            title: "Machine configs are sent to machines that cannot prove their identity",
            meaning: "A Talos machine in maintenance mode has a certificate that it signed itself. A machine in the network path can \
                read the config, and with it the keys of the cluster.",
            action: "Use `boot: cidata`, which delivers each config on a volume of its VM, or make sure that no other machine is in \
                the networks in between.",
        }
        ConfigVolumeMissing = "config-volume-missing" {
            title: "A machine waits for a config, and its VM has no config volume",
            meaning: "With `boot: cidata` a VM reads its config from a volume. This VM has none, for example after a reset. talmox \
                sends no config over the network, because any machine could answer at the address.",
            action: "Compare the fingerprint on the console of the VM, then run `talmox node apply FILE NODE --insecure --fingerprint \
                PIN`; or set `boot: cloudinit` for the node.",
        }
        BootChanged = "boot-changed" {
            title: "An unfinished VM was created with another `boot:`",
            meaning: "A run that did not finish created the VM without a volume for its config, and the current `boot:` of the node \
                needs one.",
            action: "Set `boot:` of the node to the value with which the VM was created; in earlier releases the default was `cloudinit`.",
        }
        SchedulingKept = "scheduling-kept" {
            title: "Control planes still accept all pods",
            meaning: "The control planes were created before there were workers, so they run all pods. Adding the first worker does \
                not change running control planes.",
            action: "Set `allow_scheduling_on_controlplanes: true` to keep it; with `false` the change is planned.",
        }
        ChangesPending = "changes-pending" {
            title: "Stopping a VM deletes volumes",
            meaning: "A user deleted disks of the VM while it ran. Proxmox deletes their volumes when the VM is stopped, so talmox does not \
                stop it without consent.",
            action: "Revert the deletion in Proxmox (Hardware), or allow it with `--allow-removal`.",
        }
        DiskSerialMissing = "disk-serial-missing" {
            title: "A disk has no serial",
            meaning: "The machine config names the disk of a user volume by its serial, and the VM was created before talmox set \
                serials. An existing volume is found by its partition label; a new one would not be created.",
            action: "Run the `qm set` command of the hint, then stop and start the VM.",
        }
        TagsRejected = "tags-rejected" {
            title: "Proxmox rejected the tags of a VM",
            meaning: "The tag policy of the datacenter (user-tag-access, registered-tags) does not let the token set the tags. \
                Everything else works without them.",
            action: "Set the tags as root (the hint has the command), or allow them under Datacenter > Options > User Tag Access.",
        }
        TagsKept = "tags-kept" {
            title: "An adopted VM keeps its tags",
            meaning: "`talmox adopt` does not change the tags of the VMs that it takes over, and later runs keep them too. The VM \
                lacks tags of the inventory. Everything else works without them.",
            action: "Set the tags as root (the hint has the command), or leave them.",
        }
        StartOrderRejected = "start-order-rejected" {
            title: "The token may not set the start order of a VM",
            meaning: "`startup:` of a node affects the other VMs of a host, so Proxmox requires Sys.Modify on `/` for it. The token \
                lacks that privilege. Everything else works without it.",
            action: "Set the start order as root (the hint has the command), or omit `startup:`.",
        }
        OptionPending = "option-pending" {
            title: "An option waits for the next stop of a VM",
            meaning: "Proxmox applies the guest agent and the boot order of a running VM when it is stopped and started. A reboot \
                inside the guest does not apply them. No run stops a VM for these options alone.",
            action: "Nothing: the next change that stops the VM applies them. To apply them now, run the commands of the hint.",
        }
        RightMissing = "right-missing" {
            title: "The API token lacks a right",
            meaning: "A step of the plan, or `destroy`, needs a privilege on the named path of Proxmox that the token does not have. \
                The run would stop halfway.",
            action: "Run the `pveum` commands of the hint as root on a host; they can be repeated. `talmox init --role` prints all \
                that an inventory needs.",
        }
        LockRightMissing = "lock-right-missing" {
            title: "The token cannot lock the cluster for other machines",
            meaning: "talmox locks a cluster with a pool in Proxmox. Without the right to create it, only runs from the same folder \
                exclude each other. During a bootstrap this is an error, since two runs could create two etcd clusters.",
            action: "Run the `pveum` commands of the hint as root on a host. Until then run `up` and `destroy` from one machine only.",
        }
        HostUnset = "host-unset" {
            title: "A node has no host",
            meaning: "The inventory does not say on which Proxmox host the VM of the node is created.",
            action: "Add `proxmox: {node: HOST}` for all nodes, or `host: HOST` to the node.",
        }
        HostMissing = "host-missing" {
            title: "Proxmox has no such host",
            meaning: "The inventory names a host that is not a member of the Proxmox cluster, or that the token may not see.",
            action: "Correct `node:`, `hosts:` or `host:`; `pvecm nodes` on a host lists the members.",
        }
        HostOffline = "host-offline" {
            title: "A host is offline",
            meaning: "New VMs must be created on a host that the Proxmox cluster reports as offline.",
            action: "Bring the host up, or give the nodes another `host:`.",
        }
        HostTooSmall = "host-too-small" {
            title: "A host has fewer cores or less memory than a VM",
            meaning: "Proxmox does not start a VM with more cores than the host has; with more memory than the host has, the VM is \
                killed.",
            action: "Reduce `cores:` or `memory:` of the node, or give it another host.",
        }
        HostMemoryLow = "host-memory-low" {
            title: "New VMs need more memory than is free",
            meaning: "The memory of all new VMs on the host is larger than what is free now. VMs may fail to start, or the kernel of \
                the host may kill one.",
            action: "Reduce `memory:`, spread the nodes with `proxmox: {hosts: […]}`, or stop other VMs.",
        }
        BridgeMissing = "bridge-missing" {
            title: "A host has no such bridge",
            meaning: "The bridge or SDN vnet that the inventory names does not exist on the host, or the token may not use its zone.",
            action: "Correct `bridge:`, create the bridge on the host, or grant the right that the hint shows.",
        }
        BridgeDown = "bridge-down" {
            title: "A bridge is down",
            meaning: "The bridge exists but is not active, so VMs on it have no network.",
            action: "Run `ifreload -a` on the host, and check /etc/network/interfaces.",
        }
        BridgeNotVlanAware = "bridge-not-vlan-aware" {
            title: "A bridge is not VLAN aware",
            meaning: "A node uses a VLAN on a bridge that does not filter VLANs. Proxmox then creates a bridge per VLAN, which needs a \
                physical port on the bridge.",
            action: "Set `bridge-vlan-aware yes` for the bridge in /etc/network/interfaces, and run `ifreload -a`.",
        }
        PoolMissing = "pool-missing" {
            title: "A pool does not exist",
            meaning: "New VMs must be created in a pool that Proxmox does not list.",
            action: "Run `pveum pool add POOL` as root on a host, or correct `pool:`.",
        }
        StorageMissing = "storage-missing" {
            title: "A host has no such storage",
            meaning: "The storage that the inventory names does not exist on the host, or the token may not see it. New VMs cannot be \
                created there.",
            action: "Correct `datastore:` or `image_datastore:`; `pvesm status` on the host lists the storages.",
        }
        StorageUnavailable = "storage-unavailable" {
            title: "A storage is not available",
            meaning: "Proxmox knows the storage but cannot use it now: it is disabled, not mounted or not reachable.",
            action: "Run `pvesm status` on the host to see the reason.",
        }
        StorageUnreadable = "storage-unreadable" {
            title: "Storages or their contents cannot be listed",
            meaning: "Proxmox did not list the storages of a host or the volumes of a storage, so talmox cannot check space, or which \
                images it may delete.",
            action: "Grant Datastore.Audit on the storage, and check that the host answers.",
        }
        StorageContent = "storage-content" {
            title: "A storage does not allow a content type",
            meaning: "Disks need the content type `images`, and images to import need `import`. The storage is not configured for it.",
            action: "Run `pvesm set STORAGE --content …` on a host, as the hint shows; keep the types that are set.",
        }
        StorageFull = "storage-full" {
            title: "A storage has too little space",
            meaning: "New disks and images need more space than is free. A thin storage accepts them and may run full later, which \
                stops the VMs; LVM without thin provisioning rejects them.",
            action: "Delete unused volumes, choose smaller disks or another storage.",
        }
        ImageKept = "image-kept" {
            title: "`destroy` keeps a file on a storage",
            meaning: "An image or upload is not deleted, because a VM or another cluster may need it, or because the token may not \
                delete it.",
            action: "Delete the file in Proxmox (`pvesm free VOLUME`) when nothing uses it.",
        }
        ImageUnavailable = "image-unavailable" {
            title: "The server does not have the image",
            meaning: "The web server of `image: {url: …}` answered with an error, so the image cannot be downloaded.",
            action: "Open the address with `curl -I URL`, and correct it.",
        }
        SourceUnreachable = "source-unreachable" {
            title: "The Image Factory or image server cannot be reached",
            meaning: "talmox got no answer, or an error, from the server that images come from. Where hosts download images, they may \
                still reach it; then it is a warning.",
            action: "Check `image.factory` or `image.url`, DNS, proxies and the firewall: `curl -I ADDRESS`.",
        }
        FactoryVersionMissing = "factory-version-missing" {
            title: "The Image Factory has no such Talos version",
            meaning: "The factory does not offer the version of `talos_version`, so no image can be built.",
            action: "Correct `talos_version:`; the page /versions of the factory lists all versions.",
        }
        ExtensionMissing = "extension-missing" {
            title: "A system extension does not exist for this Talos version",
            meaning: "The Image Factory does not know the extension for this version of Talos. Extensions are renamed and removed \
                between versions.",
            action: "Correct `image.extensions`; the hint lists similar names.",
        }
        TemplateMissing = "template-missing" {
            title: "A template does not exist on the host",
            meaning: "`boot: template` clones a template that is not on the host of the node, or that the token may not see. A clone \
                is made on the host of its template.",
            action: "Run `talmox template create`, and put the template into the pool of the cluster.",
        }
        TemplateUnreadable = "template-unreadable" {
            title: "The config of a template cannot be read",
            meaning: "talmox compares the disks of a template with those of the node before it clones, and may not read them.",
            action: "Grant VM.Audit on the template, or put it into the pool of the cluster.",
        }
        TemplateUnsuitable = "template-unsuitable" {
            title: "The disks of a template do not fit the node",
            meaning: "The template has its system disk at another bus, has a larger disk than the node, or has more disks. Disks \
                cannot shrink, and talmox deletes none.",
            action: "Set `disk_bus:` and `disk:` of the node to match, or create another template.",
        }
        TemplateVersion = "template-version" {
            title: "A template contains another Talos version or other extensions",
            meaning: "The notes or the name of the template show another Talos version or schematic than the nodes need.",
            action: "Set another template name in the inventory and run `talmox template create`, or delete the old one if nothing \
                else uses it: `qm destroy VMID`.",
        }
        TemplateConflict = "template-conflict" {
            title: "Two nodes need one template with different images",
            meaning: "The nodes name the same template but have different `image:` settings, and one template has one image.",
            action: "Give the nodes the same `image:`, or different template names.",
        }
        ProxmoxVersion = "proxmox-version" {
            title: "Proxmox VE is too old",
            meaning: "Disks are imported from images since Proxmox VE 8.4. Older versions from 8.0 on can only clone templates that \
                were created by hand, and are not tested.",
            action: "Upgrade Proxmox VE, or use `machine: {boot: template, template: NAME}`.",
        }
        MachineType = "machine-type" {
            title: "A PCIe device needs the machine type q35",
            meaning: "The default machine type i440fx has no PCIe bus, so the VM would not start with the device.",
            action: "Set `machine_type: q35`, or `gpu: {pcie: false}`.",
        }
        ConsoleDark = "console-dark" {
            title: "The console of a VM in Proxmox stays dark",
            meaning: "With `x_vga` the passed-through GPU is the only display of the VM.",
            action: "Use the serial console: `qm terminal VMID`.",
        }
        MappingMissing = "mapping-missing" {
            title: "A PCI mapping does not exist",
            meaning: "An API token may pass through mapped devices only. The mapping does not exist or is not visible, and talmox \
                cannot create one with this token or name.",
            action: "Create it under Datacenter > Resource Mappings, set `gpu: {mapping: NAME}`, and grant the right that the hint \
                shows.",
        }
        MappingMismatch = "mapping-mismatch" {
            title: "A PCI mapping does not match the devices of the host",
            meaning: "The mapping has no device on the host of the node, or the device changed its address, ids or IOMMU group. VMs \
                with it would not start.",
            action: "Correct the mapping under Datacenter > Resource Mappings; `pvesh get /nodes/HOST/hardware/pci` lists the devices.",
        }
        DeviceMissing = "device-missing" {
            title: "A host has no such PCI device",
            meaning: "The address of `gpu: {pci: …}` is not the address of a device of the host. Addresses can change when hardware is \
                added.",
            action: "Run `lspci -D` on the host, and correct the address.",
        }
        DeviceInUse = "device-in-use" {
            title: "A PCI device is assigned to two VMs",
            meaning: "Another VM or another node has the same device. Only one running VM can have it.",
            action: "Remove it from the other VM, or give the node another device.",
        }
        IommuOff = "iommu-off" {
            title: "The IOMMU of a host is off",
            meaning: "PCI passthrough needs an IOMMU, and the host reports no IOMMU group for the device.",
            action: "Enable VT-d or AMD-Vi in the firmware and, for Intel, add `intel_iommu=on` to the kernel command line; then reboot \
                the host.",
        }
        AddonInvalid = "addon-invalid" {
            title: "The manifests of an add-on are invalid",
            meaning: "A manifest is not valid YAML, is not a Kubernetes object, or does not have the given checksum.",
            action: "Correct the manifest. If the file was changed on purpose, update `checksum:`.",
        }
        AddonUnreachable = "addon-unreachable" {
            title: "The manifests of an add-on cannot be downloaded now",
            meaning: "The server of the manifests did not answer. `up` downloads them again when it applies the add-on.",
            action: "Check the address with `curl -I URL`.",
        }
        AddonDuplicate = "addon-duplicate" {
            title: "Two manifests have the same object",
            meaning: "Each run would change the object to one version and back to the other.",
            action: "Keep the object in one of the two places.",
        }
        AddonRejected = "addon-rejected" {
            title: "Kubernetes rejects an object of an add-on",
            meaning: "A dry run of the object failed: a field is wrong or immutable, its kind is not known yet, or an admission rule \
                denies it.",
            action: "Correct the manifest. To change an immutable field, delete the object: `up` creates it again.",
        }
        NamespaceMissing = "namespace-missing" {
            title: "A namespace does not exist",
            meaning: "An object of an add-on is in a namespace that neither the cluster nor a manifest has. Applying it would time \
                out.",
            action: "Add a Namespace object to the manifests.",
        }
        PodNetworkMissing = "pod-network-missing" {
            title: "The cluster has no pod network",
            meaning: "Talos is configured without a CNI, and no add-on is known to bring one. Pods that need the network never start.",
            action: "Add a CNI such as Cilium to `addons:`, or remove `cni: none` from the inventory and its patches.",
        }
        ConfigRejected = "config-rejected" {
            title: "Talos rejects the changed config of a node",
            meaning: "The config of the inventory differs from that of the running node, and a dry run of it failed on the node. \
                Nothing was changed; the node keeps its config.",
            action: "Correct the setting or patch that the message names. `talmox render` shows the config, `talmox config validate -m \
                metal FILE` checks it.",
        }
        SecretsDiffer = "secrets-differ" {
            title: "A running node has other secrets than the secrets bundle",
            meaning: "A key, token or encryption secret in the config of a running node differs from the secrets bundle. Applied to the node, it \
                would make stored data and credentials of the cluster unusable. Nothing is changed.",
            action: "Restore the secrets bundle of this cluster from a backup or from Git. If a patch sets the value, remove the patch.",
        }
        NodeNotListed = "node-not-listed" {
            title: "The inventory has no node of this name",
            meaning: "A command for one or more nodes names a node that the inventory does not contain.",
            action: "Correct the name; `talmox status` lists the nodes.",
        }
        VmMissing = "vm-missing" {
            title: "The VM of a node does not exist, or is not finished",
            meaning: "The command works on the VM of the node. The VM was not created yet, was deleted, or an earlier run ended before \
                it was finished.",
            action: "Run `talmox up`: it creates and finishes the VM.",
        }
        VmStopped = "vm-stopped" {
            title: "The VM of a node does not run",
            meaning: "The command needs a running node, and its VM is stopped.",
            action: "Run `talmox node start NAME`, or `talmox up`.",
        }
        NodeDown = "node-down" {
            title: "A node does not answer",
            meaning: "The VM of the node runs, and the Talos API of the node does not answer. A command that needs its answer cannot be \
                carried out.",
            action: "Run `talmox status` for the reason. `talmox node shutdown NAME` stops a VM that does not answer, and `talmox node \
                start NAME` starts it again.",
        }
        KubernetesDown = "kubernetes-down" {
            title: "The Kubernetes API does not answer",
            meaning: "A node is drained and uncordoned through the Kubernetes API. Without an answer, `node drain` and `node uncordon` \
                cannot work, and a reboot or shutdown ends the pods of the node without an eviction.",
            action: "Run `talmox status` to see why the control planes do not answer.",
        }
        NodeUnregistered = "node-unregistered" {
            title: "Kubernetes does not list a node",
            meaning: "The node has not joined the cluster, or its Node object was deleted. It runs no pods. A kubelet registers its \
                node only when it starts, so a deleted Node object does not return by itself.",
            action: "Run `talmox up`: it waits until the node joins, and restarts the kubelet of a running node whose Node object was \
                deleted.",
        }
        ControlPlaneNeeded = "control-plane-needed" {
            title: "A control plane cannot go down",
            meaning: "etcd needs a majority of its members. The command would take down a control plane while another one is down, more \
                than one of them, or one of two.",
            action: "Bring the other control plane back first. To shut down the whole cluster, run `talmox node shutdown --all`.",
        }
        EtcdMemberInUse = "etcd-member-in-use" {
            title: "An etcd member belongs to a running control plane",
            meaning: "`talmox etcd remove-member` removes members whose node is gone. This member belongs to a control plane of the \
                inventory that answers, or no other control plane answers.",
            action: "To remove the node, remove it from the inventory and run `talmox up`. To create it again, run `talmox node replace \
                NAME`.",
        }
    }
}

impl FindingCode {
    /// Whether an error with this code concerns the creation or change of one node only. The steps of the other nodes can
    /// then run.
    ///
    /// The result is false for errors that may concern the whole cluster. These are errors about the identity of a machine,
    /// foreign, unreadable or locked VMs, etcd, secrets and rights. A VM with the UUID of a node can be the VM of that node only.
    pub fn blocks_only_its_node(self) -> bool {
        matches!(
            self,
            Self::VmUnproven
                | Self::VmidInUse
                | Self::VmidNoneFree
                | Self::AddressInUse
                | Self::AddressUnknown
                | Self::GatewayMissing
                | Self::ConfigRejected
                | Self::ConfigVolumeMissing
                | Self::BootChanged
                | Self::HostUnset
                | Self::HostTooSmall
                | Self::TemplateMissing
                | Self::TemplateUnreadable
                | Self::TemplateUnsuitable
                | Self::MachineType
                | Self::MappingMissing
                | Self::MappingMismatch
                | Self::DeviceMissing
                | Self::DeviceInUse
                | Self::IommuOff
        )
    }
}

impl Serialize for FindingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FindingCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = Self::ALL.iter().find(|code| code.as_str() == text);
        known
            .copied()
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not a code of a finding")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_may_concern_the_whole_cluster_block_all_of_it() {
        for code in [
            FindingCode::VmForeign,
            FindingCode::VmDuplicate,
            FindingCode::VmUnreadable,
            FindingCode::VmHidden,
            FindingCode::VmLocked,
            FindingCode::VmUnfinished,
            FindingCode::VmClusterUnclear,
            FindingCode::SecretsShared,
            FindingCode::RoleChanged,
            FindingCode::AddressOtherMachine,
            FindingCode::ControlPlanesLost,
            FindingCode::EtcdMajorityLost,
            FindingCode::EtcdMemberStale,
            FindingCode::RightMissing,
            FindingCode::LockRightMissing,
        ] {
            assert!(!code.blocks_only_its_node(), "{code}");
        }
        assert!(FindingCode::DeviceMissing.blocks_only_its_node());
    }

    #[test]
    fn codes_are_written_and_read_as_their_text() {
        for code in FindingCode::ALL {
            let text = serde_json::to_string(code).unwrap();
            assert_eq!(text, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<FindingCode>(&text).unwrap(), *code);
        }
        assert!(serde_json::from_str::<FindingCode>("\"no-such-code\"").is_err());
    }
}
