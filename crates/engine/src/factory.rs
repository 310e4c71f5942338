//! The Image Factory: schematics, versions and extensions.

use serde::Deserialize;
use talmox_plan::observed::Offer;

use crate::web::{Web, WebError};

/// A system extension that images of a Talos version can have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Extension {
    pub name: String,
    #[serde(default, rename = "ref")]
    pub reference: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Deserialize)]
struct Posted {
    id: String,
}

/// Registers a schematic with the factory and returns the schematic ID. The factory builds images of registered schematics only.
/// Registering a schematic again changes nothing.
pub async fn post_schematic(web: &Web, factory: &str, schematic: &str) -> Result<String, WebError> {
    let url = at(factory, "schematics");
    let answer = web.post(&url, "application/yaml", schematic).await?;
    read::<Posted>(url, &answer).map(|posted| posted.id)
}

/// Whether the factory has a schematic.
pub async fn has_schematic(web: &Web, factory: &str, id: &str) -> Result<bool, WebError> {
    match web.get(&at(factory, &format!("schematics/{id}"))).await {
        Ok(_) => Ok(true),
        // An older factory does not support this request. The schematic is then registered again.
        Err(WebError::Status { status: 404 | 405, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The extensions that the factory has for a Talos version.
pub async fn extensions(web: &Web, factory: &str, talos: &str) -> Result<Vec<Extension>, WebError> {
    let url = at(factory, &format!("version/{talos}/extensions/official"));
    let answer = web.get(&url).await?;
    read(url, &answer)
}

/// The Talos versions that the factory has.
pub async fn versions(web: &Web, factory: &str) -> Result<Vec<String>, WebError> {
    let url = at(factory, "versions");
    let answer = web.get(&url).await?;
    read(url, &answer)
}

/// The extensions that the factory has for a Talos version. If the factory does not have this version, the similar versions
/// that it has.
pub async fn offer(web: &Web, factory: &str, talos: &str) -> Result<Offer, WebError> {
    let refusal = match extensions(web, factory, talos).await {
        Ok(known) => {
            return Ok(Offer::Extensions(known.into_iter().map(|one| one.name).collect()));
        }
        Err(error @ WebError::Status { status: 404, .. }) => error,
        Err(error) => return Err(error),
    };
    let Ok(known) = versions(web, factory).await else { return Err(refusal) };
    if known.iter().any(|version| version == talos) {
        return Err(refusal);
    }
    let minor = talos.rsplit_once('.').map_or(talos, |(minor, _)| minor);
    let is_similar =
        |version: &String| version.strip_prefix(minor).is_some_and(|patch| patch.starts_with('.'));
    Ok(Offer::NoSuchVersion { similar: known.into_iter().filter(is_similar).collect() })
}

fn at(factory: &str, path: &str) -> String {
    format!("{}/{path}", factory.trim_end_matches('/'))
}

fn read<'a, T: Deserialize<'a>>(url: String, answer: &'a [u8]) -> Result<T, WebError> {
    serde_json::from_slice(answer)
        .map_err(|error| WebError::Unreadable { url, what: error.to_string() })
}
