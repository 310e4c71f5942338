//! Uploads the cidata volume of a node.

use talmox_plan::plan::UploadCidata;
use talmox_pve::client::FileSource;
use talmox_talos_config::cidata::{Cidata, Image};

use super::super::{Done, RunStep, StepCode, StepContext, StepError, secret_text};
use super::storage_file::{find, send};

impl RunStep for UploadCidata {
    /// Overwrites an existing file with this name. Its content cannot be compared, because Proxmox does not return the
    /// content of a file.
    async fn run(&self, context: &StepContext) -> Result<Done, StepError> {
        let Self { host, volume, user_data, instance_id, network, .. } = self;
        let doing = format!("upload {volume} to {host}");
        let user_data = secret_text(user_data)?;
        let cidata = Cidata { user_data, instance_id, network };
        let image = cidata
            .image()
            .map_err(|error| StepError::failed(StepCode::Bug, &doing).caused_by(error))?;
        let size = image.as_bytes().len() as u64;
        let file = FileSource::new(std::io::Cursor::new(Bytes(image)), size)
            .with_progress(context.progress(Some(size)));
        send((host, volume), async { Ok(file) }, None, &doing, context).await?;
        let found = find(host, volume, context).await?.and_then(|found| found.size);
        if found == Some(size) {
            return Ok(Done::Acted);
        }
        Err(StepError::retry(
            StepCode::ChangeNotVisible,
            format!("{doing}: {size} bytes were sent, and {}", stored(found)),
        ))
    }
}

/// Text about the file on the storage with this size.
fn stored(size: Option<u64>) -> String {
    match size {
        Some(size) => format!("the storage has {size} bytes"),
        None => "the storage does not list the file or its size".to_owned(),
    }
}

/// The bytes of a volume, wiped when they are no longer needed.
struct Bytes(Image);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::stored;

    #[test]
    fn an_unknown_size_has_a_text() {
        assert_eq!(stored(Some(7)), "the storage has 7 bytes");
        assert_eq!(stored(None), "the storage does not list the file or its size");
    }
}
