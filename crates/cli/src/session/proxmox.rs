//! Client for the Proxmox API of an inventory or of a lab.

use std::collections::BTreeSet;

use talmox_clock::Clock;
use talmox_engine::step::StepCode;
use talmox_model::value::ProxmoxUrl;
use talmox_plan::desired::Login;
use talmox_pve::client::{ApiToken, Credentials, Endpoint, Limits, Settings, Timeouts, Trust};
use talmox_pve::error::{Distrust, NotSent};
use talmox_pve::fingerprint::Fingerprint;
use talmox_pve::{Client, PveError, SecretText};
use talmox_values::{Address, HttpUrl};

use super::reach_of;
use crate::choose::Chosen;
use crate::command_code::CommandCode;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::reference::{Name, Reference, Resolver};
use crate::rehearsal::LabConnection;

/// Default port of the Proxmox API.
const USUAL_PORT: u16 = 8006;

pub(crate) fn client(
    chosen: &Chosen,
    lab: Option<&LabConnection>,
    clock: Clock,
    printer: &Printer,
) -> Result<(Client, Login), CommandError> {
    let access = match lab {
        Some(lab) => lab_access(lab)?,
        None => real_access(chosen, printer)?,
    };
    connected(access, clock, printer)
}

/// Client for the Proxmox API of a running lab, without an inventory.
pub(crate) fn lab_client(
    lab: &LabConnection,
    clock: Clock,
    printer: &Printer,
) -> Result<(Client, Login), CommandError> {
    connected(lab_access(lab)?, clock, printer)
}

/// Client for the Proxmox API at a URL, without an inventory.
pub(crate) fn client_at(
    url: &ProxmoxUrl,
    trust: Trust,
    token: &SecretText,
    clock: Clock,
    printer: &Printer,
) -> Result<(Client, Login), CommandError> {
    let token: ApiToken = token.expose().parse().map_err(|error| {
        CommandError::failed(CommandCode::TokenMalformed, "the token is not an API token")
            .because(error)
    })?;
    let endpoint = Endpoint::new(&url.host, url.port);
    connected((vec![endpoint], trust, Credentials::Token(token)), clock, printer)
}

fn connected(
    access: ProxmoxAccess,
    clock: Clock,
    printer: &Printer,
) -> Result<(Client, Login), CommandError> {
    let (endpoints, trust, credentials) = access;
    let login = match &credentials {
        Credentials::Token(token) => {
            let (user, token) = token.id().split_once('!').unwrap_or((token.id(), ""));
            Login { user: user.to_owned(), token: Some(token.to_owned()) }
        }
        Credentials::Password { username, .. } => Login { user: username.clone(), token: None },
    };
    let client = Client::new(Settings {
        endpoints,
        trust,
        credentials,
        limits: Limits::default(),
        timeouts: Timeouts::default(),
        clock,
        seed: 0,
    });
    let client = client.map_err(|error| {
        CommandError::failed(CommandCode::ProxmoxClientFailed, "cannot create the Proxmox client")
            .because(error)
    })?;
    if client.is_insecure() {
        printer.warn(
            "the certificate of Proxmox is not verified (`proxmox.insecure`): an attacker in the network can read the \
            token. Run `talmox init` to get the fingerprint for `proxmox.fingerprint`",
        );
    }
    Ok((client, login))
}

/// URL of the Proxmox API of the lab, or else of the inventory.
pub(super) fn endpoint(chosen: &Chosen, lab: Option<&LabConnection>) -> Option<String> {
    let named = chosen.cluster().file.proxmox.endpoint.get();
    match lab {
        Some(lab) => Some(lab.ready.pve.url.clone()),
        None => named.and_then(|named| named.0.first()).map(|url| url.value.to_string()),
    }
}

/// Endpoints, trust settings and credentials for the Proxmox API.
type ProxmoxAccess = (Vec<Endpoint>, Trust, Credentials);

fn lab_access(lab: &LabConnection) -> Result<ProxmoxAccess, CommandError> {
    let pve = &lab.ready.pve;
    let address = HttpUrl::parse(&pve.url).map(|url| url.address()).map_err(|error| {
        CommandError::failed(CommandCode::LabFailed, "the lab has no valid Proxmox URL")
            .because(error)
    })?;
    let endpoint = Endpoint::new(&address.host, address.port);
    let credentials = if pve.token_id.is_empty() {
        Credentials::Password {
            username: pve.username.clone(),
            password: SecretText::new(&pve.password),
        }
    } else {
        let token = format!("{}={}", pve.token_id, pve.token_secret);
        Credentials::Token(token.parse().map_err(|error| {
            CommandError::failed(CommandCode::LabFailed, "the API token of the lab is invalid")
                .because(error)
        })?)
    };
    Ok((vec![endpoint], Trust::Authorities(lab.authority.clone()), credentials))
}

