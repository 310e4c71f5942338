//! The manifests of an add-on, wherever they come from.

use aws_lc_rs::digest::{SHA256, digest};

use crate::kube::{Manifest, ManifestError, read_manifests};
use crate::plan::AddonSource;
use crate::web::{Web, WebError};

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddonError {
    #[error("fetch {url}")]
    Fetch { url: String, source: WebError },
    #[error("the SHA-256 of {url} is {found}, not {wanted}")]
    Checksum { url: String, found: String, wanted: String },
    #[error("{url} is no text")]
    NoText { url: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl AddonError {
    /// With all that it came from, in one line.
    pub(crate) fn chain(&self) -> String {
        let mut texts = vec![self.to_string()];
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            texts.push(error.to_string());
            cause = error.source();
        }
        texts.join(": ")
    }
}

/// Reads them, or fetches them first. Every object says that it is of the add-on of this name.
pub(crate) async fn manifests(
    name: &str,
    source: &AddonSource,
    web: &Web,
) -> Result<Vec<Manifest>, AddonError> {
    let all = read(source, web).await?;
    Ok(all.into_iter().map(|manifest| manifest.of_addon(name)).collect())
}

async fn read(source: &AddonSource, web: &Web) -> Result<Vec<Manifest>, AddonError> {
    match source {
        AddonSource::Texts(texts) => {
            let mut manifests = vec![];
            for text in texts {
                manifests.extend(read_manifests(&text.origin, &text.text)?);
            }
            Ok(manifests)
        }
        AddonSource::Url { url, checksum } => {
            let fetched = web.get(url).await;
            let bytes = fetched.map_err(|source| AddonError::Fetch { url: url.clone(), source })?;
            if let Some(wanted) = checksum {
                check(url, &bytes, wanted)?;
            }
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| AddonError::NoText { url: url.clone() })?;
            Ok(read_manifests(url, &text)?)
        }
    }
}

fn check(url: &str, bytes: &[u8], wanted: &str) -> Result<(), AddonError> {
    let found: String =
        digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(wanted.trim_start_matches("sha256:")) {
        return Ok(());
    }
    Err(AddonError::Checksum { url: url.to_owned(), found, wanted: wanted.to_owned() })
}
