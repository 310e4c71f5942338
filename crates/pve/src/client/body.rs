use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use talmox_pve_types::api::storage::Upload;
use tokio::io::{AsyncRead, ReadBuf};

/// Number of bytes that are read from a file at a time. Only a few chunks of this size are in memory, even for a large
/// file.
const CHUNK: usize = 64 * 1024;

/// Body of a request. The length of the body is always known, because Proxmox does not accept chunked transfer.
pub(super) enum Outgoing {
    Whole(Bytes),
    File(Box<FileForm>),
}

impl Outgoing {
    pub(super) fn whole(text: Option<String>) -> Self {
        Self::Whole(text.unwrap_or_default().into())
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = match self.get_mut() {
            Self::Whole(bytes) => Ok(std::mem::take(bytes)),
            Self::File(form) => ready!(form.poll_chunk(context)),
        };
        Poll::Ready(match chunk {
            Ok(chunk) if chunk.is_empty() => None,
            chunk => Some(chunk.map(Frame::data)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::File(form) => form.left(),
        })
    }
}

/// Multipart form with a file that is read while it is sent.
pub(super) struct FileForm {
    head: Bytes,
    file: Box<dyn AsyncRead + Send + Unpin>,
    file_left: u64,
    tail: Bytes,
    sent: Arc<AtomicU64>,
    progress: Box<dyn FnMut(u64) + Send>,
    spare: Spare,
}

/// Buffers that are reused. Allocating memory for each chunk takes longer than copying the chunk.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// Chunk of the file. When the chunk was sent, its buffer returns to the spare buffers.
struct Chunk {
    buffer: Vec<u8>,
    length: usize,
    spare: Spare,
}

impl Chunk {
    fn new(spare: &Spare) -> Self {
        let used = spare.lock().expect("invariant: the lock is never poisoned").pop();
        let buffer = used.unwrap_or_else(|| vec![0; CHUNK]);
        Self { buffer, length: 0, spare: Arc::clone(spare) }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Ok(mut spare) = self.spare.lock() {
            spare.push(std::mem::take(&mut self.buffer));
        }
    }
}

impl FileForm {
    pub(super) fn new(
        upload: &Upload,
        boundary: &str,
        file: Box<dyn AsyncRead + Send + Unpin>,
        size: u64,
        progress: Box<dyn FnMut(u64) + Send>,
    ) -> Self {
        Self {
            head: head(upload, boundary).into(),
            file,
            file_left: size,
            tail: format!("\r\n--{boundary}--\r\n").into(),
            sent: Arc::default(),
            progress,
            spare: Spare::default(),
        }
    }

    /// Counter of the sent bytes of the file.
    pub(super) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    fn left(&self) -> u64 {
        self.head.len() as u64 + self.file_left + self.tail.len() as u64
    }

    /// Next bytes of the body; empty at the end of the body.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if !self.head.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.head)));
        }
        if self.file_left == 0 {
            return Poll::Ready(Ok(std::mem::take(&mut self.tail)));
        }
        let mut chunk = Chunk::new(&self.spare);
        let most = usize::try_from(self.file_left).unwrap_or(CHUNK).min(CHUNK);
        let mut buffer = ReadBuf::new(&mut chunk.buffer[..most]);
        ready!(Pin::new(&mut self.file).poll_read(context, &mut buffer))?;
        chunk.length = buffer.filled().len();
        if chunk.length == 0 {
            let error = io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is shorter than its announced length",
            );
            return Poll::Ready(Err(error));
        }
        let chunk = Bytes::from_owner(chunk);
        self.file_left -= chunk.len() as u64;
        let sent = self.sent.fetch_add(chunk.len() as u64, Ordering::Relaxed) + chunk.len() as u64;
        (self.progress)(sent);
        Poll::Ready(Ok(chunk))
    }
}

/// Parts of the form before the file. The server requires this order of the parts, and `Content-Disposition` as the
/// first header of a part.
fn head(upload: &Upload, boundary: &str) -> String {
    let part = |name: &str, value: &str| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        )
    };
    let mut head = part("content", upload.content.as_str());
    if let Some(checksum) = &upload.checksum {
        head.push_str(&part("checksum-algorithm", &checksum.algorithm));
        head.push_str(&part("checksum", &checksum.value));
    }
    let disposition = format!("form-data; name=\"filename\"; filename=\"{}\"", upload.name);
    head.push_str(&format!("--{boundary}\r\nContent-Disposition: {disposition}\r\n"));
    head.push_str("Content-Type: application/octet-stream\r\n\r\n");
    head
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use talmox_pve_types::api::storage::{Checksum, Content};

    fn upload() -> Upload {
        Upload {
            node: "pve1".parse().unwrap(),
            storage: "local".parse().unwrap(),
            content: Content::Import,
            name: "x.raw".parse().unwrap(),
            checksum: Some(Checksum { algorithm: "sha256".to_owned(), value: "ab".to_owned() }),
        }
    }

    async fn collect(mut body: Outgoing) -> io::Result<Vec<u8>> {
        let mut all = vec![];
        let next =
            |body: &mut Outgoing, context: &mut Context<'_>| Pin::new(body).poll_frame(context);
        while let Some(frame) = std::future::poll_fn(|context| next(&mut body, context)).await {
            let chunk = frame?.into_data().unwrap();
            assert!(chunk.len() <= CHUNK);
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn the_form_parts_are_complete_and_in_order() {
        let seen = Arc::new(Mutex::new(vec![]));
        let noted = Arc::clone(&seen);
        let progress = Box::new(move |sent| noted.lock().unwrap().push(sent));
        let form = FileForm::new(&upload(), "B", Box::new(&b"hello world"[..]), 11, progress);
        let sent = form.sent();
        let body = Outgoing::File(Box::new(form));
        let length = body.size_hint().exact().unwrap();
        let text = String::from_utf8(collect(body).await.unwrap()).unwrap();
        assert_eq!(text.len() as u64, length);
        insta::assert_snapshot!(text.replace('\r', ""), @r#"
        --B
        Content-Disposition: form-data; name="content"

        import
        --B
        Content-Disposition: form-data; name="checksum-algorithm"

        sha256
        --B
        Content-Disposition: form-data; name="checksum"

        ab
        --B
        Content-Disposition: form-data; name="filename"; filename="x.raw"
        Content-Type: application/octet-stream

        hello world
        --B--
        "#);
        assert_eq!(*seen.lock().unwrap(), [11]);
        assert_eq!(sent.load(Ordering::Relaxed), 11);
    }

    #[tokio::test]
    async fn a_long_file_needs_few_buffers() {
        let size = 9 * CHUNK + 7;
        let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let file = Box::new(io::Cursor::new(bytes.clone()));
        let form = FileForm::new(&upload(), "B", file, size as u64, Box::new(|_| {}));
        let spare = Arc::clone(&form.spare);
        let sent = collect(Outgoing::File(Box::new(form))).await.unwrap();
        assert!(sent.windows(size).any(|window| window == bytes));
        assert_eq!(spare.lock().unwrap().len(), 1, "each chunk was sent before the next");
    }

    #[tokio::test]
    async fn a_short_file_is_an_error_and_a_long_one_is_truncated() {
        let body = |size| {
            let form =
                FileForm::new(&upload(), "B", Box::new(&b"hello"[..]), size, Box::new(|_| {}));
            collect(Outgoing::File(Box::new(form)))
        };
        assert_eq!(body(6).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(String::from_utf8(body(4).await.unwrap()).unwrap().contains("\r\nhell\r\n--B--"));
    }
}
