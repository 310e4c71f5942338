//! Upgrades: the legacy call, which does everything by itself, and the services of Talos 1.13 and
//! later, which do one thing each and leave quorum, draining and the reboot to the caller.

use super::{Actor, Answers, Client};
use crate::error::TalosError;
use crate::proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use crate::proto::machine::image_service_pull_response::Response as PullAnswer;
use crate::proto::machine::lifecycle_service_install_progress::Response as Progress;
use crate::proto::machine::{
    ImagePullRequest, ImageServicePullRequest, ImageServicePullResponse, InstallArtifactsSource,
    InstallDestination, LifecycleServiceInstallProgress, LifecycleServiceInstallRequest,
    LifecycleServiceInstallResponse, LifecycleServiceUpgradeRequest,
    LifecycleServiceUpgradeResponse, UpgradeRequest,
};

/// The upgrade of old: the node checks etcd, drains, installs and reboots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUpgrade {
    pub image: String,
    /// Only write it down, and install during the next boot.
    pub stage: bool,
    /// Without the checks of etcd.
    pub force: bool,
}

/// One word of an installer at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Said(String),
    /// The last one. Not zero is a failure, though the call itself went well.
    Exit(i32),
}

/// An installer at work.
#[derive(Debug)]
pub struct Install(Words);

#[derive(Debug)]
enum Words {
    Install(Answers<LifecycleServiceInstallResponse>),
    Upgrade(Answers<LifecycleServiceUpgradeResponse>),
}

/// One word of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// So much of a layer is there.
    Layer { id: String, offset: u64, total: u64 },
    /// The last one: the image is there, under this name.
    Done(String),
}

/// An image on its way to the node.
#[derive(Debug)]
pub struct Pull(Answers<ImageServicePullResponse>);

impl Client {
    /// `preserve` is never set: it has had no meaning for data since Talos 1.8, and from 1.12 on it
    /// would skip the checks of etcd.
    pub async fn legacy_upgrade(&self, upgrade: &LegacyUpgrade) -> Result<Actor, TalosError> {
        let request = UpgradeRequest {
            image: upgrade.image.clone(),
            stage: upgrade.stage,
            force: upgrade.force,
            ..UpgradeRequest::default()
        };
        let mut machine = self.machine();
        // It pulls and looks at the image before it answers.
        let answer = machine.upgrade(request);
        let begun = self.at_work().ask_one("Upgrade", answer, |all| all.messages).await?;
        Ok(Actor(begun.actor_id))
    }

    /// Since Talos 1.13: puts the pulled image in place of what is booted next. Nothing else.
    pub async fn upgrade(&self, image: &str) -> Result<Install, TalosError> {
        let request = LifecycleServiceUpgradeRequest {
            containerd: Some(system()),
            source: Some(InstallArtifactsSource { image_name: image.to_owned() }),
        };
        let mut lifecycle = self.lifecycle();
        let answer = lifecycle.upgrade(request);
        let answers = self.at_work().stream("LifecycleService.Upgrade", answer).await?;
        Ok(Install(Words::Upgrade(answers)))
    }

    /// Since Talos 1.13: installs the pulled image; `AlreadyExists` where Talos is installed.
    pub async fn install(&self, image: &str, disk: &str) -> Result<Install, TalosError> {
        let request = LifecycleServiceInstallRequest {
            containerd: Some(system()),
            source: Some(InstallArtifactsSource { image_name: image.to_owned() }),
            destination: Some(InstallDestination { disk: disk.to_owned() }),
        };
        let mut lifecycle = self.lifecycle();
        let answer = lifecycle.install(request);
        let answers = self.at_work().stream("LifecycleService.Install", answer).await?;
        Ok(Install(Words::Install(answers)))
    }

    /// Since Talos 1.13: pulls an image for the system itself.
    pub async fn pull(&self, image: &str) -> Result<Pull, TalosError> {
        let request =
            ImageServicePullRequest { containerd: Some(system()), image_ref: image.to_owned() };
        let mut service = self.image();
        Ok(Pull(self.at_work().stream("ImageService.Pull", service.pull(request)).await?))
    }

    /// Pulls an image ahead of its use, for Kubernetes or for the system; answered once it is there.
    pub async fn legacy_pull(&self, image: &str, for_system: bool) -> Result<(), TalosError> {
        let namespace =
            if for_system { ContainerdNamespace::NsSystem } else { ContainerdNamespace::NsCri };
        let request = ImagePullRequest { namespace: namespace.into(), reference: image.to_owned() };
        let mut machine = self.machine();
        self.at_work().ask("ImagePull", machine.image_pull(request)).await.map(|_| ())
    }
}

fn system() -> ContainerdInstance {
    ContainerdInstance {
        driver: ContainerDriver::Containerd.into(),
        namespace: ContainerdNamespace::NsSystem.into(),
    }
}

impl Install {
    /// The next word, each in time; nothing after the last one.
    pub async fn next(&mut self) -> Result<Option<Step>, TalosError> {
        loop {
            let progress: Option<LifecycleServiceInstallProgress> = match &mut self.0 {
                Words::Install(answers) => match answers.next_in_time().await? {
                    None => return Ok(None),
                    Some(answer) => answer.progress,
                },
                Words::Upgrade(answers) => match answers.next_in_time().await? {
                    None => return Ok(None),
                    Some(answer) => answer.progress,
                },
            };
            match progress.and_then(|progress| progress.response) {
                Some(Progress::Message(text)) => return Ok(Some(Step::Said(text))),
                Some(Progress::ExitCode(code)) => return Ok(Some(Step::Exit(code))),
                None => {}
            }
        }
    }
}

impl Pull {
    /// The next word, each in time; nothing after the last one.
    pub async fn next(&mut self) -> Result<Option<PullStep>, TalosError> {
        while let Some(answer) = self.0.next_in_time().await? {
            match answer.response {
                Some(PullAnswer::Name(name)) => return Ok(Some(PullStep::Done(name))),
                Some(PullAnswer::PullProgress(layer)) => {
                    let progress = layer.progress.unwrap_or_default();
                    return Ok(Some(PullStep::Layer {
                        id: layer.layer_id,
                        offset: progress.offset.try_into().unwrap_or_default(),
                        total: progress.total.try_into().unwrap_or_default(),
                    }));
                }
                None => {}
            }
        }
        Ok(None)
    }
}
