//! Choice between the two upgrade paths of a node, and the newer path.
//!
//! The legacy call performs all steps of an upgrade. From Talos 1.13 on, each step is a separate API call. The caller
//! checks the quorum ([`crate::quorum`]), drains the node and reboots it.

use semver::{BuildMetadata, Prerelease, Version};

use crate::client::{Client, PullStep, Step};
use crate::error::TalosError;

/// Upgrade path of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradePath {
    /// [`Client::legacy_upgrade`]: the node checks etcd, drains itself, installs the image and reboots.
    Legacy,
    /// [`install`] only installs the image: the caller checks etcd, drains the node and reboots it.
    Lifecycle,
}

impl UpgradePath {
    /// Path for the Talos version that the node runs now (such as `v1.13.6`). talosctl uses the same limit.
    pub fn of(running: &str) -> Self {
        let Ok(running) = Version::parse(running.trim_start_matches('v')) else {
            return Self::Legacy;
        };
        let last_without = Version {
            major: 1,
            minor: 13,
            patch: 0,
            pre: Prerelease::new("alpha.2").unwrap_or(Prerelease::EMPTY),
            build: BuildMetadata::EMPTY,
        };
        let has_services = running > last_without && running.major < 2;
        if has_services { Self::Lifecycle } else { Self::Legacy }
    }
}

/// Reason why an image was not installed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Talos(#[from] TalosError),
    #[error("the node pulled {image}, but did not confirm it")]
    NotPulled { image: String },
    #[error("the installer failed with exit code {code}: {last_words}")]
    Failed { code: i32, last_words: String },
    #[error("the installer ended without an exit code: {last_words}")]
    Unknown { last_words: String },
}

/// Pulls the image and installs it for the next boot. The node is not restarted.
pub async fn install(
    client: &Client,
    image: &str,
    mut tell: impl FnMut(&str),
) -> Result<(), InstallError> {
    let name = pull(client, image, &mut tell).await?;
    let mut installer = client.upgrade(&name).await?;
    let mut last_words = String::new();
    while let Some(step) = installer.next().await? {
        match step {
            Step::Said(words) => {
                tell(words.trim_end());
                words.trim_end().clone_into(&mut last_words);
            }
            Step::Exit(0) => return Ok(()),
            Step::Exit(code) => return Err(InstallError::Failed { code, last_words }),
        }
    }
    Err(InstallError::Unknown { last_words })
}

/// Pulls the image and returns the name that the node gives it.
async fn pull(
    client: &Client,
    image: &str,
    tell: &mut impl FnMut(&str),
) -> Result<String, InstallError> {
    tell(&format!("pulling {image}"));
    let mut pull = client.pull(image).await?;
    while let Some(step) = pull.next().await? {
        if let PullStep::Done(name) = step {
            return Ok(name);
        }
    }
    Err(InstallError::NotPulled { image: image.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upgrade_path_depends_on_the_running_version() {
        for running in ["v1.8.4", "v1.12.11", "v1.13.0-alpha.2", "v2.0.0", "unknown", ""] {
            assert_eq!(UpgradePath::of(running), UpgradePath::Legacy, "{running}");
        }
        for running in ["v1.13.0-alpha.3", "v1.13.0-beta.0", "1.13.6", "v1.14.0-rc.1", "v1.20.0"] {
            assert_eq!(UpgradePath::of(running), UpgradePath::Lifecycle, "{running}");
        }
    }
}
