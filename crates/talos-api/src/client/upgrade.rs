//! Upgrade calls of the Talos API.
//!
//! The legacy call performs all steps of an upgrade. The services of Talos 1.13 and later perform single steps: the
//! caller checks the quorum, drains the node and reboots it.

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

/// Legacy upgrade: the node checks etcd, drains itself, installs the image and reboots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyUpgrade {
    pub image: String,
    /// Whether the node only stores the request and installs the image during the next boot.
    pub stage: bool,
    /// Whether the node skips the checks of etcd.
    pub force: bool,
}

/// Progress message of an installer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Said(String),
    /// Exit code of the installer, the last message. A code other than 0 is a failure, although the call itself
    /// succeeded.
    Exit(i32),
}

/// Progress of a running installer.
#[derive(Debug)]
pub struct Install(InstallAnswers);

#[derive(Debug)]
enum InstallAnswers {
    Install(Answers<LifecycleServiceInstallResponse>),
    Upgrade(Answers<LifecycleServiceUpgradeResponse>),
}

/// Progress message of an image pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// Progress of one layer.
    Layer { id: String, offset: u64, total: u64 },
    /// The image was pulled and has this name. This is the last message.
    Done(String),
}

/// Progress of an image pull on the node.
#[derive(Debug)]
pub struct Pull(Answers<ImageServicePullResponse>);

impl Client {
    /// Starts a legacy upgrade. The request never sets `preserve`: since Talos 1.8 it has no effect on data, and from
    /// 1.12 on it skips the checks of etcd.
    pub async fn legacy_upgrade(&self, upgrade: &LegacyUpgrade) -> Result<Actor, TalosError> {
        let request = UpgradeRequest {
            image: upgrade.image.clone(),
            stage: upgrade.stage,
            force: upgrade.force,
            ..UpgradeRequest::default()
        };
        let mut machine = self.machine();
        // The node pulls and checks the image before it answers.
        let answer = machine.upgrade(request);
        let started = self.at_work().ask_one("Upgrade", answer, |all| all.messages).await?;
        Ok(Actor(started.actor_id))
    }

    /// Installs the pulled image for the next boot, without further steps. Requires Talos 1.13.
    pub async fn upgrade(&self, image: &str) -> Result<Install, TalosError> {
        let request = LifecycleServiceUpgradeRequest {
            containerd: Some(system()),
            source: Some(InstallArtifactsSource { image_name: image.to_owned() }),
        };
        let mut lifecycle = self.lifecycle();
        let answer = lifecycle.upgrade(request);
        let answers = self.at_work().stream("LifecycleService.Upgrade", answer).await?;
        Ok(Install(InstallAnswers::Upgrade(answers)))
    }

    /// Installs Talos from the pulled image. Fails with `AlreadyExists` if Talos is already installed. Requires Talos
    /// 1.13.
    pub async fn install(&self, image: &str, disk: &str) -> Result<Install, TalosError> {
        let request = LifecycleServiceInstallRequest {
            containerd: Some(system()),
            source: Some(InstallArtifactsSource { image_name: image.to_owned() }),
            destination: Some(InstallDestination { disk: disk.to_owned() }),
        };
        let mut lifecycle = self.lifecycle();
        let answer = lifecycle.install(request);
        let answers = self.at_work().stream("LifecycleService.Install", answer).await?;
        Ok(Install(InstallAnswers::Install(answers)))
    }

    /// Pulls an image into the containerd of the system. Requires Talos 1.13.
    pub async fn pull(&self, image: &str) -> Result<Pull, TalosError> {
        let request =
            ImageServicePullRequest { containerd: Some(system()), image_ref: image.to_owned() };
        let mut service = self.image();
        Ok(Pull(self.at_work().stream("ImageService.Pull", service.pull(request)).await?))
    }

    /// Pulls an image in advance, for Kubernetes or for the system. Returns when the image was pulled.
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
    /// Next message, with a timeout; `None` after the last message.
    pub async fn next(&mut self) -> Result<Option<Step>, TalosError> {
        loop {
            let progress: Option<LifecycleServiceInstallProgress> = match &mut self.0 {
                InstallAnswers::Install(answers) => match answers.next_in_time().await? {
                    None => return Ok(None),
                    Some(answer) => answer.progress,
                },
                InstallAnswers::Upgrade(answers) => match answers.next_in_time().await? {
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
    /// Next message, with a timeout; `None` after the last message.
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
