//! A file on its way in: from the connection to a blob, with little memory and no waiting on the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Patience;
use super::multipart::Multipart;
use super::text::Params;
use super::wire::{Lost, Wire};
use crate::blob::BlobId;
use crate::pve::call::Upload;
use crate::pve::site::Site;

/// Pieces that may wait for the disk.
const QUEUE: usize = 4;

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
            file.write(piece).await?;
            while let Ok(block) = file.written.try_recv() {
                form.reuse(block);
            }
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
    let (blob, length) = file.finish().await?;
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

/// A blob that is being written, on a thread of its own. One that is not finished is taken away.
#[derive(Debug)]
struct NewFile {
    blob: BlobId,
    unfinished: Unfinished,
    pieces: mpsc::Sender<Vec<u8>>,
    /// Blocks that can be filled again.
    written: mpsc::UnboundedReceiver<Vec<u8>>,
    writer: JoinHandle<io::Result<u64>>,
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
        let (pieces, incoming) = mpsc::channel(QUEUE);
        let (outgoing, written) = mpsc::unbounded_channel();
        let writer = tokio::task::spawn_blocking(move || write_all(file, incoming, &outgoing));
        Ok(Self { blob, unfinished, pieces, written, writer })
    }

    async fn write(&mut self, piece: Vec<u8>) -> Result<(), Spoiled> {
        if self.pieces.send(piece).await.is_err() {
            let ended = (&mut self.writer).await.map_err(io::Error::other)?;
            ended?;
        }
        Ok(())
    }

    async fn finish(self) -> io::Result<(BlobId, u64)> {
        let Self { blob, mut unfinished, pieces, written: _written, writer } = self;
        drop(pieces);
        let length = writer.await.map_err(io::Error::other)??;
        unfinished.0 = None;
        Ok((blob, length))
    }
}

fn write_all(
    mut file: File,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    written: &mpsc::UnboundedSender<Vec<u8>>,
) -> io::Result<u64> {
    let mut length = 0;
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
        length += u64::try_from(piece.len()).unwrap_or_default();
        // Whoever fills blocks may be gone already.
        written.send(piece).ok();
    }
    Ok(length)
}

fn private_file(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
