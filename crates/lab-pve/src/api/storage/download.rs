//! `POST …/storage/{storage}/download-url` and `GET …/query-url-metadata`: downloads by a host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, json};
use talmox_lab_environment::fetch::{FetchMethod, Response};

use super::super::reply::data;
use super::new_file::{CheckedFile, FileTarget, compare, mismatch_text};
use super::wget_progress;
use crate::ApiError;
use crate::blob::BlobId;
use crate::call::{Call, Outcome, Reply};
use crate::image::DiskImage;
use crate::pve_state::{ContentType, TaskState};
use crate::site::Site;
use crate::task::TaskHandle;

/// Parsed request to download a file.
#[derive(Clone, Debug)]
struct DownloadRequest {
    url: String,
    verify: bool,
    compression: Option<String>,
    target: FileTarget,
}

pub(super) fn answer(call: &Call) -> Outcome {
    let target = {
        let pve_state = call.pve_state();
        let id = call.params.text("storage").unwrap_or_default();
        let storage = pve_state.storage_on(id, &call.node)?;
        if !storage.kind.has_files() {
            let kind = storage.kind.name();
            return Err(ApiError::failed(format!(
                "can't upload to storage type '{kind}', not a file based storage!"
            )));
        }
        let content = call.params.text("content").unwrap_or_default();
        if !ContentType::parse(content).is_some_and(|content| storage.content.contains(&content)) {
            let text = format!("storage '{id}' is not configured for content-type '{content}'");
            return Err(ApiError::failed(text));
        }
        FileTarget::of(call, storage)?
    };
    let order = DownloadRequest {
        url: call.params.text("url").unwrap_or_default().to_owned(),
        verify: call.params.flag("verify-certificates").unwrap_or(true),
        compression: call.params.text("compression").filter(|it| !it.is_empty()).map(str::to_owned),
        target,
    };
    let file = order.target.file.clone();
    let upid =
        call.site.start(&call.node, "download", &file, &call.caller, |task| download(task, order));
    Ok(Reply::upid(upid))
}

async fn download(task: TaskHandle, order: DownloadRequest) -> Result<(), String> {
    let DownloadRequest { url, target, compression, .. } = &order;
    let path = &target.path;
    if let Some(compression) = compression {
        if target.content != ContentType::Iso {
            return Err(format!("decompression not supported for {}", target.content.name()));
        }
        if !["gz", "lzo", "zst", "bz2"].contains(&compression.as_str()) {
            return Err("no decompression method found".to_owned());
        }
    }
    task.log(format!("downloading {url} to {path}"));
    if is_already_stored(&task, target).await? {
        return Ok(());
    }
    let blob = task.site.blobs.reserve();
    let result = get(&task, &order, &blob).await;
    if result.is_err() {
        std::fs::remove_file(task.site.blobs.path(&blob)).ok();
    }
    result
}

/// Whether a file with this name and the expected checksum exists. Any other file with this name is an error.
async fn is_already_stored(task: &TaskHandle, target: &FileTarget) -> Result<bool, String> {
    let existing = target.existing(&task.site.pve_state()).cloned();
    let Some(existing) = existing else { return Ok(false) };
    let Some((algorithm, expected)) = target.checksum.clone() else {
        return Err(format!("refusing to override existing file '{}'", target.path));
    };
    let path = existing.blob.map(|blob| task.site.blobs.path(&blob));
    let sum = tokio::task::spawn_blocking(move || match path {
        Some(path) => algorithm.of_file(&path),
        None => algorithm.of_zeros(existing.used),
    });
    let got = sum.await.map_err(io::Error::other).flatten().map_err(|error| error.to_string())?;
    if let Some(text) = mismatch_text(&got, &expected) {
        task.log("calculating checksum of existing file...");
        return Err(format!("{text}, aborting"));
    }
    task.log(
        "calculating checksum of existing file...OK, got correct file already, no need to download",
    );
    Ok(true)
}

