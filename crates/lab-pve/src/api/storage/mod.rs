//! `/storage` and `/nodes/{node}/storage`: storage configs, status, volumes, uploads and downloads.

mod config;
mod download;
mod new_file;
mod options;
mod status;
mod upload;
mod volume;
mod volume_list;
mod wget_progress;

#[cfg(test)]
mod tests;

use super::not_implemented;
use crate::call::{Call, Outcome, Upload};
use crate::schema::{Endpoint, Method};

/// Answers calls below `/storage` and `/nodes/{node}/storage`, and the call `query-url-metadata`. `file` is set only for
/// uploads.
pub(crate) async fn answer(endpoint: &Endpoint, call: Call, file: Option<Upload>) -> Outcome {
    use Method::{Delete, Get, Post, Put};
    match endpoint.id() {
        (Get, "/storage") => config::list(&call),
        (Post, "/storage") => config::create(&call),
        (Get, "/storage/{storage}") => config::read(&call),
        (Put, "/storage/{storage}") => config::update(&call),
        (Delete, "/storage/{storage}") => config::delete(&call),
        (Get, "/nodes/{node}/storage") => status::list(&call),
        (Get, "/nodes/{node}/query-url-metadata") => download::metadata(call).await,
        (method, path) => match (method, path.strip_prefix("/nodes/{node}/storage/{storage}")) {
            (Get, Some("")) => status::index(&call),
            (Get, Some("/status")) => status::read(&call),
            (Get, Some("/content")) => volume_list::answer(&call),
            (Post, Some("/content")) => volume::allocate(call).await,
            (Get, Some("/content/{volume}")) => volume::read(&call),
            (Put, Some("/content/{volume}")) => volume::update(&call),
            (Delete, Some("/content/{volume}")) => volume::delete(call).await,
            (Post, Some("/upload")) => upload::answer(&call, file),
            (Post, Some("/download-url")) => download::answer(&call),
            _ => not_implemented(endpoint),
        },
    }
}
