//! Files on a storage, with the content type `import`.

use talmox_pve::api::storage::{self, Checksum, Content, Upload, Volume};
use talmox_pve::client::FileSource;
use talmox_pve::id::{NodeName, VolumeId};

use super::super::{StepCode, StepContext, StepError};
use super::error;

/// Sends a file to a storage, and waits until the storage contains it. The file is opened when the storage has room for
/// another transfer.
pub(super) async fn send(
    (host, volume): (&NodeName, &VolumeId),
    file: impl Future<Output = Result<FileSource, StepError>>,
    checksum: Option<Checksum>,
    doing: &str,
    context: &StepContext,
) -> Result<(), StepError> {
    let name = volume.file_name().parse();
    let name = name.map_err(|error| StepError::failed(StepCode::Bug, doing).caused_by(error))?;
    let upload = Upload {
        node: host.clone(),
        storage: volume.storage().clone(),
        content: Content::Import,
        name,
        checksum,
    };
    let room = context.room(&upload.scope()).await?;
    let file = file.await?;
    // An interrupted upload leaves no file behind, so a cancelled run does not wait for the end of the upload.
    let sending = async {
        let sent = context.wait(Box::pin(context.run.pve.upload_in(room, &upload, file))).await?;
        sent.map_err(|error| error::of(doing, error))
    };
    let running = context.act(sending).await?;
    context.end_of(running).await?.map_err(|error| error::of(doing, error))?;
    Ok(())
}

/// The file with this name, if it exists.
pub(super) async fn find(
    host: &NodeName,
    volume: &VolumeId,
    context: &StepContext,
) -> Result<Option<Volume>, StepError> {
    let list = storage::content(host, volume.storage(), Some(Content::Import), None);
    let files = context.ask(&list, &format!("list {} on {host}", volume.storage())).await?;
    Ok(files.into_iter().find(|file| file.volid == *volume))
}
