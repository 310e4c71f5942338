//! `LifecycleService` and `ImageService`: image pulls, installs and upgrades. Talos has these services since 1.13.

use std::time::Duration;

use talmox_lab_environment::Work;
use talmox_talos_api::proto::machine::image_service_pull_layer_progress::Status as LayerStatus;
use talmox_talos_api::proto::machine::image_service_pull_response::Response as PullWord;
use talmox_talos_api::proto::machine::image_service_server::ImageService;
use talmox_talos_api::proto::machine::lifecycle_service_install_progress::Response as InstallWord;
use talmox_talos_api::proto::machine::lifecycle_service_server::LifecycleService;
use talmox_talos_api::proto::machine::{
    ImageServicePullLayerProgress, ImageServicePullProgress, ImageServicePullRequest,
    ImageServicePullResponse, LifecycleServiceInstallProgress, LifecycleServiceInstallRequest,
    LifecycleServiceInstallResponse, LifecycleServiceUpgradeRequest,
    LifecycleServiceUpgradeResponse,
};
use talmox_talos_api::server::{Answered, Asked, Status};
use tonic::codegen::BoxStream;

use super::{NodeApi, Session, stream};
use crate::sequence::InstallerMessage;

/// Approximate size of the layer of an installer image, in bytes.
const LAYER_SIZE: i64 = 96 << 20;

#[tonic::async_trait]
impl LifecycleService for NodeApi {
    async fn install(
        &self,
        request: Asked<LifecycleServiceInstallRequest>,
    ) -> Result<Answered<BoxStream<LifecycleServiceInstallResponse>>, Status> {
        let LifecycleServiceInstallRequest { source, destination, .. } = request.into_inner();
        let image = source.unwrap_or_default().image_name;
        let disk = destination.unwrap_or_default().disk;
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let mut messages = simulation.start_install(*vmid, *boot, &image, &disk)?;
        Ok(Answered::new(stream::run(&self.0, |sender| async move {
            while let Some(message) = messages.recv().await {
                let answer = LifecycleServiceInstallResponse { progress: Some(progress(message)) };
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        })))
    }

    async fn upgrade(
        &self,
        request: Asked<LifecycleServiceUpgradeRequest>,
    ) -> Result<Answered<BoxStream<LifecycleServiceUpgradeResponse>>, Status> {
        let image = request.into_inner().source.unwrap_or_default().image_name;
        let Session { simulation, vmid, boot, .. } = &*self.0;
        let mut messages = simulation.start_upgrade(*vmid, *boot, &image)?;
        Ok(Answered::new(stream::run(&self.0, |sender| async move {
            while let Some(message) = messages.recv().await {
                let answer = LifecycleServiceUpgradeResponse { progress: Some(progress(message)) };
                if sender.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        })))
    }
}

fn progress(message: InstallerMessage) -> LifecycleServiceInstallProgress {
    let response = match message {
        InstallerMessage::Output(text) => InstallWord::Message(text),
        InstallerMessage::Exit(code) => InstallWord::ExitCode(code),
    };
    LifecycleServiceInstallProgress { response: Some(response) }
}

#[tonic::async_trait]
impl ImageService for NodeApi {
    async fn pull(
        &self,
        request: Asked<ImageServicePullRequest>,
    ) -> Result<Answered<BoxStream<ImageServicePullResponse>>, Status> {
        let image = request.into_inner().image_ref;
        if image.is_empty() {
            return Err(Status::invalid_argument("image reference is required"));
        }
        let session = self.0.clone();
        Ok(Answered::new(stream::run(&self.0, |sender| async move {
            let layer = |status: LayerStatus, offset: i64| {
                let progress = ImageServicePullLayerProgress {
                    status: status.into(),
                    elapsed: prost_types::Duration::try_from(Duration::ZERO).ok(),
                    offset,
                    total: LAYER_SIZE,
                };
                let layer_id = "sha256:installer".to_owned();
                let progress = ImageServicePullProgress { layer_id, progress: Some(progress) };
                ImageServicePullResponse { response: Some(PullWord::PullProgress(progress)) }
            };
            if sender.send(Ok(layer(LayerStatus::Downloading, 0))).await.is_err() {
                return;
            }
            let last = match pull(&session, &image).await {
                Ok(()) => {
                    let done = layer(LayerStatus::ExtractComplete, LAYER_SIZE);
                    if sender.send(Ok(done)).await.is_err() {
                        return;
                    }
                    Ok(ImageServicePullResponse { response: Some(PullWord::Name(image)) })
                }
                Err(status) => Err(status),
            };
            // Sending fails if the client has disconnected.
            drop(sender.send(last).await);
        })))
    }
}

/// Pulls an image into the image store of the system or of Kubernetes. An installer image must exist in the Image Factory. For
/// any other image, internet access of the node is sufficient.
pub(super) async fn pull(session: &Session, image: &str) -> Result<(), Status> {
    session.simulation.environment.wait(Work::Pull, &format!("node/{}/pull", session.vmid)).await;
    if image.contains("installer") {
        session.simulation.installer(session.vmid, image).map_err(Status::not_found)?;
    } else if !session
        .node(|node| node.network.has_internet(&session.simulation.settings.gateways))?
    {
        let text = format!("failed to pull image \"{image}\": network is unreachable");
        return Err(Status::unavailable(text));
    }
    session.change(|node| {
        node.images.insert(image.to_owned());
    })
}
