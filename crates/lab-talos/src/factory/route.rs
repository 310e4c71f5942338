//! Routing of HTTP requests to the functions that answer them.

use std::sync::Arc;

use serde_json::json;
use talmox_talos_config::schematic::Schematic;

use super::answer::HttpAnswer;
use super::artefact::{Artefact, ImageTarget, content_type, not_provided};
use super::{Factory, build, catalog, check, is_available, kernel, parse_version, range, ubuntu};

const TALOSCTL: [&str; 8] = [
    "talosctl-darwin-amd64",
    "talosctl-darwin-arm64",
    "talosctl-freebsd-amd64",
    "talosctl-freebsd-arm64",
    "talosctl-linux-amd64",
    "talosctl-linux-arm64",
    "talosctl-windows-amd64.exe",
    "talosctl-windows-arm64.exe",
];

/// Parsed HTTP request to the Image Factory.
#[derive(Debug)]
pub(super) struct FactoryRequest {
    pub(super) method: String,
    pub(super) host: String,
    /// Decoded path without the query.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) range: Option<String>,
    pub(super) body: Vec<u8>,
}

impl FactoryRequest {
    /// Whether the method is GET or HEAD. HEAD is answered like GET, but without the body.
    fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl Factory {
    pub(super) async fn answer(self: &Arc<Self>, request: &FactoryRequest) -> HttpAnswer {
        if request.host == ubuntu::HOST {
            if !request.reads() {
                return HttpAnswer::method_not_allowed();
            }
            let path = request.path.clone();
            let made = tokio::task::spawn_blocking(move || ubuntu::answer(&path)).await;
            let answer = made.unwrap_or_else(|_| HttpAnswer::internal());
            return if answer.status == 200 {
                range::answer_range(answer, request.range.as_deref())
            } else {
                answer
            };
        }
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        let method = request.method.as_str();
        let result = match (method, &parts[..]) {
            ("POST", ["schematics"]) => self.post(request),
            ("GET", ["schematics", id]) => self.schematic(id),
            ("GET" | "HEAD", ["image", id, version, file]) => {
                self.image(request, id, version, file).await
            }
            ("GET", ["pxe", id, version, target]) => self.pxe(request, id, version, target),
            ("GET", ["talosctl", version]) => talosctl(request, version),
            ("GET" | "HEAD", ["talosctl", _, file]) => Err(not_provided(file)),
            ("GET", ["secureboot", "signing-cert.pem"]) => Ok(pem(&self.signer.certificate)),
            ("GET", ["oci", "cosign", "signing-key.pub"]) => Ok(pem(&self.signer.public_key)),
            ("GET", ["versions"]) => Ok(versions(request)),
            ("GET", ["version", version, "extensions", "official"]) => extensions(version),
            ("GET", ["version", version, "overlays", "official"]) => overlays(version),
            ("GET" | "HEAD", ["healthz" | "readyz"]) => {
                Ok(HttpAnswer::new(200, "text/plain; charset=utf-8", ""))
            }
            (
                _,
                ["schematics" | "versions" | "healthz" | "readyz"]
                | ["schematics" | "talosctl", _]
                | ["image" | "pxe", _, _, _]
                | ["talosctl", _, _]
                | ["secureboot", "signing-cert.pem"]
                | ["oci", "cosign", "signing-key.pub"]
                | ["version", _, "extensions" | "overlays", "official"],
            ) => Ok(HttpAnswer::method_not_allowed()),
            _ => Ok(HttpAnswer::not_found()),
        };
        result.unwrap_or_else(|rejected| rejected)
    }

    fn post(&self, request: &FactoryRequest) -> Result<HttpAnswer, HttpAnswer> {
        let text = std::str::from_utf8(&request.body)
            .map_err(|_| HttpAnswer::error(400, "yaml: invalid UTF-8"))?;
        if text.trim().is_empty() {
            return Err(HttpAnswer::error(400, "EOF"));
        }
        let schematic =
            Schematic::read(text).map_err(|error| HttpAnswer::error(400, &error.to_string()))?;
        if !schematic.owner.is_empty() {
            let text = "owner field is only supported in Enterprise edition";
            return Err(HttpAnswer::error(400, text));
        }
        let yaml = schematic.to_yaml();
        let id = self.schematics.put(schematic).map_err(|_| HttpAnswer::internal())?;
        Ok(HttpAnswer::json(201, "application/json", &json!({ "id": id, "schematic": yaml })))
    }

    fn schematic(&self, id: &str) -> Result<HttpAnswer, HttpAnswer> {
        let not_found = || HttpAnswer::error(404, "schematic not found");
        let schematic = self.schematics.get(id).ok_or_else(not_found)?;
        Ok(HttpAnswer::new(200, "application/yaml", schematic.to_yaml()))
    }

    async fn image(
        &self,
        request: &FactoryRequest,
        id: &str,
        version: &str,
        file: &str,
    ) -> Result<HttpAnswer, HttpAnswer> {
        if file.ends_with(".sigstore.json") {
            let text = "enterprise signing is not enabled: signature endpoint is not available";
            return Err(HttpAnswer::error(402, text));
        }
        if file.ends_with(".sha256") || file.ends_with(".sha512") {
            let text = "enterprise not enabled: checksum endpoint is not available";
            return Err(HttpAnswer::error(402, text));
        }
        let schematic = self.known(id)?;
        let version = parse_version(version)?;
        let artefact = Artefact::parse(file)?;
        check(&schematic, &version)?;
        self.wait_for_build(&format!("{id}/{version}/{file}")).await;
        let built = tokio::task::spawn_blocking(move || build(artefact, &version, schematic));
        let bytes = built.await.map_err(|_| HttpAnswer::internal())?;
        let name = request.parameter("filename").unwrap_or(file);
        let answer = HttpAnswer::new(200, content_type(file), bytes)
            .with("Content-Disposition", format!("attachment; filename=\"{name}\""));
        Ok(range::answer_range(answer, request.range.as_deref()))
    }

    fn known(&self, id: &str) -> Result<Schematic, HttpAnswer> {
        let unknown = || HttpAnswer::error(404, &format!("schematic ID {id:?} not found"));
        self.schematics.get(id).ok_or_else(unknown)
    }

    fn pxe(
        &self,
        request: &FactoryRequest,
        id: &str,
        version: &str,
        target: &str,
    ) -> Result<HttpAnswer, HttpAnswer> {
        let schematic = self.known(id)?;
        let version = parse_version(version)?;
        let target = ImageTarget::parse(target)?;
        is_available(&version)?;
        let base = format!("https://{}/image/{id}/v{version}", request.host);
        let script = kernel::boot_script(target, &version, &schematic, &base);
        Ok(HttpAnswer::new(200, "text/plain; charset=utf-8", script))
    }
}

fn pem(text: &str) -> HttpAnswer {
    HttpAnswer::new(200, "application/x-pem-file", text.to_owned())
}

/// List of talosctl binaries, which the Image Factory serves since 1.11. The lab serves only the list, and not the files.
fn talosctl(request: &FactoryRequest, version: &str) -> Result<HttpAnswer, HttpAnswer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    if version.minor < 11 {
        return Err(HttpAnswer::internal());
    }
    let url = |file| format!("https://{}/talosctl/v{version}/{file}", request.host);
    let list: Vec<String> = TALOSCTL.map(url).into();
    Ok(HttpAnswer::json(200, "application/json", &list))
}

fn versions(request: &FactoryRequest) -> HttpAnswer {
    let all =
        if request.parameter("broken") == Some("true") { vec![] } else { catalog::versions() };
    let names: Vec<String> = all.iter().map(|version| format!("v{version}")).collect();
    HttpAnswer::list(&names)
}

fn extensions(version: &str) -> Result<HttpAnswer, HttpAnswer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    Ok(HttpAnswer::list(&catalog::extensions(&version)))
}

fn overlays(version: &str) -> Result<HttpAnswer, HttpAnswer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    Ok(HttpAnswer::list(&catalog::overlays(&version)))
}
