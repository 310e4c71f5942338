//! A file on its way in: from the connection to a blob, with little memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};

use super::Patience;
use super::multipart::Multipart;
use super::text::Params;
use super::wire::{Lost, Wire};
use crate::blob::BlobId;
use crate::pve::call::Upload;
use crate::pve::site::Site;

/// What came with a file, and the file.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) params: Params,
    pub(super) upload: Upload,
}

/// Why there is no file.
#[derive(Debug)]
pub(super) enum Spoiled {
    /// 500, with this text.
    Told(String),
    Lost(Lost),
}

impl From<Lost> for Spoiled {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// Reads `length` bytes of a form with this boundary.
pub(super) async fn receive<S>(
    wire: &mut Wire<S>,
    boundary: &str,
    length: u64,
    site: &Site,
    contacted: &str,
    patience: Patience,
) -> Result<Received, Spoiled>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut form = Multipart::new(boundary);
    let mut file = NewFile::create(site).map_err(Spoiled::from)?;
    let mut left = length;
    while left > 0 && !form.is_done() {
        let came = wire.pour(form.block(), left, patience.body).await?;
        left -= u64::try_from(came).unwrap_or_default();
        if let Some(piece) = form.advance().map_err(Spoiled::Told)? {
            file.write(piece)?;
        }
    }
    let fields = form.fields().filter(|_| form.is_done());
    let fields = fields.ok_or_else(|| Spoiled::Told("upload failed".to_owned()))?;
    let mut params = Params::new();
    for (name, value) in fields {
        params.insert(name.to_owned(), value.into());
    }
    if let Some(filename) = &form.filename {
        params.insert("filename".to_owned(), filename.clone().into());
    }
    let (blob, length) = file.finish();
    let mut name = [0; 16];
    site.chance("upload").fill(&mut name);
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    let temporary = format!("/var/tmp/pveupload-{name}");
    let upload = Upload { blob, length, temporary, contacted: contacted.to_owned() };
    Ok(Received { params, upload })
}

impl From<io::Error> for Spoiled {
    fn from(error: io::Error) -> Self {
        Self::Told(format!("write to temporary file failed - {error}"))
    }
}

/// A blob that is being written. One that is not finished is taken away.
///
/// Written right where the bytes come out of TLS, while they are in the processor's cache: the kernel takes them in about
/// the time that handing them to another thread would cost.
#[derive(Debug)]
struct NewFile {
    blob: BlobId,
    unfinished: Unfinished,
    file: File,
    length: u64,
}

#[derive(Debug)]
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The folder goes too, sooner or later.
            std::fs::remove_file(path).ok();
        }
    }
}

impl NewFile {
    fn create(site: &Site) -> io::Result<Self> {
        let blob = site.blobs.reserve();
        let path = site.blobs.path(&blob);
        let file = private_file(&path)?;
        let unfinished = Unfinished(Some(path));
        Ok(Self { blob, unfinished, file, length: 0 })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.length += u64::try_from(piece.len()).unwrap_or_default();
        Ok(())
    }

    fn finish(mut self) -> (BlobId, u64) {
        self.unfinished.0 = None;
        (self.blob, self.length)
    }
}

fn private_file(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
