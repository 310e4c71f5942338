//! cloud-init, for nodes that run Ubuntu.

use crate::language::{List, Setting, mapping};
use crate::value::{FileMode, FilePath, SecretRef};

mapping! {
    /// What cloud-init does at first boot. The host name and the network follow from the node.
    called "`cloud_init`"
    pub struct CloudInit {
        /// Users.
        users: List<User>,
        /// SSH keys for the default user.
        ssh_authorized_keys ["ssh_keys"]: List<String>,
        /// Packages to install.
        packages: List<String>,
        /// Upgrade all packages first.
        package_upgrade: Setting<bool>,
        /// Files to write.
        files ["write_files"]: List<CloudInitFile>,
        /// Commands to run.
        runcmd: List<String>,
        /// A file of user-data that is laid over all of the above.
        overlay: Setting<FilePath>,
    }
}

mapping! {
    /// A user.
    called "a user"
    pub struct User {
        /// The login name.
        name: Setting<String>,
        /// SSH keys that may log in.
        ssh_authorized_keys ["ssh_keys"]: List<String>,
        /// Groups.
        groups: List<String>,
        /// The login shell.
        shell: Setting<String>,
        /// The rule for sudo, such as `ALL=(ALL) NOPASSWD:ALL`.
        sudo: Setting<String>,
        /// The hash of a password.
        password_hash ["passwd"]: Setting<SecretRef>,
    }
}

mapping! {
    /// A file.
    called "a file"
    pub struct CloudInitFile {
        /// Where it is written.
        path: Setting<String>,
        /// What is in it.
        content: Setting<String>,
        /// Its permissions.
        mode ["permissions"]: Setting<FileMode>,
        /// Its owner, such as `root:root`.
        owner: Setting<String>,
    }
}
