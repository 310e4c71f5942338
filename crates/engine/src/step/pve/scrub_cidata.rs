//! Overwrites an uploaded config with zeros.

use talmox_plan::plan::{SCRUBBED, ScrubCidata};
use talmox_pve::api::storage;
use talmox_pve::client::FileSource;

use super::super::{Done, RunStep, StepContext, StepError};
use super::error;
use super::storage_file::{find, send};

/// Content of an overwritten upload.
const ZEROS: &[u8] = &[0; SCRUBBED];

impl RunStep for ScrubCidata {
    /// Overwrites the file, because deleting a file needs a right on the whole storage. If the token has that right, the file
    /// is deleted afterwards.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { host, volume, delete, .. } = self;
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
                context.note(format!(
                    "{volume} was overwritten with zeros and not deleted: the token lacks the right to delete it"
                ));
                Ok(Done::Acted)
            }
            Err(error) => Err(error::of(&doing, error)),
        }
    }
}
