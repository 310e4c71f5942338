//! Which request gets which answer.

use std::sync::Arc;

use serde_json::json;
use talmox_talos_config::schematic::Schematic;

use super::answer::Answer;
use super::artefact::{Artefact, Machine, content_type, not_made};
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

/// A request, taken apart.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) host: String,
    /// Decoded, without the query.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) range: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// GET, or HEAD, whose answer is the same without its body.
    fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl Factory {
    pub(super) async fn answer(self: &Arc<Self>, request: &Request) -> Answer {
        if request.host == ubuntu::HOST {
            if !request.reads() {
                return Answer::method_not_allowed();
            }
            let path = request.path.clone();
            let made = tokio::task::spawn_blocking(move || ubuntu::answer(&path)).await;
            let answer = made.unwrap_or_else(|_| Answer::internal());
            return if answer.status == 200 {
                range::cut_out(answer, request.range.as_deref())
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
            ("GET", ["pxe", id, version, machine]) => self.pxe(request, id, version, machine),
            ("GET", ["talosctl", version]) => talosctl(request, version),
            ("GET" | "HEAD", ["talosctl", _, file]) => Err(not_made(file)),
            ("GET", ["secureboot", "signing-cert.pem"]) => Ok(pem(&self.signer.certificate)),
            ("GET", ["oci", "cosign", "signing-key.pub"]) => Ok(pem(&self.signer.public_key)),
            ("GET", ["versions"]) => Ok(versions(request)),
            ("GET", ["version", version, "extensions", "official"]) => extensions(version),
            ("GET", ["version", version, "overlays", "official"]) => overlays(version),
            ("GET" | "HEAD", ["healthz" | "readyz"]) => {
                Ok(Answer::new(200, "text/plain; charset=utf-8", ""))
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
            ) => Ok(Answer::method_not_allowed()),
            _ => Ok(Answer::not_found()),
        };
        result.unwrap_or_else(|refused| refused)
    }

    fn post(&self, request: &Request) -> Result<Answer, Answer> {
        let text = std::str::from_utf8(&request.body)
            .map_err(|_| Answer::error(400, "yaml: invalid UTF-8"))?;
        if text.trim().is_empty() {
            return Err(Answer::error(400, "EOF"));
        }
        let schematic =
            Schematic::read(text).map_err(|error| Answer::error(400, &error.to_string()))?;
        if !schematic.owner.is_empty() {
            let text = "owner field is only supported in Enterprise edition";
            return Err(Answer::error(400, text));
        }
        let yaml = schematic.to_yaml();
        let id = self.schematics.put(schematic).map_err(|_| Answer::internal())?;
        Ok(Answer::json(201, "application/json", &json!({ "id": id, "schematic": yaml })))
    }

    fn schematic(&self, id: &str) -> Result<Answer, Answer> {
        let not_found = || Answer::error(404, "schematic not found");
        let schematic = self.schematics.get(id).ok_or_else(not_found)?;
        Ok(Answer::new(200, "application/yaml", schematic.to_yaml()))
    }

    async fn image(
        &self,
        request: &Request,
        id: &str,
        version: &str,
        file: &str,
    ) -> Result<Answer, Answer> {
        if file.ends_with(".sigstore.json") {
            let text = "enterprise signing is not enabled: signature endpoint is not available";
            return Err(Answer::error(402, text));
        }
        if file.ends_with(".sha256") || file.ends_with(".sha512") {
            let text = "enterprise not enabled: checksum endpoint is not available";
            return Err(Answer::error(402, text));
        }
        let schematic = self.known(id)?;
        let version = parse_version(version)?;
        let artefact = Artefact::parse(file)?;
        check(&schematic, &version)?;
        self.wait_for_build(&format!("{id}/{version}/{file}")).await;
        let built = tokio::task::spawn_blocking(move || build(artefact, &version, schematic));
        let bytes = built.await.map_err(|_| Answer::internal())?;
        let name = request.parameter("filename").unwrap_or(file);
        let answer = Answer::new(200, content_type(file), bytes)
            .with("Content-Disposition", format!("attachment; filename=\"{name}\""));
        Ok(range::cut_out(answer, request.range.as_deref()))
    }

    fn known(&self, id: &str) -> Result<Schematic, Answer> {
        let unknown = || Answer::error(404, &format!("schematic ID {id:?} not found"));
        self.schematics.get(id).ok_or_else(unknown)
    }

    fn pxe(
        &self,
        request: &Request,
        id: &str,
        version: &str,
        machine: &str,
    ) -> Result<Answer, Answer> {
        let schematic = self.known(id)?;
        let version = parse_version(version)?;
        let machine = Machine::parse(machine)?;
        is_available(&version)?;
        let base = format!("https://{}/image/{id}/v{version}", request.host);
        let script = kernel::boot_script(machine, &version, &schematic, &base);
        Ok(Answer::new(200, "text/plain; charset=utf-8", script))
    }
}

fn pem(text: &str) -> Answer {
    Answer::new(200, "application/x-pem-file", text.to_owned())
}

/// The client's own program has been handed out since 1.11; the lab only lists it.
fn talosctl(request: &Request, version: &str) -> Result<Answer, Answer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    if version.minor < 11 {
        return Err(Answer::internal());
    }
    let url = |file| format!("https://{}/talosctl/v{version}/{file}", request.host);
    let list: Vec<String> = TALOSCTL.map(url).into();
    Ok(Answer::json(200, "application/json", &list))
}

fn versions(request: &Request) -> Answer {
    let all =
        if request.parameter("broken") == Some("true") { vec![] } else { catalog::versions() };
    let names: Vec<String> = all.iter().map(|version| format!("v{version}")).collect();
    Answer::list(&names)
}

fn extensions(version: &str) -> Result<Answer, Answer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    Ok(Answer::list(&catalog::extensions(&version)))
}

fn overlays(version: &str) -> Result<Answer, Answer> {
    let version = parse_version(version)?;
    is_available(&version)?;
    Ok(Answer::list(&catalog::overlays(&version)))
}