async fn get(task: &TaskHandle, order: &DownloadRequest, blob: &BlobId) -> Result<(), String> {
    let site = Arc::clone(&task.site);
    let pid = site.pve_state().tasks.get(&task.upid).map_or(0, |task| task.pid);
    let temporary = format!("{}.tmp_dwnl.{pid}", order.target.path);
    let path = site.blobs.path(blob);
    let fetching = {
        let (task, order, path) = (task.clone(), order.clone(), path.clone());
        let temporary = temporary.clone();
        tokio::task::spawn_blocking(move || fetch(&task, &order, &path, &temporary))
    };
    let length = fetching.await.map_err(|error| error.to_string())??;
    wget_progress::simulate_transfer(task, length).await?;
    let DownloadRequest { url, target, .. } = order;
    let checking = {
        let (task, order, path) = (task.clone(), order.clone(), path.clone());
        tokio::task::spawn_blocking(move || check(&task, &order, &path, &temporary))
    };
    let (length, image) = checking.await.map_err(|error| error.to_string())??;
    if !target.has_room(&site.pve_state(), length) {
        return Err("unable to rename temporary file: No space left on device".to_owned());
    }
    target.put(&site, &CheckedFile { blob: blob.clone(), length, image });
    task.log(format!("download of '{url}' to '{}' finished", target.path));
    Ok(())
}

/// Downloads the file to `path`, and returns its length in bytes.
fn fetch(
    task: &TaskHandle,
    order: &DownloadRequest,
    path: &Path,
    temporary: &str,
) -> Result<u64, String> {
    let failed = |text: &str| format!("download failed: {text}");
    let site = &task.site;
    let mut response = site
        .environment
        .outside
        .fetch(FetchMethod::Get, &order.url, order.verify)
        .map_err(|error| failed(&error.in_wgets_words()))?;
    let Response { status, reason, .. } = &response;
    task.log(format!("HTTP request sent, awaiting response... {status} {reason}"));
    if !(200..300).contains(status) {
        return Err(failed("exit code 8"));
    }
    if let Some(length) = response.body.length() {
        let kind = response.header("content-type").unwrap_or("application/octet-stream");
        task.log(wget_progress::length(length, kind));
    }
    task.log(format!("Saving to: '{temporary}'"));
    let mut file = File::create(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        let length = match response.body.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(length) => length,
            Err(_) => return Err(failed("exit code 4")),
        };
        total += u64::try_from(length).unwrap_or_default();
        if !order.target.has_room(&site.pve_state(), total) {
            return Err(failed(&format!(
                "Cannot write to '{temporary}' (No space left on device)."
            )));
        }
        if is_interrupted(site, &task.upid) {
            return Err("received interrupt".to_owned());
        }
        file.write_all(&buffer[..length]).map_err(|error| failed(&error.to_string()))?;
    }
}

fn is_interrupted(site: &Site, upid: &str) -> bool {
    let pve_state = site.pve_state();
    let state = pve_state.tasks.get(upid).map(|task| &task.state);
    matches!(state, Some(TaskState::Running { interrupted: true }))
}

/// Verifies the checksum, decompresses the file, and checks the format of the image.
fn check(
    task: &TaskHandle,
    order: &DownloadRequest,
    path: &Path,
    temporary: &str,
) -> Result<(u64, DiskImage), String> {
    let text = |error: io::Error| error.to_string();
    let target = &order.target;
    if let Some(sum) = &target.checksum {
        let verdict = compare(sum, path).map_err(text)?;
        let words = if verdict.is_ok() { "OK, checksum verified" } else { "" };
        task.log(format!("calculating checksum...{words}"));
        verdict?;
    }
    let mut temporary = temporary.to_owned();
    if let Some(compression) = &order.compression {
        let unpacked = temporary.replacen(".tmp_dwnl.", ".tmp_dcom.", 1);
        task.log(format!("decompressing {temporary} to {unpacked}"));
        decompress(compression, path, &temporary)?;
        temporary = unpacked;
    }
    let image = target.check(path, &temporary).map_err(text)?;
    let image = image.map_err(|text| format!("failed to verify file: {text}"))?;
    let length = std::fs::metadata(path).map_err(text)?.len();
    Ok((length, image))
}

