//! Reception of an uploaded file. The file is written from the connection to a blob, with constant memory use.
//!
//! One thread decrypts TLS while another thread writes the previous blocks to disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Timeouts;
use super::buffered_stream::{BufferedStream, ConnectionLost};
use super::multipart::{BLOCK_CAPACITY, Multipart};
use super::url_encoding::Params;
use crate::blob::{BlobId, Blobs};
use crate::call::Upload;
use crate::site::Site;

/// Number of buffers between reader and writer.
const BLOCKS: usize = 8;

/// Uploaded file and the form fields before it.
#[derive(Debug)]
pub(super) struct ReceivedUpload {
    pub(super) params: Params,
    pub(super) upload: Upload,
}

/// Reason why an upload failed.
#[derive(Debug)]
pub(super) enum UploadError {
    /// The client gets status 500 with this text.
    Message(String),
    ConnectionLost(ConnectionLost),
}

impl From<ConnectionLost> for UploadError {
    fn from(lost: ConnectionLost) -> Self {
        Self::ConnectionLost(lost)
    }
}

/// Reads a multipart form of `length` bytes, with the given boundary.
pub(super) async fn receive<S>(
    stream: &mut BufferedStream<S>,
    boundary: &str,
    length: u64,
    site: &Site,
    contacted: &str,
    timeouts: Timeouts,
) -> Result<ReceivedUpload, UploadError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut form = Multipart::new(boundary);
    let mut writer = Writer::start(NewFile::create(&site.blobs, length)?);
    let mut left = length;
    while left > 0 && !form.is_done() {
        let received = stream.read_into(form.block(), left, timeouts.body).await?;
        left -= u64::try_from(received).unwrap_or_default();
        if form.advance().map_err(UploadError::Message)? {
            let empty = writer.empty().await;
            writer.write(form.take(empty)).await?;
        }
    }
    if !form.is_done() {
        return Err(UploadError::Message("upload failed".to_owned()));
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
    Ok(ReceivedUpload { params, upload })
}

impl From<io::Error> for UploadError {
    fn from(error: io::Error) -> Self {
        Self::Message(format!("write to temporary file failed - {error}"))
    }
}

/// Thread that writes an upload to disk. A separate thread is used because writing a block takes about as long as decrypting
/// it. If the upload ends early, the file is deleted.
#[derive(Debug)]
struct Writer {
    full: mpsc::Sender<Vec<u8>>,
    empty: mpsc::Receiver<Vec<u8>>,
    /// Number of buffers that may still be allocated.
    unallocated: usize,
    thread: JoinHandle<io::Result<NewFile>>,
}

impl Writer {
    fn start(mut file: NewFile) -> Self {
        let (full, mut to_write) = mpsc::channel::<Vec<u8>>(BLOCKS);
        let (written, empty) = mpsc::channel(BLOCKS);
        let thread = tokio::task::spawn_blocking(move || {
            while let Some(block) = to_write.blocking_recv() {
                file.write(&block)?;
                // Sending fails if the upload has ended, because no more buffers are needed then.
                written.try_send(block).ok();
            }
            Ok(file)
        });
        Self { full, empty, unallocated: BLOCKS, thread }
    }

    /// Empty buffer for the next block of the upload.
    async fn empty(&mut self) -> Vec<u8> {
        if let Ok(block) = self.empty.try_recv() {
            return block;
        }
        if self.unallocated > 0 {
            self.unallocated -= 1;
            return Vec::with_capacity(BLOCK_CAPACITY);
        }
        // After an error the writer returns no more buffers. The next write reports that error.
        self.empty.recv().await.unwrap_or_default()
    }

    async fn write(&mut self, block: Vec<u8>) -> io::Result<()> {
        if self.full.send(block).await.is_err() {
            (&mut self.thread).await.map_err(io::Error::other)??;
        }
        Ok(())
    }

    /// Waits until all blocks are written, and returns the file.
    async fn end(self) -> io::Result<NewFile> {
        drop(self.full);
        self.thread.await.map_err(io::Error::other)?
    }
}

/// Blob that is being written. A blob that is not finished is deleted.
#[derive(Debug)]
struct NewFile {
    blob: BlobId,
    unfinished: TemporaryFile,
    file: File,
    length: u64,
    preallocation: Preallocation,
}

/// Disk space that is allocated before the writes. This is much faster than growing the file with each write.
#[derive(Debug)]
struct Preallocation {
    /// Expected length of the uploaded file.
    expected: u64,
    /// End of the allocated space, as an offset in the file.
    end: u64,
    is_supported: bool,
}

impl Preallocation {
    /// Number of bytes that are allocated at a time. This limits the wasted space if a client announces more bytes than it
    /// sends.
    const STEP: u64 = 64 << 20;
    /// Minimum length of a file for which space is preallocated.
    const LEAST: u64 = 1 << 20;

    fn new(expected: u64) -> Self {
        Self { expected, end: 0, is_supported: expected >= Self::LEAST }
    }

    fn make(&mut self, file: &File, up_to: u64) {
        while self.is_supported && self.end < up_to {
            let step = self.expected.saturating_sub(self.end).min(Self::STEP);
            // Preallocation stops at the first error. Not every file system supports it, and the next write reports a full
            // disk.
            self.is_supported = step > 0 && allocate(file, self.end, step).is_ok();
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

/// Path of a file that is deleted on drop, unless the path is taken out.
#[derive(Debug)]
struct TemporaryFile(Option<PathBuf>);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If the deletion fails, the file is deleted together with its folder later.
            std::fs::remove_file(path).ok();
        }
    }
}

impl NewFile {
    fn create(blobs: &Blobs, expected: u64) -> io::Result<Self> {
        let blob = blobs.reserve();
        let path = blobs.path(&blob);
        let file = private_file(&path)?;
        let unfinished = TemporaryFile(Some(path));
        Ok(Self { blob, unfinished, file, length: 0, preallocation: Preallocation::new(expected) })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let end = self.length + u64::try_from(piece.len()).unwrap_or_default();
        self.preallocation.make(&self.file, end);
        self.file.write_all(piece)?;
        self.length = end;
        Ok(())
    }

    fn finish(mut self) -> io::Result<(BlobId, u64)> {
        if self.preallocation.end > self.length {
            // Releases the unused preallocated space.
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
    fn unused_preallocated_space_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let mut file = NewFile::create(&blobs, 32 << 20).unwrap();
        let path = blobs.path(&file.blob);
        let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
        file.write(&[7; 8192]).unwrap();
        // Not every file system supports preallocation.
        assert_eq!(file.preallocation.is_supported, taken() >= 32 << 20);
        let (_, length) = file.finish().unwrap();
        assert!(length == 8192 && taken() < 1 << 20, "{} bytes", taken());
        assert_eq!(std::fs::read(&path).unwrap(), [7; 8192]);
    }

    #[tokio::test]
    async fn write_error_is_reported_and_file_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let mut file = NewFile::create(&blobs, 1 << 30).unwrap();
        let path = blobs.path(&file.blob);
        file.file = File::open(&path).unwrap();
        let mut writer = Writer::start(file);
        let rejected = loop {
            let mut block = writer.empty().await;
            block.resize(4096, 7);
            if let Err(rejected) = writer.write(block).await {
                break rejected;
            }
        };
        assert_eq!(rejected.raw_os_error(), Some(9), "{rejected}");
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn cancelled_upload_deletes_file() {
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
