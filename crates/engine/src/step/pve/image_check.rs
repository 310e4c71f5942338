//! Check of an image on a storage: its length, its format, and the size of the disk in it.

use std::path::Path;

use talmox_plan::plan::FetchImage;
use talmox_pve::PveError;
use talmox_pve::api::storage;
use talmox_values::url::shown_url;

use super::super::{StepCode, StepContext, StepError};
use super::error;
use super::storage_file::find;
use crate::web::WebError;

/// Header of a qcow2 image: its magic bytes, and the position of the size of the disk.
const QCOW2_MAGIC: &[u8] = b"QFI\xfb";
const QCOW2_SIZE: std::ops::Range<usize> = 24..32;

/// Length of an image file and size of the disk in it, according to the source of the image. Both are unknown if this machine
/// cannot reach the source. Then the host downloads the image, and any valid image is accepted.
#[derive(Debug, Default)]
pub(super) struct ExpectedImage {
    /// Whether the source of the image answers.
    pub(super) is_reachable: bool,
    /// Length of the file, in bytes.
    pub(super) length: Option<u64>,
    /// Size of the disk in the image, in bytes.
    virtual_size: Option<u64>,
}

#[derive(Debug)]
pub(super) enum ImageVerdict {
    Good,
    Missing,
    /// The file is truncated, is not an image, or has another size.
    Bad(String),
}

impl ExpectedImage {
    /// Requests the length of the image from its source, and for qcow2 the size of the disk in it.
    pub(super) async fn of(step: &FetchImage, context: &StepContext) -> Result<Self, StepError> {
        let url = &step.url;
        let shown = shown_url(url);
        let doing = format!("request {shown}");
        let web = &context.run.web;
        let built = "the source to build the image";
        let length = match context.asks(built, web.length(url)).await? {
            Ok(length) => length,
            Err(WebError::Connect { source, .. }) => {
                context.note(format!("this machine cannot reach {shown}: {source}"));
                return Ok(Self::default());
            }
            Err(error) => return Err(StepError::web(&doing, error)),
        };
        let extension = Path::new(step.volume.name()).extension();
        if extension.is_none_or(|extension| extension != "qcow2") {
            return Ok(Self { is_reachable: true, length, virtual_size: None });
        }
        let head = context.wait(web.beginning(url, QCOW2_SIZE.end)).await?;
        let head = head.map_err(|error| StepError::web(&doing, error))?;
        let Some(virtual_size) = qcow2_size(&head) else {
            return Err(StepError::failed(
                StepCode::ImageWrong,
                format!("{shown} is not a qcow2 image"),
            ));
        };
        Ok(Self { is_reachable: true, length, virtual_size: Some(virtual_size) })
    }

    /// Compares the file on the storage with the source.
    pub(super) async fn judge(
        &self,
        step: &FetchImage,
        context: &StepContext,
    ) -> Result<ImageVerdict, StepError> {
        let Some(file) = find(&step.host, &step.volume, context).await? else {
            return Ok(ImageVerdict::Missing);
        };
        if let (Some(expected), Some(found)) = (self.length, file.size)
            && expected != found
        {
            return Ok(ImageVerdict::Bad(format!("it has {found} bytes instead of {expected}")));
        }
        let doing = format!("read {} on {}", step.volume, step.host);
        let look = storage::volume(&step.host, &step.volume);
        let info = match context.try_ask(&look).await? {
            Ok(info) => info,
            // The host does not recognise the format of the file.
            Err(error @ PveError::Rejected(_)) if !error.is_permission() => {
                return Ok(ImageVerdict::Bad(error.to_string()));
            }
            Err(error) => return Err(error::of(&doing, error)),
        };
        match (self.virtual_size, info.size) {
            (Some(expected), found) if found != expected => Ok(ImageVerdict::Bad(format!(
                "the disk in it has {found} bytes instead of {expected}"
            ))),
            _ => Ok(ImageVerdict::Good),
        }
    }
}

/// The size of the disk in a qcow2 image. None if `head` is not the start of a qcow2 image.
fn qcow2_size(head: &[u8]) -> Option<u64> {
    let size = head.get(QCOW2_SIZE).filter(|_| head.starts_with(QCOW2_MAGIC))?;
    size.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_the_disk_stands_in_the_header() {
        let mut head = b"QFI\xfb\0\0\0\x03".to_vec();
        head.resize(24, 0);
        head.extend((1_u64 << 30).to_be_bytes());
        assert_eq!(qcow2_size(&head), Some(1 << 30));
        assert_eq!(qcow2_size(&head[..31]), None);
        head[0] = b'X';
        assert_eq!(qcow2_size(&head), None);
    }
}
