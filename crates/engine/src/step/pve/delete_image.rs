//! Deletes an image that no VM needs.

use talmox_plan::plan::DeleteImage;
use talmox_pve::api::storage;

use super::super::{Done, RunStep, StepCode, StepContext, StepError};
use super::storage_file::find;

impl RunStep for DeleteImage {
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { host, volume, .. } = self;
        if find(host, volume, context).await?.is_none() {
            return Ok(Done::Already);
        }
        let doing = format!("delete {volume} on {host}");
        context.run_task(&storage::delete(host, volume), &doing).await?;
        match find(host, volume, context).await? {
            None => Ok(Done::Acted),
            Some(_) => Err(StepError::retry(
                StepCode::ChangeNotVisible,
                format!("{doing}: Proxmox reported success, but the file still exists"),
            )),
        }
    }
}
