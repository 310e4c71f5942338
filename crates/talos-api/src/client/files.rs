//! Streams of bytes: files, logs, the kubeconfig.

use std::future::Future;
use std::io::{self, Write};

use talmox_talos_config::secret::SecretText;
use tonic::{Code, Response, Status, Streaming};

use super::{Answers, Client};
use crate::archive::OnlyFile;
use crate::error::TalosError;
use crate::proto::common::{ContainerDriver, Data};
use crate::proto::machine::{CopyRequest, DmesgRequest, LogsRequest, ReadRequest};

/// More than this is no kubeconfig.
const MOST: u64 = 16 << 20;

/// Where a log comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// A service of Talos: `etcd`, `kubelet`, `machined`…
    Service(String),
    /// A container of Kubernetes, by the id that Talos gives it.
    Container(String),
}

/// Why a file could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Talos(#[from] TalosError),
    /// What came is no archive with one file, or the copy cannot be written.
    #[error("cannot write the copy")]
    Write(#[source] io::Error),
}

/// A stream of bytes from a node.
#[derive(Debug)]
pub struct Bytes(Answers<Data>);

impl Bytes {
    /// The next bytes, however long they take to come.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, TalosError> {
        Ok(self.0.next().await?.map(|data| data.bytes))
    }

    /// The next bytes, if they come soon enough.
    pub async fn next_in_time(&mut self) -> Result<Option<Vec<u8>>, TalosError> {
        Ok(self.0.next_in_time().await?.map(|data| data.bytes))
    }

    /// All of them, each piece in time.
    pub async fn all(mut self) -> Result<Vec<u8>, TalosError> {
        let mut all = vec![];
        while let Some(bytes) = self.next_in_time().await? {
            all.extend(bytes);
        }
        Ok(all)
    }
}

impl Client {
    pub(super) async fn bytes(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<Streaming<Data>>, Status>>,
    ) -> Result<Bytes, TalosError> {
        self.stream(operation, answer).await.map(Bytes)
    }

    pub(super) async fn stream<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Answers<T>, TalosError> {
        self.stream_about(operation, "", answer).await
    }

    /// The same, with a word for traces about what is asked for.
    pub(super) async fn stream_about<T>(
        &self,
        operation: &'static str,
        detail: &str,
        answer: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Answers<T>, TalosError> {
        let messages = self.ask_about(operation, detail, answer).await?;
        Ok(Answers::new(messages, self.call(operation), self.clock, self.patience()))
    }

    /// The kubeconfig of an administrator, made by a control plane.
    pub async fn kubeconfig(&self) -> Result<SecretText, TalosError> {
        let operation = "Kubeconfig";
        let mut machine = self.machine();
        let archive = self.bytes(operation, machine.kubeconfig(())).await?.all().await?;
        let mut file = OnlyFile::new(vec![], MOST);
        let text = file.take(&archive).and_then(|()| file.finish());
        let text = text.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(SecretText::new).ok_or_else(|| TalosError::Unreadable {
            call: self.call(operation),
            what: "it is no archive with one text file".to_owned(),
        })
    }

    /// Copies a file of the node, however big it is, and says how many bytes that were. What is
    /// half written when an error comes is the caller's to throw away.
    pub async fn copy_file(&self, path: &str, out: impl Write) -> Result<u64, CopyError> {
        let mut machine = self.machine();
        let request = CopyRequest { root_path: path.to_owned() };
        let mut archive = self.bytes("Copy", machine.copy(request)).await?;
        let mut file = OnlyFile::new(Counted { out, count: 0 }, u64::MAX);
        while let Some(piece) = archive.next_in_time().await? {
            file.take(&piece).map_err(CopyError::Write)?;
        }
        Ok(file.finish().map_err(CopyError::Write)?.count)
    }

    /// The last lines, or all of them; and those to come, if followed.
    pub async fn logs(
        &self,
        source: &LogSource,
        last: Option<u16>,
        follow: bool,
    ) -> Result<Bytes, TalosError> {
        let (namespace, id, driver) = match source {
            LogSource::Service(id) => ("system", id, ContainerDriver::Containerd),
            LogSource::Container(id) => ("k8s.io", id, ContainerDriver::Cri),
        };
        let request = LogsRequest {
            namespace: namespace.to_owned(),
            id: id.clone(),
            driver: driver.into(),
            follow,
            tail_lines: last.map_or(-1, i32::from),
        };
        let mut machine = self.machine();
        self.bytes("Logs", machine.logs(request)).await
    }

    /// What the kernel said; and what it says from now on, if followed.
    pub async fn dmesg(&self, follow: bool) -> Result<Bytes, TalosError> {
        let mut machine = self.machine();
        self.bytes("Dmesg", machine.dmesg(DmesgRequest { follow, tail: false })).await
    }

    /// Reads a file of the node.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, TalosError> {
        let mut machine = self.machine();
        let request = ReadRequest { path: path.to_owned() };
        self.bytes("Read", machine.read(request)).await?.all().await
    }

    /// Whether the node has such a file. Only its beginning is read.
    pub async fn has_file(&self, path: &str) -> Result<bool, TalosError> {
        let mut machine = self.machine();
        let request = ReadRequest { path: path.to_owned() };
        let begun = match self.bytes("Read", machine.read(request)).await {
            Ok(mut bytes) => bytes.0.next_in_time().await.map(|_| ()),
            Err(error) => Err(error),
        };
        match begun {
            Ok(()) => Ok(true),
            Err(TalosError::No { code: Code::NotFound, .. }) => Ok(false),
            // Older versions do not bother with a code.
            Err(TalosError::No { message, .. }) if message.contains("no such file") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Another one after each boot: the proof that a node has rebooted.
    pub async fn boot_id(&self) -> Result<String, TalosError> {
        let bytes = self.read("/proc/sys/kernel/random/boot_id").await?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }
}

/// Counts what is written.
struct Counted<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
