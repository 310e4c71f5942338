//! Tests of storages: downloads, content and usage.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value as Json, json};
use talmox_lab::Settings;

use crate::support::{Answer, TestLab, scenario, settings};
use crate::upload::outcome;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn post(lab: &TestLab, path: &str, body: &str) -> Answer {
    lab.request("POST", path, FORM, body)
}

fn download(lab: &TestLab, body: &str) -> String {
    outcome(lab, &post(lab, "/nodes/pve/storage/local/download-url", body))
}

fn data(answer: &Answer) -> Json {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"].take()
}

/// Starts a server that sends these bytes to every client.
fn serve(body: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _request = socket.read(&mut [0; 4096]).unwrap();
            let length = body.len();
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").unwrap();
            socket.write_all(body).unwrap();
        }
    });
    address
}

#[test]
fn a_host_downloads_from_reachable_addresses() {
    let address = serve(b"an image, more or less");
    let reach = BTreeMap::from([("factory.example:80".to_owned(), address)]);
    let lab = TestLab::start(Settings { reach, ..settings() });
    let order = "content=iso&filename=talos.iso&url=http://factory.example/talos.iso";
    assert_eq!(download(&lab, order), "OK");
    let list = data(&lab.get("/nodes/pve/storage/local/content?content=iso"));
    assert_eq!(list[0]["volid"], "local:iso/talos.iso");
    assert_eq!(list[0]["size"], 22);
    assert_eq!(
        download(&lab, order),
        "refusing to override existing file '/var/lib/vz/template/iso/talos.iso'"
    );
    let metadata = lab.get("/nodes/pve/query-url-metadata?url=http://factory.example/talos.iso");
    assert_eq!(data(&metadata), json!({ "filename": "talos.iso", "size": 22 }));
    assert_eq!(
        download(&lab, "content=iso&filename=a.iso&url=http://proxmox.com/a.iso"),
        "download failed: wget: unable to resolve host address 'proxmox.com'"
    );
    let gone = lab.request("DELETE", "/nodes/pve/storage/local/content/iso/talos.iso", "", "");
    assert_eq!(outcome(&lab, &gone), "OK");
    assert_eq!(data(&lab.get("/nodes/pve/storage/local/content?content=iso")), json!([]));
    lab.stop();
}

/// The lab itself is a server with a certificate of its own CA.
#[test]
fn download_certificates_are_verified() {
    let first = TestLab::new();
    let own = first.lab().address();
    let second = TestLab::start(Settings {
        reach: BTreeMap::from([("other.example:443".to_owned(), own)]),
        ..settings()
    });
    let port = own.port();
    let order =
        |host: &str, more: &str| format!("content=iso&filename=page.iso&url=https://{host}/{more}");
    let rejected = |host: &str| {
        format!("download failed: To connect to {host} insecurely, use `--no-check-certificate'.")
    };
    // The server has a certificate of another CA.
    assert_eq!(download(&second, &order("other.example", "")), rejected("other.example"));
    let local = format!("127.0.0.1:{port}");
    assert_eq!(download(&second, &order(&local, "")), rejected("127.0.0.1"));
    let unverified = order("other.example", "&verify-certificates=0");
    assert_eq!(download(&second, &unverified), "OK");
    // The server has a certificate of the same CA.
    assert_eq!(download(&first, &order(&local, "")), "OK");
    first.stop();
    second.stop();
}

#[test]
fn storage_usage_is_counted() {
    let lab = TestLab::start(scenario(
        "storages:\n\
         - {storage: local, type: dir, path: /var/lib/vz, content: \"iso,images\", size: 1MiB}\n\
         - {storage: thick, type: lvm, vgname: vgt, content: images, size: 8MiB}\n",
    ));
    let path = "/nodes/pve/storage/thick/content";
    let new = post(&lab, path, "vmid=100&filename=vm-100-disk-0&size=5M");
    assert_eq!(data(&new), "thick:vm-100-disk-0");
    let status = data(&lab.get("/nodes/pve/storage/thick/status"));
    assert_eq!((&status["used"], &status["avail"]), (&json!(8 << 20), &json!(0)));
    let rejected = post(&lab, path, "vmid=100&filename=vm-100-disk-1&size=1M");
    assert_eq!(
        rejected.json()["message"],
        "lvcreate 'vgt/vm-100-disk-1' error:   Volume group \"vgt\" has insufficient free space \
         (0 extents): 1 required.\n"
    );
    let address = serve(vec![7; 2 << 20].leak());
    let order = format!("content=iso&filename=big.iso&url=http://{address}/big.iso");
    let end = download(&lab, &order);
    assert!(end.starts_with("download failed: Cannot write to '/var/lib/vz/"), "{end}");
    assert_eq!(data(&lab.get("/nodes/pve/storage/local/status"))["used"], 0);
    lab.stop();
}

#[test]
fn storage_sections_are_changed_through_the_api() {
    let lab = TestLab::new();
    let add = "storage=images&type=dir&path=/srv/images&content=images,import";
    assert_eq!(data(&post(&lab, "/storage", add)), json!({ "storage": "images", "type": "dir" }));
    let again = post(&lab, "/storage", add);
    assert_eq!(again.status, 500);
    assert_eq!(again.reason, "create storage failed: storage ID 'images' already defined");
    let change = lab.request("PUT", "/storage/images", FORM, "disable=1");
    assert_eq!(data(&change)["storage"], "images");
    let rejected = lab.get("/nodes/pve/storage/images/content");
    assert_eq!(rejected.line(), (500, "storage 'images' is disabled"));
    assert_eq!(data(&lab.request("DELETE", "/storage/images", "", "")), Json::Null);
    let listed = data(&lab.get("/storage"));
    assert!(listed.as_array().unwrap().iter().all(|storage| storage["storage"] != "images"));
    lab.stop();
}
