//! A file on its way in: from the connection to a blob, with little memory.
//!
//! One thread takes bytes out of TLS while another one writes those before them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Patience;
use super::multipart::{Multipart, ROOM};
use super::text::Params;
use super::wire::{Lost, Wire};
use crate::blob::{BlobId, Blobs};
use crate::call::Upload;
use crate::site::Site;

/// Blocks that may be full at a time, so that neither side waits for each block of the other.
const BLOCKS: usize = 8;

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
    let mut writer = Writer::start(NewFile::create(&site.blobs, length)?);
    let mut left = length;
    while left > 0 && !form.is_done() {
        let came = wire.pour(form.block(), left, patience.body).await?;
        left -= u64::try_from(came).unwrap_or_default();
        if form.advance().map_err(Spoiled::Told)? {
            let empty = writer.empty().await;
            writer.write(form.take(empty)).await?;
        }
    }
    if !form.is_done() {
        return Err(Spoiled::Told("upload failed".to_owned()));
    }
    let mut params = Params::new();
    for (name, value) in form.fields() {
        params.insert((*name).to_owned(), value.as_str().into());
    }
    if let Some(filename) = &form.filename {
        params.insert("filename".to_owned(), filename.clone().into());
    }
    let (blob, length) = writer.end().await?.finish()?;
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

/// Writes a file on a thread of its own: a disk takes about as long for a block as it takes to come out of TLS. When
/// whoever reads is gone, what was written goes too.
#[derive(Debug)]
struct Writer {
    full: mpsc::Sender<Vec<u8>>,
    empty: mpsc::Receiver<Vec<u8>>,
    /// How many blocks there may be more.
    unmade: usize,
    thread: JoinHandle<io::Result<NewFile>>,
}

impl Writer {
    fn start(mut file: NewFile) -> Self {
        let (full, mut to_write) = mpsc::channel::<Vec<u8>>(BLOCKS);
        let (written, empty) = mpsc::channel(BLOCKS);
        let thread = tokio::task::spawn_blocking(move || {
            while let Some(block) = to_write.blocking_recv() {
                file.write(&block)?;
                // Whoever fills blocks may need no more of them.
                written.try_send(block).ok();
            }
            Ok(file)
        });
        Self { full, empty, unmade: BLOCKS, thread }
    }

    /// A block to be filled.
    async fn empty(&mut self) -> Vec<u8> {
        if let Ok(block) = self.empty.try_recv() {
            return block;
        }
        if self.unmade > 0 {
            self.unmade -= 1;
            return Vec::with_capacity(ROOM);
        }
        // A writer that gave up gives no blocks; why, the next write tells.
        self.empty.recv().await.unwrap_or_default()
    }

    async fn write(&mut self, block: Vec<u8>) -> io::Result<()> {
        if self.full.send(block).await.is_err() {
            (&mut self.thread).await.map_err(io::Error::other)??;
        }
        Ok(())
    }

    /// The file, with all that was to be written.
    async fn end(self) -> io::Result<NewFile> {
        drop(self.full);
        self.thread.await.map_err(io::Error::other)?
    }
}

/// A blob that is being written. One that is not finished is taken away.
#[derive(Debug)]
struct NewFile {
    blob: BlobId,
    unfinished: Unfinished,
    file: File,
    length: u64,
    room: Room,
}

/// Room on the disk that is asked for before it is needed. Asked for at once it costs far less than piece by piece.
#[derive(Debug)]
struct Room {
    /// How long the file may become.
    expected: u64,
    /// Up to where there is room.
    end: u64,
    is_had: bool,
}

impl Room {
    /// So much at a time: a client may promise anything.
    const STEP: u64 = 64 << 20;
    /// What is shorter is not worth asking for.
    const LEAST: u64 = 1 << 20;

    fn new(expected: u64) -> Self {
        Self { expected, end: 0, is_had: expected >= Self::LEAST }
    }

    fn make(&mut self, file: &File, up_to: u64) {
        while self.is_had && self.end < up_to {
            let step = self.expected.saturating_sub(self.end).min(Self::STEP);
            // Not every disk does it, and where it is full the write says so.
            self.is_had = step > 0 && allocate(file, self.end, step).is_ok();
            self.end += step;
        }
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, from: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, from, length)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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
    fn create(blobs: &Blobs, expected: u64) -> io::Result<Self> {
        let blob = blobs.reserve();
        let path = blobs.path(&blob);
        let file = private_file(&path)?;
        let unfinished = Unfinished(Some(path));
        Ok(Self { blob, unfinished, file, length: 0, room: Room::new(expected) })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let end = self.length + u64::try_from(piece.len()).unwrap_or_default();
        self.room.make(&self.file, end);
        self.file.write_all(piece)?;
        self.length = end;
        Ok(())
    }

    fn finish(mut self) -> io::Result<(BlobId, u64)> {
        if self.room.end > self.length {
            // The room that was not needed is given back, though the length stays as it is.
            self.file.set_len(self.length)?;
        }
        self.unfinished.0 = None;
        Ok((self.blob, self.length))
    }
}

fn private_file(path: &std::path::Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn room_that_was_not_needed_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let mut file = NewFile::create(&blobs, 32 << 20).unwrap();
        let path = blobs.path(&file.blob);
        let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
        file.write(&[7; 8192]).unwrap();
        // Not every disk gives room ahead.
        assert_eq!(file.room.is_had, taken() >= 32 << 20);
        let (_, length) = file.finish().unwrap();
        assert!(length == 8192 && taken() < 1 << 20, "{} bytes", taken());
        assert_eq!(std::fs::read(&path).unwrap(), [7; 8192]);
    }

    #[tokio::test]
    async fn a_disk_that_refuses_is_told_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let mut file = NewFile::create(&blobs, 1 << 30).unwrap();
        let path = blobs.path(&file.blob);
        file.file = File::open(&path).unwrap();
        let mut writer = Writer::start(file);
        let refused = loop {
            let mut block = writer.empty().await;
            block.resize(4096, 7);
            if let Err(refused) = writer.write(block).await {
                break refused;
            }
        };
        assert_eq!(refused.raw_os_error(), Some(9), "{refused}");
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn an_upload_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let file = NewFile::create(&blobs, 1 << 30).unwrap();
        let path = blobs.path(&file.blob);
        let mut writer = Writer::start(file);
        writer.write(vec![7; 4096]).await.unwrap();
        let Writer { full, thread, .. } = writer;
        drop(full);
        drop(thread.await.unwrap().unwrap());
        assert!(!path.exists());
    }
}
