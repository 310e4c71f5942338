//! Client for the Proxmox API of an inventory or of a lab.

use std::collections::BTreeSet;

use talmox_clock::Clock;
use talmox_engine::step::StepCode;
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
    let (endpoints, trust, credentials) = match lab {
        Some(lab) => lab_access(lab)?,
        None => real_access(chosen, printer)?,
    };
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
        CommandError::failed(CommandCode::ProxmoxClientFailed, "cannot speak to Proxmox")
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

/// URL of the Proxmox API in the inventory or of the lab.
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
        CommandError::failed(CommandCode::LabFailed, "the lab has no address of its Proxmox")
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
            CommandError::failed(
                CommandCode::LabFailed,
                "the lab has no API token that can be used",
            )
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
            "the inventory does not say where Proxmox is",
        )
        .hint("add `proxmox: {endpoint: https://HOST:8006}`, or rehearse with --lab"));
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
             `talmox init --role` prints how to make the token",
        ));
    };
    let reference = Reference { setting: Name::Cluster("proxmox.token"), secret: token };
    let token: ApiToken = resolver.resolve(reference)?.expose().parse().map_err(|error| {
        CommandError::failed(CommandCode::TokenMalformed, "`proxmox.token` is no API token")
            .because(error)
    })?;
    Ok(Credentials::Token(token))
}

/// Error of a failed Proxmox call, with a hint for its cause.
pub(crate) fn unreachable(error: PveError) -> CommandError {
    let failed = CommandError::failed(StepCode::of_proxmox(&error), "cannot look at Proxmox");
    let port = error.port().unwrap_or(USUAL_PORT);
    if let Some(distrust) = error.distrust() {
        let hint = match distrust {
            Distrust::Fingerprint => {
                "`proxmox.fingerprint` pins another one. Compare the fingerprint above with the SHA-256 fingerprint that \
                 pve-proxy-ssl.pem or pve-ssl.pem has on the host (Certificates in the web interface): if it is the same, \
                 put it into `proxmox.fingerprint`; if not, another machine answers"
                    .to_owned()
            }
            Distrust::Authority => {
                "this machine does not know the authority of its certificate: pin it with `proxmox: {fingerprint: …}` \
                 (`talmox init` shows it), or name its authority with `ca_file: …` (/etc/pve/pve-root-ca.pem on a host)"
                    .to_owned()
            }
            Distrust::Time => {
                "its certificate is over, or not valid yet: look at the clocks of both machines, then renew it on the \
                 host (pvecm updatecerts --force, and restart pveproxy)"
                    .to_owned()
            }
            Distrust::Name => {
                "its certificate is for another name: use that one in `proxmox.endpoint`, with `reach:` if it leads \
                 nowhere, or pin the certificate with `fingerprint: …`"
                    .to_owned()
            }
            Distrust::NoTls => format!(
                "is {port} the port of Proxmox? Correct it in `proxmox.endpoint`; it is {USUAL_PORT} unless it was changed"
            ),
        };
        return failed.because(error).hint(hint);
    }
    let hint = match &error {
        error if error.is_auth() => {
            "Proxmox does not know the token, or not this secret of it: is `proxmox.token` user@realm!name=secret, and \
             is the token there and not over (pveum user token list USER)? `talmox init --role` prints how to make one"
                .to_owned()
        }
        PveError::NotSent { source: NotSent::Resolve { .. }, .. } => {
            "is the name in `proxmox.endpoint` right? `reach: {NAME: ADDRESS}` says where a name leads"
                .to_owned()
        }
        PveError::NotSent { .. } => format!(
            "is `proxmox.endpoint` right, is the host up, and is there a way to its port {port} from here?"
        ),
        PveError::Rejected(_) => {
            "may the token look? `talmox init --role` prints what it needs".to_owned()
        }
        _ => "try again".to_owned(),
    };
    failed.because(error).hint(hint)
}
