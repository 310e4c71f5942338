//! Uploads. A file is sent while it is read, and not held in memory.

use std::fmt;
use std::sync::atomic::Ordering;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use talmox_pve_types::api::cluster;
use talmox_pve_types::api::storage::Upload;
use talmox_pve_types::id::Upid;
use talmox_pve_types::request::Method;
use tokio::io::AsyncRead;

use super::body::{FileForm, Outgoing};
use super::connection::{ExchangeError, exchange, open};
use super::send::{Call, http};
use super::trace::{self, traced};
use super::{Client, Permits, Running};
use crate::error::{NotSent, PveError};
use crate::response::interpret;

/// File to upload: its reader, its length, and a progress callback.
pub struct FileSource {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    size: u64,
    progress: Box<dyn FnMut(u64) + Send>,
}

impl FileSource {
    pub fn new(reader: impl AsyncRead + Send + Unpin + 'static, size: u64) -> Self {
        Self { reader: Box::new(reader), size, progress: Box::new(|_| {}) }
    }

    /// Calls `progress` with the number of bytes sent.
    #[must_use]
    pub fn with_progress(mut self, progress: impl FnMut(u64) + Send + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Client {
    /// Waits for permits and sends a file. See [`Self::upload_in`].
    pub async fn upload(&self, upload: &Upload, file: FileSource) -> Result<Running, PveError> {
        let room = self.room(&upload.scope()).await;
        self.upload_in(room, upload, file).await
    }

    /// Sends a file with the given permits, and returns the task that moves the file to its place on the storage. If
    /// the node that stores the file is an endpoint, the file is sent directly to this node.
    ///
    /// An existing file of the same name is overwritten, so an upload can be repeated if the answer was lost.
    pub async fn upload_in(
        &self,
        permits: Permits,
        upload: &Upload,
        file: FileSource,
    ) -> Result<Running, PveError> {
        let operation = upload.request().operation();
        let sent = Box::pin(self.send_file(upload, file));
        let upid = traced(&operation, false, sent).await?;
        Ok(Running { upid, operation, permits })
    }

    async fn send_file(&self, upload: &Upload, file: FileSource) -> Result<Upid, PveError> {
        let inner = &self.0;
        let request = upload.request();
        let operation = request.operation();
        // Checks the authentication before gigabytes are sent. A ticket cannot be renewed during the upload.
        inner.call(&Call::of(&cluster::version())).await.map_err(|error| match error {
            PveError::Rejected(_) => error,
            error => PveError::not_sent(&operation, NotSent::Login(Box::new(error))),
        })?;
        let auth = inner.auth(&operation, None).await?;
        // Connects first, because after the first byte of the file no other endpoint can be tried.
        let mut failure = NotSent::Closed;
        for index in inner.endpoints.order(Some(&upload.node)) {
            let contact = &inner.endpoints.all[index];
            let mut connection =
                match open(&contact.endpoint, &inner.tls, inner.timeouts.connect).await {
                    Ok(connection) => connection,
                    Err(source) => {
                        inner.endpoints.failed(index);
                        failure = source;
                        continue;
                    }
                };
            let boundary = self.boundary();
            let FileSource { reader, size, progress } = file;
            let form = FileForm::new(upload, &boundary, reader, size, progress);
            let sent = form.sent();
            let body = Outgoing::File(Box::new(form));
            let mut http = http(Method::Post, &request.target(), &contact.endpoint, &auth, body);
            let kind = format!("multipart/form-data; boundary={boundary}");
            let kind = HeaderValue::try_from(kind).expect("invariant: boundaries are letters");
            http.headers_mut().insert(CONTENT_TYPE, kind);
            let reply = exchange(&mut connection, http, &sent, inner.timeouts.answer).await;
            let reply = reply.map_err(|broken| match broken {
                ExchangeError::NotSent => PveError::not_sent(&operation, NotSent::Closed),
                ExchangeError::Lost(source) => PveError::lost(&operation, source),
            })?;
            trace::answered(reply.status);
            let answer = interpret(&operation, reply.status, &reply.reason, &reply.body)?;
            return request.decode(&answer).map_err(|error| PveError::lost(&operation, error));
        }
        Err(PveError::not_sent(&operation, failure))
    }

    /// Random line that separates the parts of the form. It does not occur in a file.
    fn boundary(&self) -> String {
        let nth = self.0.uploads.fetch_add(1, Ordering::Relaxed);
        let mut chance = self.0.chance.of("boundary", nth ^ self.0.clock.unix());
        format!("talmox{:016x}{:016x}", chance.number(), chance.number())
    }
}
