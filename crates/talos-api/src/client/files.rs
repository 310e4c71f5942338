//! Streams of bytes: files, logs, the kubeconfig.

use std::future::Future;
use std::io::Read as _;

use flate2::read::GzDecoder;
use talmox_talos_config::secret::SecretText;
use tonic::{Code, Response, Status, Streaming};

use super::{Answers, Client};
use crate::error::TalosError;
use crate::proto::common::{ContainerDriver, Data};
use crate::proto::machine::{DmesgRequest, LogsRequest, ReadRequest};

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

/// A stream of bytes from a node.
#[derive(Debug)]
pub struct Bytes(Answers<Data>);

impl Bytes {
    /// The next bytes, however long they take to come.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, TalosError> {
        Ok(self.0.next().await?.map(|data| data.bytes))
    }

    /// All of them, each piece in time.
    pub async fn all(mut self) -> Result<Vec<u8>, TalosError> {
        let mut all = vec![];
        while let Some(data) = self.0.next_in_time().await? {
            all.extend(data.bytes);
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
        let messages = self.ask(operation, answer).await?;
        Ok(Answers::new(messages, self.call(operation), self.clock, self.patience()))
    }

    /// The kubeconfig of an administrator, made by a control plane.
    pub async fn kubeconfig(&self) -> Result<SecretText, TalosError> {
        let operation = "Kubeconfig";
        let mut machine = self.machine();
        let archive = self.bytes(operation, machine.kubeconfig(())).await?.all().await?;
        only_file(&archive).map(SecretText::new).ok_or_else(|| TalosError::Unreadable {
            call: self.call(operation),
            what: "it is no archive with one text file".to_owned(),
        })
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

/// The text of the only file in a `tar.gz`.
fn only_file(archive: &[u8]) -> Option<String> {
    let mut tar = vec![];
    GzDecoder::new(archive).take(MOST).read_to_end(&mut tar).ok()?;
    let mut rest = tar.as_slice();
    let mut found = None;
    while let Some((header, body)) = rest.split_at_checked(BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        let size = std::str::from_utf8(&header[124..136]).ok()?;
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()?;
        let content = body.get(..size)?;
        // Folders and attributes may stand beside it.
        if matches!(header[156], b'0' | 0) && found.replace(content).is_some() {
            return None;
        }
        rest = body.get(size.next_multiple_of(BLOCK)..)?;
    }
    String::from_utf8(found?.to_vec()).ok()
}

/// Of a tar file.
const BLOCK: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn archive(files: &[&str]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        for text in files {
            let mut header = [0; BLOCK];
            header[..10].copy_from_slice(b"kubeconfig");
            header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
            header[156] = b'0';
            encoder.write_all(&header).unwrap();
            let mut body = text.as_bytes().to_vec();
            body.resize(text.len().next_multiple_of(BLOCK), 0);
            encoder.write_all(&body).unwrap();
        }
        encoder.write_all(&[0; 2 * BLOCK]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_archive_has_one_file() {
        let text = "apiVersion: v1\n".repeat(100);
        assert_eq!(only_file(&archive(&[&text])), Some(text));
        assert_eq!(only_file(&archive(&["one", "two"])), None);
        assert_eq!(only_file(&archive(&[])), None);
        assert_eq!(only_file(b"no archive"), None);
        let whole = archive(&["text"]);
        assert_eq!(only_file(&whole[..whole.len() - 12]), None);
    }
}
