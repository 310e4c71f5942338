//! Storages: their configuration, what each host sees of them, what is on them, and what is brought.

mod config;
mod content;
mod dots;
mod download;
mod incoming;
mod list;
mod options;
mod status;
mod upload;

#[cfg(test)]
mod tests;

use super::not_implemented;
use crate::call::{Call, Outcome, Upload};
use crate::schema::{Endpoint, Method};

/// Answers what is below `/storage`, `/nodes/{node}/storage` and `query-url-metadata`. Only uploads
/// come with a file.
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
            (Get, Some("/content")) => list::answer(&call),
            (Post, Some("/content")) => content::allocate(call).await,
            (Get, Some("/content/{volume}")) => content::read(&call),
            (Put, Some("/content/{volume}")) => content::update(&call),
            (Delete, Some("/content/{volume}")) => content::delete(call).await,
            (Post, Some("/upload")) => upload::answer(&call, file),
            (Post, Some("/download-url")) => download::answer(&call),
            _ => not_implemented(endpoint),
        },
    }
}
