//! Bodies of the uploads in vectors. They are streamed, so that a large image needs no memory.

use std::io::{self, Cursor, Read};

use serde_json::Value as Json;

pub(crate) const BOUNDARY: &str = "talmox-vector-8f0c1d";

/// Multipart body, with its length.
pub(crate) struct Body {
    pub(crate) length: u64,
    pub(crate) bytes: Box<dyn Read>,
}

/// Body with the fields in the order that Proxmox requires, followed by the file.
pub(crate) fn body(params: &[(String, String)], upload: &Json) -> Body {
    let order = |name: &str| {
        let known = ["content", "checksum-algorithm", "checksum"];
        known.iter().position(|known| *known == name).unwrap_or(known.len())
    };
    let mut fields: Vec<_> = params.iter().filter(|(name, _)| name != "filename").collect();
    fields.sort_by_key(|(name, _)| order(name));
    let mut head = String::new();
    for (name, value) in fields {
        head.push_str(&format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    let filename = params.iter().find(|(name, _)| name == "filename");
    let filename = filename.map(|(_, value)| value.as_str()).unwrap_or_default();
    head.push_str(&format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"filename\"; \
         filename=\"{filename}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    ));
    let (file_length, file) = file(upload);
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let length = head.len() as u64 + file_length + tail.len() as u64;
    let bytes = Cursor::new(head).chain(file).chain(Cursor::new(tail));
    Body { length, bytes: Box::new(bytes) }
}

fn file(upload: &Json) -> (u64, Box<dyn Read>) {
    if let Some(text) = upload["text"].as_str() {
        return (text.len() as u64, Box::new(Cursor::new(text.to_owned())));
    }
    let size = upload["size"].as_u64().unwrap_or_default();
    let backing = upload["backing"].as_str().unwrap_or_default();
    match upload["image"].as_str().unwrap_or_default() {
        "qcow2" => {
            let image = qcow2(size, backing);
            (image.len() as u64, Box::new(Cursor::new(image)))
        }
        "vmdk" => {
            let image = vmdk(size);
            (image.len() as u64, Box::new(Cursor::new(image)))
        }
        _ => (size, Box::new(io::repeat(0).take(size))),
    }
}

/// Empty qcow2 image of version 3, with clusters of 64 KiB. It contains the header, the refcounts, and an L1 table of zeros.
fn qcow2(size: u64, backing: &str) -> Vec<u8> {
    const CLUSTER: u64 = 1 << 16;
    const HEADER: u32 = 104;
    // One L2 table describes 8192 clusters of 64 KiB.
    let tables = size.div_ceil(CLUSTER * (CLUSTER / 8)).max(1);
    let l1_clusters = (tables * 8).div_ceil(CLUSTER);
    let mut image = vec![0; usize::try_from(CLUSTER * (3 + l1_clusters)).unwrap_or_default()];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    if !backing.is_empty() {
        let at = u64::from(HEADER) + 8;
        put(8, &at.to_be_bytes());
        put(16, &u32::try_from(backing.len()).unwrap_or_default().to_be_bytes());
        put(usize::try_from(at).unwrap_or_default(), backing.as_bytes());
    }
    put(20, &16_u32.to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &u32::try_from(tables).unwrap_or(u32::MAX).to_be_bytes());
    put(40, &(3 * CLUSTER).to_be_bytes());
    put(48, &CLUSTER.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &HEADER.to_be_bytes());
    // The refcount table has one block. It contains a count of 1 for each used cluster.
    put(usize::try_from(CLUSTER).unwrap_or_default(), &(2 * CLUSTER).to_be_bytes());
    for cluster in 0..usize::try_from(3 + l1_clusters).unwrap_or_default() {
        put(usize::try_from(2 * CLUSTER).unwrap_or_default() + 2 * cluster, &1_u16.to_be_bytes());
    }
    image
}

/// Header of a sparse vmdk extent, followed by the descriptor.
fn vmdk(size: u64) -> Vec<u8> {
    const SECTOR: usize = 512;
    let sectors = size.div_ceil(512);
    let mut image = vec![0; 128 * SECTOR];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"KDMV");
    put(4, &1_u32.to_le_bytes());
    put(8, &3_u32.to_le_bytes());
    put(12, &sectors.to_le_bytes());
    put(20, &128_u64.to_le_bytes());
    put(28, &1_u64.to_le_bytes());
    put(36, &20_u64.to_le_bytes());
    put(44, &512_u32.to_le_bytes());
    put(48, &21_u64.to_le_bytes());
    put(56, &64_u64.to_le_bytes());
    put(64, &128_u64.to_le_bytes());
    put(73, b"\n \r\n");
    let descriptor = format!(
        "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
         createType=\"monolithicSparse\"\nRW {sectors} SPARSE \"disk.vmdk\"\n"
    );
    put(SECTOR, descriptor.as_bytes());
    image
}