fn real_access(chosen: &Chosen, printer: &Printer) -> Result<ProxmoxAccess, CommandError> {
    let proxmox = &chosen.cluster().file.proxmox;
    let Some(named) = proxmox.endpoint.get() else {
        return Err(CommandError::failed(
            CommandCode::ProxmoxUnset,
            "the inventory has no Proxmox endpoint",
        )
        .hint("add `proxmox: {endpoint: https://HOST:8006}`, or use --lab"));
    };
    let reach = reach_of(chosen.cluster());
    let endpoints = named.0.iter().map(|url| {
        let url = &url.value;
        let target = reach.target(&Address::new(&url.host, url.port));
        Endpoint { reach: Some(target), ..Endpoint::new(&url.host, url.port) }
    });
    let trust = if proxmox.insecure.get().copied().unwrap_or_default() {
        Trust::Insecure
    } else if let Some(fingerprint) = proxmox.fingerprint.get() {
        let fingerprint = Fingerprint(fingerprint.0);
        Trust::Pinned(BTreeSet::from([fingerprint]))
    } else if let Some(file) = proxmox.ca_file.spanned() {
        let path = chosen.path_at(file.span, &file.value.0);
        Trust::Authorities(chosen.boundary().read(&path).map_err(|error| {
            CommandError::failed(
                CommandCode::FileUnreadable,
                format!("cannot read {}", path.display()),
            )
            .because(error)
        })?)
    } else {
        Trust::System
    };
    Ok((endpoints.collect(), trust, credentials(chosen, printer)?))
}

fn credentials(chosen: &Chosen, printer: &Printer) -> Result<Credentials, CommandError> {
    let proxmox = &chosen.cluster().file.proxmox;
    let resolver = Resolver::new(chosen, printer);
    if let (Some(username), Some(password)) = (proxmox.username.get(), proxmox.password.spanned()) {
        let reference = Reference { setting: Name::Cluster("proxmox.password"), secret: password };
        let password = resolver.resolve(reference)?;
        return Ok(Credentials::Password { username: username.clone(), password });
    }
    let Some(token) = proxmox.token.spanned() else {
        return Err(CommandError::failed(
            CommandCode::ProxmoxUnset,
            "the inventory has no credentials for Proxmox",
        )
        .hint(
            "add `proxmox: {token: {env: PROXMOX_TOKEN}}` and `export PROXMOX_TOKEN=…`; \
             `talmox init --role` prints how to create the token",
        ));
    };
    let reference = Reference { setting: Name::Cluster("proxmox.token"), secret: token };
    let token: ApiToken = resolver.resolve(reference)?.expose().parse().map_err(|error| {
        CommandError::failed(CommandCode::TokenMalformed, "`proxmox.token` is not an API token")
            .because(error)
    })?;
    Ok(Credentials::Token(token))
}

/// Error for a failed Proxmox call, with a hint about the cause.
pub(crate) fn unreachable(error: PveError) -> CommandError {
    let failed = CommandError::failed(StepCode::of_proxmox(&error), "cannot query Proxmox");
    let port = error.port().unwrap_or(USUAL_PORT);
    if let Some(distrust) = error.distrust() {
        let hint = match distrust {
            Distrust::Fingerprint => {
                "compare the fingerprint above, which differs from `proxmox.fingerprint`, with the SHA-256 fingerprint of \
                 pve-proxy-ssl.pem or pve-ssl.pem on the host (Certificates in the web interface): if they are equal, \
                 set `proxmox.fingerprint` to it; if not, another machine answers"
                    .to_owned()
            }
            Distrust::Authority => {
                let shown = error.untrusted_fingerprint();
                let shown = shown.map_or_else(|| "…".to_owned(), |shown| shown.to_string());
                format!(
                    "this machine does not trust the authority of the certificate. Compare the fingerprint above with the SHA-256 \
                     fingerprint of pve-proxy-ssl.pem or pve-ssl.pem on the host (Certificates in the web interface). If they are \
                     equal, pin the certificate in cluster.yaml with `proxmox: {{fingerprint: \"{shown}\"}}`; or set `ca_file: …` to \
                     its authority (/etc/pve/pve-root-ca.pem on a host)"
                )
            }
            Distrust::Time => {
                "the certificate has expired, or is not valid yet: check the clocks of both machines, then renew the \
                 certificate on the host (pvecm updatecerts --force, and restart pveproxy)"
                    .to_owned()
            }
            Distrust::Name => {
                "the certificate is for another name: use that name in `proxmox.endpoint`, with `reach:` if DNS does not \
                 resolve it, or pin the certificate with `fingerprint: …`"
                    .to_owned()
            }
            Distrust::NoTls => format!(
                "check the port {port} in `proxmox.endpoint`: Proxmox uses {USUAL_PORT} unless it was changed"
            ),
        };
        return failed.because(error).hint(hint);
    }
    let hint = match &error {
        error if error.is_auth() => {
            "Proxmox does not accept the token: check that `proxmox.token` is user@realm!name=secret, and that the token \
             exists and has not expired (pveum user token list USER). `talmox init --role` prints how to create one"
                .to_owned()
        }
        PveError::NotSent { source: NotSent::Resolve { .. }, .. } => {
            "check the name in `proxmox.endpoint`, or set its address with `reach: {NAME: ADDRESS}`"
                .to_owned()
        }
        PveError::NotSent { .. } => format!(
            "check `proxmox.endpoint`, and that the host is up and its port {port} is reachable from here"
        ),
        PveError::Rejected(_) => {
            "check the privileges of the token: `talmox init --role` prints those that it needs".to_owned()
        }
        _ => "run the same command again".to_owned(),
    };
    failed.because(error).hint(hint)
}
