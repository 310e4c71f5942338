//! cloud-init settings of nodes that run Ubuntu.

use crate::language::{List, Setting, mapping};
use crate::value::{FileMode, FilePath, SecretRef};

mapping! {
    /// cloud-init at first boot. The host name and the network follow from the node.
    called "`cloud_init`"
    pub struct CloudInit {
        /// Users to create.
        users: List<User>,
        /// SSH keys for the default user.
        ssh_authorized_keys ["ssh_keys"]: List<String>,
        /// Packages to install.
        packages: List<String>,
        /// Upgrade all packages before others are installed.
        package_upgrade: Setting<bool>,
        /// Files to write.
        files ["write_files"]: List<CloudInitFile>,
        /// Commands to run.
        runcmd: List<String>,
        /// File of user-data that is merged over all of the above.
        overlay: Setting<FilePath>,
    }
}

mapping! {
    /// A user of the system.
    called "a user"
    pub struct User {
        /// The login name.
        name: Setting<String>,
        /// SSH keys that may log in.
        ssh_authorized_keys ["ssh_keys"]: List<String>,
        /// Groups of the user.
        groups: List<String>,
        /// The login shell.
        shell: Setting<String>,
        /// The rule for sudo, such as `ALL=(ALL) NOPASSWD:ALL`.
        sudo: Setting<String>,
        /// Hash of the password.
        password_hash ["passwd"]: Setting<SecretRef>,
    }
}

mapping! {
    /// A file to write.
    called "a file"
    pub struct CloudInitFile {
        /// Path of the file.
        path: Setting<String>,
        /// Content of the file.
        content: Setting<String>,
        /// Permissions of the file.
        mode ["permissions"]: Setting<FileMode>,
        /// Owner of the file, such as `root:root`.
        owner: Setting<String>,
    }
}