/// Decompresses a file in place. Simulated hosts have only `zcat`. The other formats fail with the error of a missing command.
fn decompress(compression: &str, path: &Path, temporary: &str) -> Result<(), String> {
    let command = match compression {
        "gz" => format!("zcat {temporary}"),
        "zst" => format!("zstd -q -d -c {temporary}"),
        "lzo" => format!("lzop -d -c {temporary}"),
        _ => format!("bzcat -q {temporary}"),
    };
    if compression != "gz" {
        return Err(format!(
            "command '{command}' failed: open3: exec of {command} failed: No such file or directory"
        ));
    }
    let unpack = || {
        let unpacked = path.with_extension("unpacked");
        let mut to = File::create(&unpacked)?;
        match io::copy(&mut MultiGzDecoder::new(File::open(path)?), &mut to) {
            Ok(_) => std::fs::rename(&unpacked, path),
            Err(error) => std::fs::remove_file(&unpacked).and(Err(error)),
        }
    };
    unpack().map_err(|_| format!("command '{command}' failed: exit code 1"))
}

/// Answers `GET …/query-url-metadata`: name, size and MIME type of a URL, from a HEAD request.
pub(super) async fn metadata(call: Call) -> Outcome {
    let url = call.params.text("url").unwrap_or_default().to_owned();
    let verify = call.params.flag("verify-certificates").unwrap_or(true);
    let asking = {
        let (site, url) = (Arc::clone(&call.site), url.clone());
        tokio::task::spawn_blocking(move || {
            site.environment.outside.fetch(FetchMethod::Head, &url, verify)
        })
    };
    let answer = asking.await.map_err(|error| ApiError::failed(error.to_string()))?;
    let invalid = |status: &str| ApiError::failed(format!("invalid server response: '{status}'"));
    let response = answer.map_err(|error| invalid(&error.as_status_line()))?;
    if response.status != 200 {
        return Err(invalid(&format!("{} {}", response.status, response.reason)));
    }
    let mut metadata_json = Map::new();
    if let Some(name) = file_name(response.header("content-disposition"), &url) {
        metadata_json.insert("filename".into(), json!(name));
    }
    if let Some(kind) = response.header("content-type").and_then(|it| it.split(';').next()) {
        metadata_json.insert("mimetype".into(), json!(kind));
    }
    let size = response.header("content-length").and_then(|it| it.parse::<u64>().ok());
    if let Some(size) = size.filter(|size| *size > 0) {
        metadata_json.insert("size".into(), json!(size));
    }
    data(metadata_json)
}

/// File name from the `Content-Disposition` header, otherwise the last path segment of the URL.
fn file_name(disposition: Option<&str>, url: &str) -> Option<String> {
    let named = disposition.and_then(|text| {
        let (_, rest) = text.split_once("filename=")?;
        match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            Some((quoted, _)) => Some(quoted),
            None => rest.split(';').next(),
        }
    });
    let of_url = || {
        let (_, rest) = url.split_once("://")?;
        rest.split('?').next()?.rsplit_once('/').map(|(_, name)| name)
    };
    named.or_else(of_url).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn file_name_from_header_or_url() {
        let name = |disposition, url| file_name(disposition, url);
        let url = "https://factory.example/image/x/nocloud-amd64.raw?a=/b";
        assert_eq!(name(None, url).as_deref(), Some("nocloud-amd64.raw"));
        assert_eq!(name(Some("attachment; filename=\"a b.iso\""), url).as_deref(), Some("a b.iso"));
        assert_eq!(name(Some("attachment; filename=a.iso; x"), url).as_deref(), Some("a.iso"));
        assert_eq!(name(None, "https://factory.example/"), None);
        assert_eq!(name(None, "https://factory.example"), None);
    }
}
