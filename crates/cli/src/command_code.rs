//! Codes for the errors of commands.

talmox_model::codes! {
    /// Stable name of an error of a command; part of the JSON output.
    pub(crate) enum CommandCode {
        Usage = "usage" {
            title: "Wrong usage of the command line",
            meaning: "An argument or option is unknown, missing, or does not go with another one. Nothing was read or changed.",
            action: "Run `talmox help COMMAND`.",
        }
        CodeUnknown = "code-unknown" {
            title: "There is no such code",
            meaning: "`talmox explain` got a code that this release does not have. Codes of a newer release may be missing here.",
            action: "Run `talmox explain` without a code to list all codes.",
        }
        InputNeeded = "input-needed" {
            title: "A question cannot be answered",
            meaning: "The command asks a question, and there is no terminal, or the input ended before an answer.",
            action: "Pass the answer as an option: `--yes` confirms, and `talmox help COMMAND` lists the others.",
        }
        Declined = "declined" {
            title: "The question was answered with no",
            meaning: "The command asked before a change, and the answer was not yes. Nothing was changed.",
            action: "Run the command again and confirm, or pass `--yes` in a script.",
        }
        Interrupted = "interrupted" {
            title: "The command was interrupted",
            meaning: "Ctrl-C, a signal or the end of the input stopped the command. A run finishes what it has started.",
            action: "Run the same command to resume; nothing has to be undone.",
        }
        InventoryMissing = "inventory-missing" {
            title: "No inventory found",
            meaning: "talmox looks for an inventory in ./inventory, then in the current folder, or at the path of `--inventory`. There \
                is none, or it has no cluster files.",
            action: "Run `talmox init` to write one, or pass `--inventory PATH`.",
        }
        ClusterUnknown = "cluster-unknown" {
            title: "The inventory has no such cluster",
            meaning: "The name on the command line is not the name of a cluster of the inventory.",
            action: "Correct the name; the folders or files of the inventory have the names of the clusters.",
        }
        ClusterAmbiguous = "cluster-ambiguous" {
            title: "The inventory has several clusters",
            meaning: "The command works on one cluster, and none was named.",
            action: "Pass the name of one of the clusters that the hint lists.",
        }
        InventoryInvalid = "inventory-invalid" {
            title: "The inventory has errors",
            meaning: "Commands that read or change a cluster need a valid inventory. The errors are shown before this one; each has a \
                code of its own.",
            action: "Correct what is marked `error`; `talmox check` shows it again.",
        }
        NodeNotFound = "node-not-found" {
            title: "There is no such node",
            meaning: "The name is neither a node of the cluster nor an address.",
            action: "Use one of the names that the hint lists, or the address of the node.",
        }
        NodeNotTalos = "node-not-talos" {
            title: "The node does not run Talos",
            meaning: "The command uses the Talos API or the files of a Talos cluster, and the node or cluster runs another system.",
            action: "Use SSH for nodes with `os: ubuntu`.",
        }
        NodeAddressUnknown = "node-address-unknown" {
            title: "The address of a node is unknown",
            meaning: "The node gets its address by DHCP, and neither the inventory nor the guest agent has it; or talmox could not \
                verify which machine the node is.",
            action: "Pass the address of the node instead of its name, if you know it.",
        }
        NodeUnreachable = "node-unreachable" {
            title: "The Talos API of a node does not answer",
            meaning: "No connection to port 50000 of the node, or the machine that answers is not a node of this cluster. The message \
                has the reason.",
            action: "Check that the VM runs and that this machine can reach port 50000. The console of the VM shows the state of \
                Talos.",
        }
        NodeFailed = "node-failed" {
            title: "A node rejected a request",
            meaning: "The Talos API of the node answered with an error, whose text is at the end of the message.",
            action: "Follow the hint; the role of the talosconfig and the version of Talos decide what a node allows.",
        }
        ResourceUnknown = "resource-unknown" {
            title: "The node has no such resource",
            meaning: "`talmox node get` names a kind or an id that the node does not have.",
            action: "Run `talmox node get NODE resourcedefinitions`, or omit the id to list all of a kind.",
        }
        ConfigNotForNode = "config-not-for-node" {
            title: "The machine config belongs to another node",
            meaning: "The hostname, role or cluster of the config does not match the node. Nothing was sent.",
            action: "Render the config of this node with `talmox render`; `--force` sends the file anyway.",
        }
        ConfigInvalid = "config-invalid" {
            title: "A machine config or patch is invalid",
            meaning: "Talos would reject the config, or the file is not a machine config, or a patch does not apply to it.",
            action: "Correct the place in the message. `talmox check` shows all problems of an inventory, `talmox config validate \
                -m metal FILE` those of a file.",
        }
        FileUnreadable = "file-unreadable" {
            title: "A file cannot be read",
            meaning: "The file does not exist, is not text, or its permissions do not allow reading.",
            action: "Check the path and its permissions with `ls -l`.",
        }
        FileUnwritable = "file-unwritable" {
            title: "A file or folder cannot be written",
            meaning: "The folder does not exist, the disk is full, or permissions do not allow writing. Files are replaced as a \
                whole, so an old file is still complete.",
            action: "Check permissions and free space (`df -h`), then run the command again.",
        }
        FileExists = "file-exists" {
            title: "A file exists already",
            meaning: "The command does not overwrite files that talmox did not write, or that contain keys.",
            action: "Move the file away, choose another path, or pass `--force` or `--merge` where the command has it.",
        }
        FileUnsafe = "file-unsafe" {
            title: "A file is a link or not a regular file",
            meaning: "Keys and logs are only written to regular files at their own path: a link could lead to a place that other users \
                read.",
            action: "Check the target of the link (`ls -l`), then remove the link.",
        }
        HomeMissing = "home-missing" {
            title: "There is no home folder",
            meaning: "The file belongs into the home folder of the user, and HOME is not set.",
            action: "Set HOME, or name the file with `--output PATH`.",
        }
        OutputFailed = "output-failed" {
            title: "The result cannot be written",
            meaning: "Writing to stdout failed, for example because the disk of a redirected file is full.",
            action: "Check the target of the output, then run the command again.",
        }
        OutputUnknown = "output-unknown" {
            title: "There is no such output",
            meaning: "`talmox output` knows names of nodes, their fields, and some names of the cluster.",
            action: "Run `talmox output` to see all names.",
        }
        SecretsMissing = "secrets-missing" {
            title: "The cluster has no secrets",
            meaning: "The secrets bundle, or a value that `{secret: PATH}` refers to, does not exist. Machine configs and certificates \
                are made from the bundle.",
            action: "For a new cluster run `talmox secrets init`; import existing ones with `talmox secrets import FILE`; set a \
                value with `talmox secrets set PATH`.",
        }
        SecretsExist = "secrets-exist" {
            title: "The cluster has secrets already",
            meaning: "The secrets bundle is the identity of a cluster, so talmox never replaces or edits it.",
            action: "Look at it with `talmox secrets show`. For another cluster use another folder.",
        }
        SecretsInvalid = "secrets-invalid" {
            title: "The secrets file is broken",
            meaning: "The file is not a valid sops file, or its Talos bundle is incomplete or inconsistent.",
            action: "Restore it from a backup or from Git.",
        }
        SecretsUndecryptable = "secrets-undecryptable" {
            title: "The secrets file cannot be decrypted",
            meaning: "None of your age keys is a recipient of the file, or it was changed without sops.",
            action: "Set SOPS_AGE_KEY_FILE to the right key, or ask an existing recipient to run `talmox secrets rekey`.",
        }
        SecretsUnencryptable = "secrets-unencryptable" {
            title: "The secrets cannot be encrypted",
            meaning: "Encryption failed, would leave a value in clear text because of a rule such as `encrypted_regex`, or would lock \
                you out because your own key is not a recipient. Nothing was written.",
            action: "Correct .sops.yaml or the recipients, and name your own recipient as well.",
        }
        FileChanged = "file-changed" {
            title: "Another process changed a file",
            meaning: "A secrets or client file was written by another command while this one worked with it. Nothing was overwritten.",
            action: "Run the command again: it uses the new file.",
        }
        SecretsUnmade = "secrets-unmade" {
            title: "No secrets are created, because the cluster may exist",
            meaning: "The secrets file is missing, and VMs, logs or files show that the cluster was created before, or talmox cannot \
                verify that it was not. New secrets would lock you out of it.",
            action: "Restore the secrets file from a backup or from Git. Only if the cluster was never created, pass `--new-cluster`.",
        }
        SecretsUnused = "secrets-unused" {
            title: "A secrets file in clear text is not used",
            meaning: "A plain Talos secrets file is beside the inventory, and talmox uses the encrypted one only.",
            action: "Run `talmox secrets import FILE` if these are the secrets of the cluster, otherwise move the file away.",
        }
        AgeKeyMissing = "age-key-missing" {
            title: "No usable age key",
            meaning: "talmox found no age key in SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD or the default file, or the key is \
                malformed.",
            action: "Create one with `age-keygen -o FILE`, and set SOPS_AGE_KEY_FILE.",
        }
        RecipientsInvalid = "recipients-invalid" {
            title: "The recipients of the secrets are missing or invalid",
            meaning: "No creation rule of .sops.yaml matches the file, the rule has no age recipient, or a recipient is malformed.",
            action: "Add `age: age1…` to a rule of .sops.yaml, or pass `--recipient`.",
        }
        SecretUnset = "secret-unset" {
            title: "A secret that the inventory refers to has no value",
            meaning: "The environment variable of `{env: NAME}` is not set, or the value is empty or not text.",
            action: "Run `export NAME=…`, or refer to another place.",
        }
        SecretCommandFailed = "secret-command-failed" {
            title: "A command that prints a secret failed",
            meaning: "The command of `{command: …}`, or of SOPS_AGE_KEY_CMD, could not be run or ended with an error. Its output is not \
                shown, because it may contain the secret.",
            action: "Run it by hand. It gets only PATH, HOME and the variables that `env: […]` names.",
        }
        SecretCommandNotAllowed = "secret-command-not-allowed" {
            title: "A command of the inventory was not allowed to run",
            meaning: "An inventory can name commands that print secrets. talmox runs them only after you allowed it.",
            action: "Look at the command, then pass `--allow-commands`, or run talmox on a terminal and answer the question.",
        }
        AuthorityExpired = "authority-expired" {
            title: "The certificate authority of the cluster has expired",
            meaning: "The authority in the secrets bundle is no longer valid, or the clock of this machine is wrong. Nodes reject every \
                certificate that it signs.",
            action: "Check the clock with `date`. Talos documents how to rotate an authority.",
        }
        CertificateFailed = "certificate-failed" {
            title: "A certificate or client file cannot be created",
            meaning: "Signing with the authority of the secrets bundle failed, usually because the bundle is broken.",
            action: "Check the bundle with `talmox secrets show`.",
        }
        ClientFilesConflict = "client-files-conflict" {
            title: "A client file belongs to another cluster",
            meaning: "The kubeconfig or talosconfig in the place is that of another cluster, of a lab or a real cluster, or cannot be \
                merged with. It was not changed.",
            action: "Write to another place with `--output`, or move the file away.",
        }
        EndpointMissing = "endpoint-missing" {
            title: "The address of the Kubernetes API is unknown",
            meaning: "A kubeconfig needs an address, and the inventory has neither an endpoint nor a shared address nor an address of \
                the first control plane.",
            action: "Add `endpoint:` or `network: {vip: …}`.",
        }
        ProxmoxUnset = "proxmox-unset" {
            title: "The inventory does not say how to reach Proxmox",
            meaning: "`proxmox.endpoint` or the credentials are missing.",
            action: "Add `proxmox: {endpoint: https://HOST:8006, token: {env: PROXMOX_TOKEN}}`, or use `--lab`. `talmox init --role` \
                prints the commands that create a token.",
        }
        TokenMalformed = "token-malformed" {
            title: "The API token is malformed",
            meaning: "A token of Proxmox has the form `USER@REALM!NAME=SECRET`.",
            action: "Correct the value that `proxmox.token` refers to; mind quotes and `!` in the shell.",
        }
        ProxmoxClientFailed = "proxmox-client-failed" {
            title: "The connection to Proxmox cannot be set up",
            meaning: "The certificate authority or fingerprint of the inventory cannot be used, or the client cannot be created.",
            action: "Check `proxmox.ca_file` and `proxmox.fingerprint`.",
        }
        ClusterLocked = "cluster-locked" {
            title: "Another run works on the cluster",
            meaning: "`up`, `destroy` and other commands lock the cluster, in its folder and in Proxmox. Another run holds the lock, so \
                nothing was changed.",
            action: "Wait for it, or stop it with Ctrl-C where it runs. If that run is dead, `talmox unlock` removes its lock.",
        }
        LockFailed = "lock-failed" {
            title: "The cluster cannot be locked",
            meaning: "Proxmox did not answer, or rejected the lock. Without a lock nothing is changed.",
            action: "Check that Proxmox answers and that the token has Pool.Allocate and Pool.Audit on /pool/talmox-lock: `talmox init \
                --role`.",
        }
        PlanBlocked = "plan-blocked" {
            title: "The plan has errors",
            meaning: "Findings of the plan are errors, so no step was run. Each finding is shown before this one, with a code of its \
                own.",
            action: "Fix each error, then run the command again. `talmox explain CODE` explains a finding.",
        }
        PlanChanged = "plan-changed" {
            title: "The cluster changed after the plan was shown",
            meaning: "After your confirmation talmox plans again. The new plan differs from the one that you confirmed, so nothing was \
                changed.",
            action: "Run the same command again to see the new plan.",
        }
        SavedPlanChanged = "saved-plan-changed" {
            title: "A saved plan does not match the cluster",
            meaning: "`up --plan FILE` executes a saved plan only if a new plan is the same. The inventory or the cluster changed, or \
                the file was saved for another cluster.",
            action: "Save a new plan with `talmox plan --out FILE`.",
        }
        SavedPlanInvalid = "saved-plan-invalid" {
            title: "A file is not a saved plan",
            meaning: "The file of `up --plan FILE` is damaged or was edited, another release of talmox saved it, or it is not a plan. \
                Nothing was changed.",
            action: "Save a new plan with `talmox plan --out FILE`.",
        }
        StepsFailed = "steps-failed" {
            title: "Steps of the run failed",
            meaning: "Each failed step is listed with a code of its own. Steps that depend on it were skipped; the others were \
                finished.",
            action: "Fix the causes, then run the same command to resume. `talmox runs` shows the log.",
        }
        RunUnknown = "run-unknown" {
            title: "There is no such run",
            meaning: "`talmox runs` found no log with this name, or no run was logged yet.",
            action: "Run `talmox runs` to list the runs.",
        }
        ManifestsMissing = "manifests-missing" {
            title: "A folder has no manifests",
            meaning: "An add-on refers to a folder without .yaml, .yml or .json files.",
            action: "Put manifests into the folder, or correct the path.",
        }
        AddonUnknown = "addon-unknown" {
            title: "The inventory has no such add-on",
            meaning: "The name on the command line is not the name of an add-on of the cluster.",
            action: "Run `talmox addons list` to see the names.",
        }
        AddonProgramMissing = "addon-program-missing" {
            title: "A program that makes manifests is not installed",
            meaning: "A chart needs `helm` (3 or 4), and a kustomize folder needs `kustomize` or `kubectl`. The program is not on PATH.",
            action: "Install the program, or set TALMOX_HELM to its path. A chart that `talmox addons vendor` has stored needs no \
                program.",
        }
        AddonProgramFailed = "addon-program-failed" {
            title: "A program could not make the manifests of an add-on",
            meaning: "`helm`, `kustomize` or `kubectl` ended with an error or exceeded its time. The message has the end of its output.",
            action: "Correct the chart, its version or its values. For a download, check the address and the network.",
        }
        AddonChanged = "addon-changed" {
            title: "A chart differs from the recorded one",
            meaning: "The digest of a chart or of its stored objects is not the one in addons.lock.yaml: the chart was published again \
                with the same version, or a file was edited, or the inventory changed after `talmox addons vendor`.",
            action: "Review the change. Then run `talmox addons update NAME`, or `talmox addons vendor NAME` for a stored chart.",
        }
        AddonLockInvalid = "addon-lock-invalid" {
            title: "addons.lock.yaml cannot be read",
            meaning: "The file with the digests of the charts is not valid YAML, or a newer release of talmox wrote it.",
            action: "Restore the file from Git, or delete it and run `talmox addons update`.",
        }
        AddonSecret = "addon-secret" {
            title: "A chart with secret values cannot be stored",
            meaning: "The values of the add-on refer to secrets. The stored objects would contain the secrets in clear text.",
            action: "Let the chart read an existing Secret, and remove the references from `values:`, or do not store this add-on.",
        }
        ImportInvalid = "import-invalid" {
            title: "A file cannot be imported",
            meaning: "The file does not have the form that `talmox import` expects.",
            action: "Correct the place in the message; `talmox help import` describes the form.",
        }
        AdoptImpossible = "adopt-impossible" {
            title: "The cluster cannot be adopted",
            meaning: "`talmox adopt` could not read a control plane, found no VM for it, cannot describe the cluster by an inventory, or \
                could not write a marker.",
            action: "Follow the hint. The nodes and their VMs keep running as they are.",
        }
        EditorFailed = "editor-failed" {
            title: "The editor failed",
            meaning: "`talmox secrets edit` could not run an editor, or the editor ended with an error. Nothing was written.",
            action: "Set EDITOR to an editor that waits until you close the file, for example `code --wait`.",
        }
        EditInvalid = "edit-invalid" {
            title: "The edited secrets cannot be saved",
            meaning: "The text is not YAML, contains something that sops cannot encrypt, or changes the Talos bundle.",
            action: "Edit again and correct the line in the message.",
        }
        CertificateUnconfirmed = "certificate-unconfirmed" {
            title: "The certificate of Proxmox was not confirmed",
            meaning: "`talmox init` shows the certificate of the host, and you did not confirm it, or it could not be read. No \
                fingerprint was written.",
            action: "Compare it on the console of the host: `pvenode cert info`.",
        }
        LabFailed = "lab-failed" {
            title: "The lab failed",
            meaning: "The simulated environment could not be started or stopped, or the file of `--lab-at` is not the output of a lab.",
            action: "Follow the hint; docs/LAB.md describes labs.",
        }
        ScenarioInvalid = "scenario-invalid" {
            title: "A scenario of a lab is invalid",
            meaning: "The scenario or faults file has an unknown key or a wrong value.",
            action: "Correct the line in the message; docs/LAB.md describes the format.",
        }
        EtcdUnreachable = "etcd-unreachable" {
            title: "No etcd member answers",
            meaning: "None of the control planes of the inventory reports the members of etcd. They do not run, cannot be reached, or \
                etcd has lost its quorum.",
            action: "Run `talmox status`, and bring the control planes back: `talmox node start --role controlplane`, or `talmox up`.",
        }
        EtcdMemberUnknown = "etcd-member-unknown" {
            title: "etcd has no such member, or its name is not unique",
            meaning: "`talmox etcd remove-member` found no member with this name or id, several members with the name, or a member that \
                has no name because it has never started.",
            action: "Run `talmox etcd members`, and pass the name of a member.",
        }
        SystemFailed = "system-failed" {
            title: "A basic operation of the operating system failed",
            meaning: "Threads, signals, network sockets or TLS could not be set up.",
            action: "Check limits (`ulimit -a`) and the certificate store of this machine.",
        }
    }
}
