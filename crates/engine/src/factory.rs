//! The Image Factory: schematics and extensions.

use serde::Deserialize;

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

/// Makes a schematic known to the factory, which only then builds images of it, and gives its id.
/// Posting it again changes nothing.
pub async fn post_schematic(web: &Web, factory: &str, schematic: &str) -> Result<String, WebError> {
    let url = at(factory, "schematics");
    let answer = web.post(&url, "application/yaml", schematic).await?;
    read::<Posted>(url, &answer).map(|posted| posted.id)
}

/// Whether the factory knows a schematic.
pub async fn has_schematic(web: &Web, factory: &str, id: &str) -> Result<bool, WebError> {
    match web.get(&at(factory, &format!("schematics/{id}"))).await {
        Ok(_) => Ok(true),
        // An older factory that cannot be asked is told.
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

fn at(factory: &str, path: &str) -> String {
    format!("{}/{path}", factory.trim_end_matches('/'))
}

fn read<'a, T: Deserialize<'a>>(url: String, answer: &'a [u8]) -> Result<T, WebError> {
    serde_json::from_slice(answer)
        .map_err(|error| WebError::Unreadable { url, what: error.to_string() })
}
