//! The upload of a volume with a node's config, and the end of that upload.

use talmox_plan::plan::{SCRUBBED, ScrubCidata, UploadCidata};
use talmox_pve::api::storage::{self, Checksum, Content, Upload, Volume};
use talmox_pve::client::FileSource;
use talmox_pve::id::{NodeName, VolumeId};
use talmox_talos_config::cidata::{Cidata, Image};

use super::super::{Done, StepContext, StepError};
use super::error;

/// What a scrubbed upload consists of.
const ZEROS: &[u8] = &[0; SCRUBBED];

/// Uploads a volume. What lies under its name is overwritten: what is in it cannot be seen.
pub(in crate::step) async fn upload_cidata(
    step: &UploadCidata,
    context: &StepContext,
) -> Result<Done, StepError> {
    let UploadCidata { host, volume, user_data, instance_id, network, .. } = step;
    let doing = format!("upload {volume} to {host}");
    let cidata = Cidata { user_data, instance_id, network };
    let image = cidata.image().map_err(|error| StepError::failed(&doing).caused_by(error))?;
    let size = image.as_bytes().len() as u64;
    let file = FileSource::new(std::io::Cursor::new(Bytes(image)), size)
        .with_progress(context.progress(Some(size)));
    send((host, volume), async { Ok(file) }, None, &doing, context).await?;
    let found = find(host, volume, context).await?.and_then(|found| found.size);
    if found == Some(size) {
        return Ok(Done::Acted);
    }
    Err(StepError::retry(format!("{doing}: {size} bytes went out, and {found:?} are there")))
}

/// Writes zeros over an upload, as deleting takes a right over the whole storage; and deletes it
/// where that right is there.
pub(in crate::step) async fn scrub_cidata(
    step: &ScrubCidata,
    context: &StepContext,
) -> Result<Done, StepError> {
    let ScrubCidata { host, volume, delete, .. } = step;
    let doing = format!("scrub {volume} on {host}");
    let Some(found) = find(host, volume, context).await? else { return Ok(Done::Already) };
    let is_scrubbed = found.size == Some(ZEROS.len() as u64);
    if !is_scrubbed {
        let zeros = FileSource::new(ZEROS, ZEROS.len() as u64);
        send((host, volume), async { Ok(zeros) }, None, &doing, context).await?;
    }
    if !delete {
        return Ok(if is_scrubbed { Done::Already } else { Done::Acted });
    }
    match context.try_task(&storage::delete(host, volume)).await? {
        Ok(_) => Ok(Done::Acted),
        Err(error) if error.is_permission() => {
            context.note(format!("{volume} stays, with zeros in it: deleting takes another right"));
            Ok(Done::Acted)
        }
        Err(error) => Err(error::of(&doing, error)),
    }
}

/// Sends a file to the storage and waits until it is in its place. It is opened when there is room for it.
pub(super) async fn send(
    (host, volume): (&NodeName, &VolumeId),
    file: impl Future<Output = Result<FileSource, StepError>>,
    checksum: Option<Checksum>,
    doing: &str,
    context: &StepContext,
) -> Result<(), StepError> {
    let name = volume.file_name().parse();
    let name = name.map_err(|error| StepError::failed(doing).caused_by(error))?;
    let upload = Upload {
        node: host.clone(),
        storage: volume.storage().clone(),
        content: Content::Import,
        name,
        checksum,
    };
    let room = context.room(&upload.scope()).await?;
    let file = file.await?;
    // A broken upload leaves nothing behind, so who wants to stop need not wait for it.
    let sending = async {
        let sent = context.wait(Box::pin(context.run.pve.upload_in(room, &upload, file))).await?;
        sent.map_err(|error| error::of(doing, error))
    };
    let running = context.act(sending).await?;
    context.end_of(running).await?.map_err(|error| error::of(doing, error))?;
    Ok(())
}

/// A file among those that disks are made from.
pub(super) async fn find(
    host: &NodeName,
    volume: &VolumeId,
    context: &StepContext,
) -> Result<Option<Volume>, StepError> {
    let list = storage::content(host, volume.storage(), Some(Content::Import), None);
    let files = context.ask(&list, &format!("list {} on {host}", volume.storage())).await?;
    Ok(files.into_iter().find(|file| file.volid == *volume))
}

/// The bytes of a volume, wiped when they are no longer needed.
struct Bytes(Image);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
