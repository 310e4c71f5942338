//! The manifests of an add-on, from files or from a URL.

use aws_lc_rs::digest::{SHA256, digest};
use talmox_plan::desired::{AddonNamespace, AddonSource};
use talmox_plan::manifest::{
    Manifest, ManifestError, in_namespace, missing_namespace, read_manifests,
};
use talmox_values::url::shown_url;

use crate::web::{Web, WebError};

/// Reason why the manifests of an add-on cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddonError {
    #[error("fetch {url}")]
    Fetch { url: String, source: WebError },
    #[error("the SHA-256 of {url} is {found}, not {desired}")]
    Checksum { url: String, found: String, desired: String },
    #[error("{url} is not a text file")]
    NoText { url: String },
    #[error("the plan was read from a file, which does not hold the content of {file}")]
    NotInPlan { file: String },
    #[error("{reason}")]
    NotMade { reason: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl AddonError {
    /// The error and its causes, in one line.
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

/// Reads or fetches the manifests of the add-on with this name, and labels every object with that name. Objects that name no
/// namespace get that of the add-on, which is added if it is missing.
pub(crate) async fn manifests(
    name: &str,
    source: &AddonSource,
    namespace: Option<&AddonNamespace>,
    web: &Web,
) -> Result<Vec<Manifest>, AddonError> {
    let mut all = read(source, web).await?;
    let mut created = None;
    if let Some(namespace) = namespace {
        all = in_namespace(all, &namespace.name);
        created = missing_namespace(&all, &namespace.name).filter(|_| namespace.is_created);
    }
    let labelled = all.into_iter().map(|manifest| manifest.of_addon(name));
    Ok(created.into_iter().chain(labelled).collect())
}

async fn read(source: &AddonSource, web: &Web) -> Result<Vec<Manifest>, AddonError> {
    match source {
        AddonSource::Texts(texts) => {
            let mut manifests = vec![];
            for file in texts {
                let missing = || AddonError::NotInPlan { file: file.origin.clone() };
                let text = file.text.text().ok_or_else(missing)?;
                manifests.extend(read_manifests(&file.origin, text.expose())?);
            }
            Ok(manifests)
        }
        AddonSource::Url { url, checksum } => {
            let fetched = web.get(url).await;
            let url = shown_url(url);
            let bytes = fetched.map_err(|source| AddonError::Fetch { url: url.clone(), source })?;
            if let Some(desired) = checksum {
                check(&url, &bytes, desired)?;
            }
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| AddonError::NoText { url: url.clone() })?;
            Ok(read_manifests(&url, &text)?)
        }
        AddonSource::Several(sources) => {
            let mut manifests = vec![];
            for source in sources {
                manifests.extend(Box::pin(read(source, web)).await?);
            }
            Ok(manifests)
        }
        AddonSource::Skipped => {
            Err(AddonError::NotMade { reason: "its manifests were not rendered".to_owned() })
        }
        AddonSource::Failed { reason } => Err(AddonError::NotMade { reason: reason.clone() }),
    }
}

fn check(url: &str, bytes: &[u8], desired: &str) -> Result<(), AddonError> {
    let found: String =
        digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(desired.trim_start_matches("sha256:")) {
        return Ok(());
    }
    Err(AddonError::Checksum { url: url.to_owned(), found, desired: desired.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use talmox_plan::desired::ManifestFile;

    use super::*;
    use crate::web::WebSettings;

    /// Answers one request with this status and text.
    fn serve_once(status: u16, text: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _asked = socket.read(&mut [0; 4096]).unwrap();
            let length = text.len();
            write!(socket, "HTTP/1.1 {status} Yes\r\nContent-Length: {length}\r\n\r\n{text}")
                .unwrap();
        });
        format!("http://{address}/shop.yaml?token=hunter2")
    }

    async fn rejected(status: u16, text: &'static str, checksum: Option<&str>) -> String {
        let source = AddonSource::Url {
            url: serve_once(status, text),
            checksum: checksum.map(str::to_owned),
        };
        let web = Web::new(WebSettings::default()).unwrap();
        manifests("shop", &source, None, &web).await.unwrap_err().chain()
    }

    #[tokio::test]
    async fn several_sources_are_read_in_order_and_placed_in_the_namespace() {
        let text = |name: &str| {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
            let file = ManifestFile { origin: format!("{name}.yaml"), text: text.into() };
            AddonSource::Texts(vec![file])
        };
        let source = AddonSource::Several(vec![text("a"), text("b")]);
        let web = Web::new(WebSettings::default()).unwrap();
        for (is_created, expected) in [
            (true, &["Namespace shop", "ConfigMap shop/a", "ConfigMap shop/b"][..]),
            (false, &["ConfigMap shop/a", "ConfigMap shop/b"][..]),
        ] {
            let namespace = AddonNamespace { name: "shop".to_owned(), is_created };
            let all = manifests("shop", &source, Some(&namespace), &web).await.unwrap();
            let names: Vec<String> = all.iter().map(ToString::to_string).collect();
            assert_eq!(names, expected);
        }
        let failed = AddonSource::Several(vec![
            text("a"),
            AddonSource::Failed { reason: "helm is not installed".to_owned() },
        ]);
        let rejected = manifests("shop", &failed, None, &web).await.unwrap_err().chain();
        assert_eq!(rejected, "helm is not installed");
    }

    #[tokio::test]
    async fn secret_parts_of_a_url_and_commands_of_its_server_are_not_shown() {
        let strange = "\u{1b}[2J\u{1b}]0;mine\u{7}no\nerror: forged ?token=hunter2";
        let messages = [
            rejected(503, strange, None).await,
            rejected(200, "kind: {}", None).await,
            rejected(200, "kind: {}", Some("00")).await,
            rejected(200, "a: [", None).await,
        ];
        assert!(
            messages[0].ends_with("status 503: [2J]0;mineno error: forged ?…"),
            "{}",
            messages[0]
        );
        for message in messages {
            assert!(message.contains("/shop.yaml") && !message.contains("hunter2"), "{message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}
