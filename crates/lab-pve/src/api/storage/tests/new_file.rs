//! Tests of uploads and downloads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use serde_json::json;

use super::StorageTestBench;
use crate::api::testing::host;
use crate::call::Upload;
use crate::image::empty_qcow2;
use crate::pve_state::Host;
use crate::schema::Method;

/// Starts a server that answers every request with this body, and returns its address.
fn serve(status: &'static str, body: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 2048];
            let length = socket.read(&mut request).unwrap();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            socket.write_all(head.as_bytes()).unwrap();
            if request[..length].starts_with(b"GET") {
                socket.write_all(body).unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn uploaded_files_are_checked() {
    let bench = StorageTestBench::new();
    let none = || json!({});
    assert_eq!(bench.upload("iso", "my disk.iso", b"hello\n", none()).await, "OK");
    assert_eq!(bench.upload("import", "a.raw", b"9 bytes..", none()).await, "OK");
    assert_eq!(bench.upload("import", "b.qcow2", &empty_qcow2(1 << 30, None), none()).await, "OK");
    assert_eq!(
        bench.upload("import", "c.qcow2", b"9 bytes..", none()).await,
        "qemu-img: Could not open '/var/tmp/pveupload-00': Image is not in qcow2 format"
    );
    let backed = empty_qcow2(1 << 30, Some("/etc/passwd"));
    let text = "backing file not allowed for untrusted image '/var/tmp/pveupload-00'!";
    assert_eq!(bench.upload("iso", "d.iso", &backed, none()).await, text);
    assert_eq!(bench.upload("import", "d.qcow2", &backed, none()).await, text);
    assert_eq!(bench.upload("import", "d.raw", &backed, none()).await, "OK");
    assert_eq!(
        bench.upload("import", "e.ova", b"hello", none()).await,
        "command 'tar -t -f /var/tmp/pveupload-00' failed: exit code 2"
    );
    let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let checksum = |sum: &str| json!({ "checksum": sum, "checksum-algorithm": "sha256" });
    assert_eq!(bench.upload("iso", "f.iso", b"hello\n", checksum(sum)).await, "OK");
    assert_eq!(
        bench.upload("iso", "g.iso", b"hello\n", checksum("00")).await,
        format!("checksum mismatch: got '{sum}' != expect '00'")
    );
    assert_eq!(
        bench.volumes().await,
        [
            "dir:import/a.raw",
            "dir:import/b.qcow2",
            "dir:import/d.raw",
            "dir:iso/f.iso",
            "dir:iso/my_disk.iso"
        ]
    );
    let read = |name| bench.data(Method::Get, name, json!({}));
    let image = read("/nodes/pve1/storage/dir/content/import/b.qcow2").await;
    assert_eq!((&image["size"], &image["used"]), (&json!(1 << 30), &json!(512)));
    let raw = read("/nodes/pve1/storage/dir/content/import/a.raw").await;
    assert_eq!((&raw["size"], &raw["used"]), (&json!(512), &json!(9)));

    bench.site.pve_state().storages.get_mut("dir").unwrap().capacity = 1600;
    assert_eq!(bench.upload("iso", "f.iso", b"HELLO\n", none()).await, "OK");
    let path = "/var/lib/vz/template/iso/h.iso";
    assert_eq!(
        bench.upload("iso", "h.iso", &[0; 1000], none()).await,
        format!("import failed: cp: error writing '{path}': No space left on device")
    );
}

#[tokio::test]
async fn upload_to_offline_host_is_rejected() {
    let bench = StorageTestBench::new();
    let down = Host { online: false, ..host("pve2") };
    bench.site.pve_state().hosts.insert("pve2".to_owned(), down);
    let blob = bench.site.blobs.write(b"x").unwrap();
    let temporary = "/var/tmp/pveupload-00".to_owned();
    let file = Upload { blob, length: 1, temporary, contacted: "pve1".to_owned() };
    let sent = json!({ "content": "iso", "filename": "x.iso" });
    let path = "/nodes/pve2/storage/dir/upload";
    let rejected = bench.send("root@pam", Method::Post, path, sent, Some(file)).await.unwrap_err();
    let text = "can't activate storage 'dir' on node 'pve2': command '/usr/bin/ssh ";
    assert!(rejected.message.starts_with(text), "{}", rejected.message);
}

#[tokio::test]
async fn downloads_are_fetched_and_checked() {
    let good = serve("200 OK", b"hello\n");
    let missing = serve("404 Not Found", b"");
    let reach = [("factory.example:80".to_owned(), good), ("old.example:80".to_owned(), missing)];
    let bench = StorageTestBench::reaching(reach.into());
    let order = |url: &str, file: &str| json!({ "url": url, "content": "iso", "filename": file });
    let url = "http://factory.example/image/x.iso";
    assert_eq!(bench.download(order(url, "x.iso")).await, "OK");
    let there = "refusing to override existing file '/var/lib/vz/template/iso/x.iso'";
    assert_eq!(bench.download(order(url, "x.iso")).await, there);
    assert_eq!(
        bench.download(order("http://old.example/", "y.iso")).await,
        "download failed: exit code 8"
    );
    assert_eq!(
        bench.download(order("https://elsewhere.example/", "y.iso")).await,
        "download failed: wget: unable to resolve host address 'elsewhere.example'"
    );
    let mut import = order(url, "x.qcow2");
    import["content"] = json!("import");
    let end = bench.download(import.clone()).await;
    assert!(end.starts_with("failed to verify file: qemu-img: Could not open '"), "{end}");
    assert!(end.ends_with("': Image is not in qcow2 format"), "{end}");
    import["compression"] = json!("gz");
    assert_eq!(bench.download(import).await, "decompression not supported for import");
    for (compression, end) in [
        ("xz", "no decompression method found"),
        ("gz", "command 'zcat /var/lib/vz/template/iso/z.iso.tmp_dwnl."),
        ("zst", "command 'zstd -q -d -c /var/lib/vz/template/iso/z.iso.tmp_dwnl."),
    ] {
        let mut packed = order(url, "z.iso");
        packed["compression"] = json!(compression);
        let got = bench.download(packed).await;
        assert!(got.starts_with(end), "{compression}: {got}");
    }
    let mut wrong = order(url, "w.iso");
    wrong["checksum"] = json!("00");
    wrong["checksum-algorithm"] = json!("md5");
    let text = "checksum mismatch: got 'b1946ac92492d2347c6235b4d2611184' != expect '00'";
    assert_eq!(bench.download(wrong.clone()).await, text);
    wrong["filename"] = json!("x.iso");
    assert_eq!(bench.download(wrong).await, format!("{text}, aborting"));
    assert_eq!(bench.volumes().await, ["dir:iso/x.iso"]);
}

#[tokio::test]
async fn compressed_download_is_decompressed() {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(b"hello\n").unwrap();
    let packed: &'static [u8] = packed.finish().unwrap().leak();
    let address = serve("200 OK", packed);
    let bench = StorageTestBench::new();
    let url = format!("http://{address}/x.iso.gz");
    let order = json!({ "url": url, "content": "iso", "filename": "x.iso", "compression": "gz" });
    assert_eq!(bench.download(order).await, "OK");
    let list = bench.data(Method::Get, "/nodes/pve1/storage/dir/content", json!({})).await;
    assert_eq!(list[0]["size"], 6);
}

#[tokio::test]
async fn query_url_metadata_returns_name_size_and_type() {
    let address = serve("200 OK", b"hello\n");
    let bench = StorageTestBench::new();
    let path = "/nodes/pve1/query-url-metadata";
    let metadata_json =
        bench.data(Method::Get, path, json!({ "url": format!("http://{address}/a.iso?x=1") }));
    assert_eq!(
        metadata_json.await,
        json!({ "filename": "a.iso", "mimetype": "text/plain", "size": 6 })
    );
    let missing = serve("404 Not Found", b"");
    assert_eq!(
        bench.rejected(Method::Get, path, json!({ "url": format!("http://{missing}/") })).await,
        "500 invalid server response: '404 Not Found'"
    );
    assert_eq!(
        bench.rejected(Method::Get, path, json!({ "url": "http://nowhere.example/" })).await,
        "500 invalid server response: '500 Can't connect to nowhere.example (Name or service not \
         known)'"
    );
}
