use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use talmox_pve::api::storage::{Checksum, Content, Upload};
use talmox_pve::client::{Client, Endpoint, FileSource, Settings};
use talmox_pve::error::{Lost, PveError};
use talmox_values::Address;
use tokio::io::{AsyncRead, ReadBuf};

use crate::server::{Server, data, json};

const UPID: &str = "UPID:pve1:0000ABCD:123456789:65F0C0DE:imgcopy::talmox@pve!ci:";
const MIB: u64 = 1 << 20;

/// File of zeros that is generated while it is read. It records the size of the largest read.
#[derive(Default)]
struct Zeros {
    largest: Arc<AtomicUsize>,
    given: Arc<AtomicU64>,
}

impl AsyncRead for Zeros {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let size = buffer.remaining();
        self.largest.fetch_max(size, Ordering::Relaxed);
        self.given.fetch_add(size as u64, Ordering::Relaxed);
        buffer.initialize_unfilled();
        buffer.advance(size);
        Poll::Ready(Ok(()))
    }
}

fn upload() -> Upload {
    Upload {
        node: "pve1".parse().unwrap(),
        storage: "local".parse().unwrap(),
        content: Content::Import,
        name: "talos.raw".parse().unwrap(),
        checksum: Some(Checksum { algorithm: "sha256".to_owned(), value: "ab".repeat(32) }),
    }
}

#[tokio::test]
async fn a_file_is_sent_in_chunks_with_its_length() {
    let server = Server::start(|_, _| data(&format!("{UPID:?}"))).await;
    let zeros = Zeros::default();
    let (largest, given) = (Arc::clone(&zeros.largest), Arc::clone(&zeros.given));
    let collected = Arc::new(Mutex::new(vec![]));
    let note = Arc::clone(&collected);
    let file =
        FileSource::new(zeros, 64 * MIB).with_progress(move |sent| note.lock().unwrap().push(sent));
    let running = server.client().upload(&upload(), file).await.unwrap();
    assert_eq!(running.upid.to_string(), UPID);

    let request = &server.requests()[1];
    assert_eq!(request.line, "POST /api2/json/nodes/pve1/storage/local/upload");
    assert_eq!(request.header("content-length").unwrap(), request.length.to_string());
    let text = request.text();
    let boundary = request.header("content-type").unwrap().split_once("boundary=").unwrap().1;
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\nimport\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"checksum-algorithm\"\r\n\r\nsha256\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"checksum\"\r\n\r\n{}\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"talos.raw\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n",
        "ab".repeat(32)
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    assert!(text.starts_with(&head) && text.ends_with(&tail), "{text}");
    assert_eq!(request.length, (head.len() + tail.len()) as u64 + 64 * MIB);

    assert!(largest.load(Ordering::Relaxed) <= 64 * 1024, "never more than a chunk in memory");
    assert_eq!(given.load(Ordering::Relaxed), 64 * MIB);
    let collected = collected.lock().unwrap();
    assert!(collected.is_sorted() && collected.last() == Some(&(64 * MIB)));
}

#[tokio::test]
async fn a_file_is_not_read_ahead_of_the_network() {
    let server = Server::start(|_, _| data("null")).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = server.address;
    tokio::spawn(async move {
        // The client sends a request before the upload, on a separate connection.
        let (mut asked, _) = listener.accept().await.unwrap();
        let mut answered = tokio::net::TcpStream::connect(target).await.unwrap();
        tokio::spawn(async move {
            let _ended = tokio::io::copy_bidirectional(&mut asked, &mut answered).await;
        });
        let (mut inbound, _) = listener.accept().await.unwrap();
        let mut outbound = tokio::net::TcpStream::connect(target).await.unwrap();
        let (mut from_client, mut to_client) = inbound.split();
        let (mut from_server, mut to_server) = outbound.split();
        let back = tokio::io::copy(&mut from_server, &mut to_client);
        // The limit is enough for the handshake and the head of the upload. Further data stays in buffers.
        let mut first = tokio::io::AsyncReadExt::take(&mut from_client, 8 * 1024);
        let forth = async {
            tokio::io::copy(&mut first, &mut to_server).await.unwrap();
            std::future::pending::<()>().await;
        };
        let _ended = tokio::join!(back, forth);
    });
    let zeros = Zeros::default();
    let given = Arc::clone(&zeros.given);
    let endpoint = Endpoint { reach: Some(Address::new("127.0.0.1", port)), ..server.endpoint() };
    let client = Client::new(Settings { endpoints: vec![endpoint], ..server.settings() }).unwrap();
    let upload = upload();
    let sending = client.upload(&upload, FileSource::new(zeros, 2048 * MIB));
    let waited = tokio::time::timeout(std::time::Duration::from_millis(500), sending).await;
    assert!(waited.is_err(), "the server does not read");
    assert!(given.load(Ordering::Relaxed) < 32 * MIB, "{}", given.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_upload_goes_to_the_node_that_stores_the_file() {
    let other = Server::start(|_, _| data(&format!("{UPID:?}"))).await;
    let right = Server::start(|_, _| data(&format!("{UPID:?}"))).await;
    let node = Some("pve1".parse().unwrap());
    let endpoints = vec![other.endpoint(), Endpoint { node, ..right.endpoint() }];
    let trust = talmox_pve::client::Trust::Pinned([other.fingerprint, right.fingerprint].into());
    let client = Client::new(Settings { endpoints, trust, ..other.settings() }).unwrap();
    client.upload(&upload(), FileSource::new(&b"hello"[..], 5)).await.unwrap();
    let posts =
        |server: &Server| server.lines().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!((posts(&other), posts(&right)), (0, 1));
}

#[tokio::test]
async fn a_file_shorter_than_announced_is_an_error() {
    let server = Server::start(|_, _| data(&format!("{UPID:?}"))).await;
    let file = FileSource::new(&b"hello"[..], 6);
    let error = server.client().upload(&upload(), file).await.unwrap_err();
    assert!(matches!(&error, PveError::MaybeApplied { source: Lost::Cut(_), .. }), "{error:?}");
    assert_eq!(server.lines(), ["GET /api2/json/version"], "the server never had all of it");
}

#[tokio::test]
async fn authentication_is_checked_before_the_first_byte() {
    let server = Server::start(|_, _| json("401 invalid token value!", "")).await;
    let zeros = Zeros::default();
    let given = Arc::clone(&zeros.given);
    let error = server.client().upload(&upload(), FileSource::new(zeros, MIB)).await.unwrap_err();
    assert!(error.is_auth(), "{error:?}");
    assert_eq!(given.load(Ordering::Relaxed), 0);
}
