//! Codes of step errors.

use talmox_pve::PveError;
use talmox_pve::error::Distrust;

talmox_model::codes! {
    /// Stable name of the error of a step. It is part of the JSON output and of run logs.
    pub enum StepCode {
        Timeout = "timeout" {
            title: "A step did not finish within its deadline",
            meaning: "The step waited for a state that did not come about in time: a node that joins, etcd that starts, a VM that \
                the HA manager moves. The message ends with the last observed reason.",
            action: "Fix the reason, then run the same command to resume. If everything is only slow, raise the timeout: \
                docs/TIMEOUTS.md lists the settings.",
        }
        ApiUnreachable = "api-unreachable" {
            title: "No Proxmox host answers, or one host is cut off",
            meaning: "The request did not reach a Proxmox API, or the host that it concerns does not answer the others. talmox retried \
                before it gave up.",
            action: "Bring the host up and check the network. Several addresses under `proxmox.endpoint` let talmox use another host. \
                Then run the same command to resume.",
        }
        ApiUnconfirmed = "api-unconfirmed" {
            title: "The answer to a request was lost",
            meaning: "Proxmox may have carried out the request, but the connection broke before its answer, or the task could not be \
                followed to its end.",
            action: "Run the same command: each step looks at the state first, so nothing is done twice.",
        }
        ApiRejected = "api-rejected" {
            title: "Proxmox rejected a request",
            meaning: "Proxmox answered with an error; its text is at the end of the message. A retry of the same request would fail \
                again.",
            action: "Correct what the text names, in the inventory or in Proxmox, then run the same command to resume.",
        }
        ApiDenied = "api-denied" {
            title: "The API token lacks a right",
            meaning: "Proxmox rejected the request, because the token does not have a privilege for it. Rights may have changed since \
                the preflight checks.",
            action: "Run `talmox check --live`: it names the missing rights and prints the `pveum` commands that grant them.",
        }
        TokenRejected = "token-rejected" {
            title: "Proxmox does not accept the API token",
            meaning: "The token does not exist, was deleted, has expired, or its secret is wrong.",
            action: "Check the value that `proxmox.token` refers to (`USER@REALM!NAME=SECRET`). `talmox init --role` prints the \
                commands that create a token.",
        }
        CertificateUntrusted = "certificate-untrusted" {
            title: "The certificate of Proxmox is not trusted",
            meaning: "The host presents a certificate that does not match `proxmox.fingerprint`, or that no known authority signed. \
                Nothing was sent to it.",
            action: "Compare the fingerprint on the host: `pvenode cert info`. If the certificate was renewed, update `fingerprint:`; \
                otherwise another machine answers.",
        }
        TaskFailed = "task-failed" {
            title: "A Proxmox task failed",
            meaning: "Proxmox started the task, such as a create, clone or start, and it ended with an error. The message has the end \
                of its log.",
            action: "Read the whole log under Tasks in Proxmox, or with `pvenode task log UPID`. Fix the cause, then run the same \
                command to resume.",
        }
        StorageExhausted = "storage-exhausted" {
            title: "A storage ran out of space",
            meaning: "Proxmox could not allocate a disk or write an image, because the storage is full.",
            action: "Free space on the storage (`pvesm status` shows it), or choose another one in the inventory, then run the same \
                command to resume.",
        }
        ObjectLocked = "object-locked" {
            title: "A VM or storage is locked by another task",
            meaning: "A backup, migration or other task holds the lock of the object, and did not release it while talmox retried.",
            action: "Wait for the task, or look at it under Tasks in Proxmox, then run the same command to resume.",
        }
        LockTimeout = "lock-timeout" {
            title: "Proxmox waited too long for a lock",
            meaning: "Proxmox locks a storage or a config file while it changes it. Another task held that lock for the whole deadline \
                of the step.",
            action: "Find the task on the host that holds the lock, then run the same command to resume.",
        }
        ChangeNotVisible = "change-not-visible" {
            title: "Proxmox reported success, but the change is not visible",
            meaning: "After a successful request or task the object does not look as requested: a file has the wrong size, a VM still \
                exists, a disk did not grow.",
            action: "Look at the object in Proxmox. Usually running the same command is enough.",
        }
        ClusterLockLost = "lock-lost" {
            title: "The run lost its cluster lock",
            meaning: "The lock in Proxmox was removed or taken by another run, for example with `talmox unlock`, or this machine was \
                suspended for longer than the lease. The run started no more changes.",
            action: "Find out which run works on the cluster. When it has ended, run the same command to resume.",
        }
        ClusterLockUnconfirmed = "lock-unconfirmed" {
            title: "The run could not confirm its cluster lock",
            meaning: "Before each change talmox confirms that it still holds the lock. Proxmox did not answer that question for the \
                whole deadline of the step.",
            action: "Check that Proxmox answers, then run the same command to resume.",
        }
        Cancelled = "cancelled" {
            title: "The run was cancelled",
            meaning: "Ctrl-C or a signal ended the run. Steps that had started a change finished it.",
            action: "Run the same command to resume; nothing has to be undone.",
        }
        Skipped = "skipped" {
            title: "A step was skipped, because another one failed",
            meaning: "The step depends on a step that failed or was cancelled.",
            action: "Fix the error of the failed step, then run the same command to resume.",
        }
        VmGone = "vm-gone" {
            title: "A VM disappeared during the run",
            meaning: "The plan contains a VM that no longer exists. It was deleted, or it left the pool that the token can see.",
            action: "Run the same command: it makes a new plan.",
        }
        VmExists = "vm-exists" {
            title: "A VM exists already that the step must create",
            meaning: "Another run created the VM after this plan was made.",
            action: "Run the same command: it makes a new plan.",
        }
        VmHalfMade = "vm-half-made" {
            title: "A create or clone was interrupted",
            meaning: "The task ended halfway, usually with its host, and left a locked VM. An API token cannot remove the lock.",
            action: "Look at the VM with `qm config VMID` on its host, and remove it as the hint shows if it is empty. Then run the same \
                command to resume.",
        }
        VmInvisible = "vm-invisible" {
            title: "A vmid is used by a VM that the token cannot see",
            meaning: "Proxmox does not let the token create a VM with this vmid, and does not show it the existing VM either.",
            action: "Choose another `vmid:`, or put the VM back into its pool: `pveum pool modify POOL --vms VMID`.",
        }
        VmNotOwned = "vm-not-owned" {
            title: "A VM is not the VM of this node",
            meaning: "Right before a change talmox reads the marker and UUID of a VM. They do not belong to this node, so nothing was \
                changed.",
            action: "Choose another `vmid:` for the node. If it is the right VM, restore the line that starts with `talmox/1` in its \
                notes.",
        }
        DeletionProtected = "deletion-protected" {
            title: "A VM is protected from deletion",
            meaning: "The VM got the protection flag of Proxmox after the plan was made. talmox never removes the flag.",
            action: "If the VM must be deleted, run `qm set VMID --protection 0` on its host, then the same command.",
        }
        VmNotRunning = "vm-not-running" {
            title: "A VM does not run",
            meaning: "The VM was stopped while the run waited for its node.",
            action: "Run the same command: it starts the VM.",
        }
        DiskMissing = "disk-missing" {
            title: "A VM lacks a disk",
            meaning: "The step must resize a disk that the VM does not have. The VM was changed during the run.",
            action: "Run `talmox plan` to see the differences of the VM.",
        }
        MappingConflict = "mapping-conflict" {
            title: "A PCI mapping belongs to another device",
            meaning: "A mapping with this name exists and has another device on the same host. Proxmox would choose one of them.",
            action: "Choose another name: `gpu: {mapping: NAME}`.",
        }
        ImageWrong = "image-wrong" {
            title: "An image is not what was expected",
            meaning: "The file on the storage or at its source has the wrong size or checksum, or is not a disk image.",
            action: "Check the source with `curl -I URL` and `sha256sum`, correct `image:` or `checksum:`, then run the same command.",
        }
        DownloadFailed = "download-failed" {
            title: "A download failed",
            meaning: "A web server (Image Factory, image or manifest source) did not answer or answered with an error.",
            action: "Check the address, DNS, proxies and the firewall with `curl -I URL`, then run the same command to resume.",
        }
        SchematicMismatch = "schematic-mismatch" {
            title: "The Image Factory computed another schematic id",
            meaning: "Images and installers are named by the id. The factory returned another id than talmox computed for the same \
                customization.",
            action: "Set `image.schematic` in the inventory to the id of the factory.",
        }
        MigrationImpossible = "migration-impossible" {
            title: "A VM cannot be migrated to its host",
            meaning: "The VM uses a device or a local disk of its current host, runs although it must be stopped, or the other host lacks one \
                of its storages or resource mappings. The VM was not changed.",
            action: "Follow the hint of the message, or set `host:` of the node to the host that it is on. Then run the same command.",
        }
        WrongMachine = "wrong-machine" {
            title: "Another machine answers at the address of a node",
            meaning: "The UUID, MAC address or instance id of the machine is not that of the node's VM. Nothing was sent to it, because \
                a config contains the keys of the cluster.",
            action: "Find the machine that has the address, or give the node another `ip:`.",
        }
        WrongTalosVersion = "wrong-talos-version" {
            title: "A node runs another Talos version than its config is made for",
            meaning: "The template that the VM was cloned from contains another minor version of Talos. Its config was not sent.",
            action: "Set `talos_version:` to the version of the template, or set another template name and run `talmox template create`.",
        }
        NodeNotAnswering = "node-not-answering" {
            title: "A new node does not answer",
            meaning: "Talos on the VM did not answer at port 50000 after its first boot, also after resets. The VM does not boot, has \
                no network, or has another address.",
            action: "Open the console of the VM in Proxmox. Check bridge, VLAN, gateway and address, and that this machine can reach \
                port 50000.",
        }
        TalosRejected = "talos-rejected" {
            title: "Talos rejected a request",
            meaning: "The node answered a config, a bootstrap or a reboot with an error that does not pass by itself.",
            action: "Read the text of Talos at the end of the message. `talmox render` shows the config, `talmox config validate -m \
                metal FILE` checks it.",
        }
        ConfigReverted = "config-reverted" {
            title: "A node does not work with its changed config, and reverts it",
            meaning: "A config that concerns the network is applied on trial: the node reverts it by itself unless talmox confirms that \
                the node works with it. talmox did not reach the node at its address in time, or the node lost its default route, its \
                gateway does not answer, or etcd or the API server of a control plane is not healthy again.",
            action: "Correct the address, gateway, VLAN or patch that was changed. The node has its former config and address again; \
                the message names the address.",
        }
        ConfigUnconfirmed = "config-unconfirmed" {
            title: "A node did not confirm its changed config",
            meaning: "The node did not answer the request that applies its config, or does not return that config afterwards.",
            action: "Check that port 50000 of the node answers, then run the same command to resume.",
        }
        BootstrapUnsafe = "bootstrap-unsafe" {
            title: "etcd is not bootstrapped, because data may exist",
            meaning: "A second bootstrap would create a second cluster. A node, an address or the Kubernetes API shows that the cluster \
                was bootstrapped before, or a VM that may hold etcd data cannot be queried.",
            action: "Bring the VM that the message names up, or restore its control planes to the inventory, then run the same command.",
        }
        EtcdDivided = "etcd-divided" {
            title: "The run found two etcd clusters",
            meaning: "Two groups of control planes list no common member. See also `etcd-split`, which is the same in a plan.",
            action: "Choose the etcd cluster to keep, and reset each node of the other one as the hint shows.",
        }
        MemberKept = "member-kept" {
            title: "A member is not removed from etcd, because etcd would lose its quorum",
            meaning: "Before a control plane is removed or created again, its member leaves etcd. More than half of the other members \
                must be healthy for that, and they were not for some minutes. Nothing was removed.",
            action: "Bring the control planes that the message names up (`talmox status` shows them), then run the same command to \
                resume.",
        }
        QuorumAtRisk = "quorum-at-risk" {
            title: "A control plane is not stopped, because etcd could lose its quorum",
            meaning: "Before a control plane is shut down or rebooted, all other control planes must be healthy members of etcd, and a \
                majority of its members. That was not so until the deadline of the step. Two control planes can never do without one.",
            action: "Bring the control plane that the message names up, or add a third one, then run the same command to resume.",
        }
        DrainBlocked = "drain-blocked" {
            title: "Pods did not leave a node that is drained",
            meaning: "A PodDisruptionBudget did not allow an eviction until the deadline of the step, or a pod did not end. The message names \
                the pods. The node stays cordoned.",
            action: "Make room for the pods on other nodes, or change the budget (`kubectl get pdb -A` shows them), then run the same command \
                to resume.",
        }
        AddonFailed = "addon-failed" {
            title: "An add-on could not be applied",
            meaning: "Kubernetes rejected an object of the add-on, a field belongs to another manager, or the workloads did not become \
                ready in time.",
            action: "Correct the manifest or what the message names; `kubectl -n NAMESPACE describe` shows the state. Then run the \
                same command.",
        }
        KubernetesFailed = "kubernetes-failed" {
            title: "A request to the Kubernetes API failed",
            meaning: "talmox could not store which objects belong to an add-on, or could not cordon, drain, uncordon or delete a node. The API \
                did not answer or rejected the request.",
            action: "Check the API with `kubectl get nodes`, then run the same command to resume.",
        }
        SecretsUnusable = "secrets-unusable" {
            title: "The secrets of the cluster cannot be used",
            meaning: "The step needs the certificates of the cluster, and the secrets bundle has none or they are broken.",
            action: "Look at the bundle with `talmox secrets show`; restore it from a backup or from Git.",
        }
        PlanIncomplete = "plan-incomplete" {
            title: "The plan of the run was read from a file",
            meaning: "A plan file has hashes in place of secrets and of manifests. The step sends a machine config, user-data or a \
                manifest, which the plan does not have, so nothing was sent.",
            action: "Run `talmox up --plan FILE`: it makes the plan again with its secrets, and compares it with the file.",
        }
        ClientFilesFailed = "client-files-failed" {
            title: "kubeconfig or talosconfig was not written",
            meaning: "The files could not be made or written beside the inventory.",
            action: "Check permissions and free space, then run the same command; `talmox kubeconfig` and `talmox talosconfig` write \
                them, too.",
        }
        Bug = "bug" {
            title: "A bug in talmox",
            meaning: "The program reached a state that its authors excluded. Other steps are not affected.",
            action: "Report it with the message and the run log (`talmox runs show`), then run the same command to resume.",
        }
        InjectedFault = "injected-fault" {
            title: "A test made the step fail",
            meaning: "Tests of talmox inject faults into steps. A released program never reports this code.",
            action: "Run the same command to resume.",
        }
    }
}

impl StepCode {
    /// The code of an error of the Proxmox API.
    pub fn of_proxmox(error: &PveError) -> Self {
        if error.is_auth() {
            return Self::TokenRejected;
        } else if error.is_permission() {
            return Self::ApiDenied;
        } else if error.is_full() {
            return Self::StorageExhausted;
        } else if error.is_lock_timeout() {
            return Self::LockTimeout;
        } else if error.is_locked() {
            return Self::ObjectLocked;
        }
        match error {
            _ if matches!(error.distrust(), Some(Distrust::NoTls)) => Self::ApiUnreachable,
            _ if error.distrust().is_some() => Self::CertificateUntrusted,
            _ if error.is_node_scoped() || error.is_unanswered() => Self::ApiUnreachable,
            PveError::NotSent { .. } => Self::ApiUnreachable,
            PveError::MaybeApplied { .. } => Self::ApiUnconfirmed,
            PveError::Rejected(_) => Self::ApiRejected,
            PveError::TaskFailed(_) => Self::TaskFailed,
        }
    }
}
