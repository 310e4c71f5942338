//! Identification of the machine or server that answers at an address, before a request is sent to it.
//!
//! A Talos node uses the same port in two modes. A configured node requires a client certificate of the cluster's CA,
//! and presents a certificate of the same CA. A node in maintenance mode accepts any client, and presents a self-signed
//! certificate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime as TlsTime};
use rustls::{AlertDescription, CertificateError};
use talmox_talos_config::pki::Certificate;
use talmox_talos_config::time::UnixTime;
use talmox_values::Address;

use crate::channel::{Channel, Unanswered};
use crate::client::{Client, Settings};
use crate::credentials::Credentials;
use crate::dial::{DialError, Dialed, Failed};
use crate::error::{Call, TalosError};
use crate::machine::Machine;
use crate::pin::Pin;
use crate::tls::{self, SetupError};
use crate::trace::dialed;

macro_rules! hangs {
    () => {
        "look at its console, because it may hang, and check `mtu:`, because large packets may get lost"
    };
}

/// Hint for a node that accepts connections but does not answer.
pub const HANGS: &str = hangs!();

/// Machine or server that answers at an address.
#[derive(Debug)]
pub enum Verdict {
    /// No machine accepts connections.
    Nothing(DialError),
    /// The TCP connection is accepted, but no data follows. The node hangs or is starting.
    Mute(DialError),
    /// A server that is not a Talos node.
    NoNode(DialError),
    /// A node without a config.
    Maintenance(Box<Maintenance>),
    /// A node in maintenance mode whose key is not the pinned key.
    OtherKey { found: Option<Pin> },
    /// A node of this cluster.
    OwnNode,
    /// A node of this cluster whose certificate does not contain the address.
    OtherName { presented: Vec<String> },
    /// A node of another cluster.
    OtherAuthority,
    /// The certificate of the node or of the client has expired.
    Expired { whose: Whose, not_after: UnixTime },
    /// The clocks of the node and the client differ; by at least this time, if it is known.
    ClockSkew { at_least: Option<Duration> },
    /// A node of this cluster rejects the client certificate, for a reason other than its dates.
    RejectsClient(AlertDescription),
    /// The server accepts any client, but does not answer as a node in maintenance mode does.
    Unclear(TalosError),
}

/// Owner of a certificate: this client or the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Client,
    TheNode,
}

/// Node in maintenance mode.
#[derive(Debug)]
pub struct Maintenance {
    /// Pin of the key that the node uses now.
    pub pin: Option<Pin>,
    /// Identity that the node reports.
    pub machine: Machine,
    /// Client of the same node, with the key of the node pinned.
    pub client: Client,
}

/// Identifies the machine or server that answers at `node`. `pin` applies only to a node in maintenance mode.
pub async fn probe(
    node: &Address,
    credentials: &Credentials,
    pin: Option<Pin>,
    settings: &Settings,
) -> Result<Verdict, SetupError> {
    let tls = tls::mutual(credentials, settings.clock)?;
    let refusal = match dialed(settings.dialer(node.clone(), tls)).await {
        Ok(_) => return Ok(Verdict::OwnNode),
        Err(Failed { error: DialError::Certificate { source, .. }, .. }) => source,
        // A server that aborts before it presents a certificate is not a Talos node. A node presents its certificate
        // first.
        Err(Failed { error: DialError::Rejected { alert, .. }, leaf: Some(_) }) => {
            return Ok(rejected(alert, credentials, settings));
        }
        Err(Failed { error, .. }) => return Ok(no_data(error)),
    };
    // The client rejected the certificate of the server. A second attempt shows whether the server requires a client
    // certificate.
    let anonymous = tls::anonymous(None, settings.clock)?;
    match dialed(settings.dialer(node.clone(), anonymous)).await {
        Ok(dialed) => maintenance(node, dialed, pin, settings).await,
        Err(Failed { error: DialError::Rejected { .. }, leaf: Some(leaf) }) => {
            configured(&refusal, &leaf, node, credentials)
        }
        // The server accepts a client without a certificate, and waits for data. A Talos node would send data first.
        Err(Failed { error: error @ DialError::Silent { .. }, leaf: Some(_) }) => {
            Ok(Verdict::NoNode(error))
        }
        Err(Failed { error, .. }) => Ok(no_data(error)),
    }
}

/// Verdict for a connection attempt that failed before a Talos node sent data.
fn no_data(error: DialError) -> Verdict {
    match error {
        DialError::Resolve { .. } | DialError::Connect { .. } => Verdict::Nothing(error),
        DialError::Silent { .. } | DialError::HungUp { .. } => Verdict::Mute(error),
        _ => Verdict::NoNode(error),
    }
}

/// Time when the certificate of a node of this cluster expires; `None` if the certificate cannot be read.
pub async fn certificate_end(
    node: &Address,
    credentials: &Credentials,
    settings: &Settings,
) -> Result<Option<UnixTime>, TalosError> {
    let call = || Call { operation: "Connect", node: node.clone() };
    let tls = tls::mutual(credentials, settings.clock)
        .map_err(|error| TalosError::Unreadable { call: call(), what: error.to_string() })?;
    match dialed(settings.dialer(node.clone(), tls)).await {
        Ok(dialed) => {
            let leaf = dialed.leaf.and_then(|leaf| Certificate::from_der(leaf.to_vec()));
            Ok(leaf.map(|leaf| leaf.not_after))
        }
        Err(Failed { error, .. }) => {
            Err(TalosError::Unreachable { call: call(), source: Arc::new(error) })
        }
    }
}

async fn maintenance(
    node: &Address,
    dialed: Dialed,
    wanted: Option<Pin>,
    settings: &Settings,
) -> Result<Verdict, SetupError> {
    let found = dialed.leaf.as_ref().and_then(Pin::of);
    if wanted.is_some() && wanted != found {
        return Ok(Verdict::OtherKey { found });
    }
    let dialer = settings.dialer(node.clone(), tls::anonymous(found, settings.clock)?);
    let channel = match Channel::over(dialer, dialed.stream).await {
        Ok(channel) => channel,
        Err(error) => {
            let call = Call { operation: "Get", node: node.clone() };
            let status = tonic::Status::from_error(Box::new(Unanswered::Cut(error)));
            return Ok(Verdict::Unclear(TalosError::new(call, status)));
        }
    };
    let client = Client::with(channel, settings);
    Ok(match Machine::read(&client).await {
        Ok(machine) => Verdict::Maintenance(Box::new(Maintenance { pin: found, machine, client })),
        Err(error) => Verdict::Unclear(error),
    })
}

/// Verdict for a configured node whose certificate the client rejected.
fn configured(
    refusal: &rustls::Error,
    leaf: &CertificateDer<'_>,
    node: &Address,
    credentials: &Credentials,
) -> Result<Verdict, SetupError> {
    let rustls::Error::InvalidCertificate(refusal) = refusal else {
        return Ok(Verdict::OtherAuthority);
    };
    let (verdict, at) = match refusal {
        CertificateError::ExpiredContext { not_after, .. } => {
            let ended = unix_time(*not_after);
            (Verdict::Expired { whose: Whose::TheNode, not_after: ended }, not_after)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let ahead = not_before.as_secs().saturating_sub(time.as_secs());
            (Verdict::ClockSkew { at_least: Some(Duration::from_secs(ahead)) }, not_before)
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let presented = presented.iter().map(|name| bare(name).to_owned()).collect();
            return Ok(Verdict::OtherName { presented });
        }
        _ => return Ok(Verdict::OtherAuthority),
    };
    // rustls checks the dates before the CA. Therefore the CA is checked here, at a time when the certificate is valid.
    Ok(if is_of_this_cluster(leaf, *at, node, credentials)? {
        verdict
    } else {
        Verdict::OtherAuthority
    })
}

/// Text inside the parentheses of `DnsName("cp-1")` or `IpAddress(10.0.0.11)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn is_of_this_cluster(
    leaf: &CertificateDer<'_>,
    at: TlsTime,
    node: &Address,
    credentials: &Credentials,
) -> Result<bool, SetupError> {
    let Ok(name) = ServerName::try_from(node.host.clone()) else { return Ok(false) };
    let judged = tls::verifier(credentials)?.verify_server_cert(leaf, &[], &name, &[], at);
    Ok(matches!(
        judged,
        Ok(_)
            | Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
    ))
}

/// Verdict for a node that rejected the client certificate.
fn rejected(alert: AlertDescription, credentials: &Credentials, settings: &Settings) -> Verdict {
    let not_after = credentials.not_after();
    let now = unix_time(TlsTime::since_unix_epoch(settings.clock.since_epoch()));
    if not_after <= now {
        return Verdict::Expired { whose: Whose::Client, not_after };
    }
    match alert {
        AlertDescription::CertificateExpired => Verdict::ClockSkew { at_least: None },
        other => Verdict::RejectsClient(other),
    }
}

fn unix_time(time: TlsTime) -> UnixTime {
    UnixTime::from_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

impl Verdict {
    /// Hint for this verdict.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Nothing(_) => {
                "check that the machine runs, that the address is correct, and that port 50000 is \
                 reachable from here"
            }
            Self::Mute(_) => {
                concat!("wait, because the node may be starting; if it stays like this, ", hangs!())
            }
            Self::NoNode(_) => {
                "turn off the machine that uses the address, or give the node another `ip:`"
            }
            Self::Unclear(_) => {
                "wait, because the node may be starting; if it stays like this, look for another machine with this address"
            }
            Self::Maintenance(_) => "run `talmox up` to configure it",
            Self::OwnNode => "nothing to do",
            Self::OtherKey { .. } => "read the fingerprint from the node's console again",
            Self::OtherName { .. } => {
                "correct the `ip:` of the node, or add the address to `cert_sans`: the certificate of \
                 the node does not contain it"
            }
            Self::OtherAuthority => {
                "check the address, and that the secrets bundle is the one that the node was configured \
                 with"
            }
            Self::Expired { whose: Whose::Client, .. } => "correct the clock of this machine",
            Self::Expired { whose: Whose::TheNode, .. } => {
                "correct the clocks of both machines, then reboot the node, which renews its certificate"
            }
            Self::ClockSkew { .. } => {
                "correct the clocks, and give the node a time server that it can reach"
            }
            Self::RejectsClient(_) => {
                "restore the secrets bundle that the node was configured with: the node trusts another \
                 CA"
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(error) => write!(f, "nothing answers: {error}"),
            Self::Mute(error) => {
                write!(f, "a server that accepts connections but sends nothing: {error}")
            }
            Self::NoNode(error) => write!(f, "a server that is not a Talos node: {error}"),
            Self::Maintenance(_) => f.write_str("a node in maintenance mode"),
            Self::OtherKey { found: Some(pin) } => {
                write!(f, "a node in maintenance mode with another key: {pin}")
            }
            Self::OtherKey { found: None } => {
                f.write_str("a node in maintenance mode with another key")
            }
            Self::OwnNode => f.write_str("a node of this cluster"),
            Self::OtherName { presented } => {
                write!(f, "a node of this cluster whose certificate has other names: {}", presented.join(", "))
            }
            Self::OtherAuthority => f.write_str("a node of another cluster"),
            Self::Expired { whose: Whose::Client, not_after } => {
                write!(f, "the client certificate expired at {not_after}")
            }
            Self::Expired { whose: Whose::TheNode, not_after } => {
                write!(f, "the certificate of the node expired at {not_after}")
            }
            Self::ClockSkew { at_least: Some(time) } => {
                write!(f, "the clock of the node is at least {} s ahead", time.as_secs())
            }
            Self::ClockSkew { at_least: None } => {
                f.write_str("the client certificate is valid by the clock of this machine, but not by the clock of the node")
            }
            Self::RejectsClient(_) => {
                f.write_str("a node of this cluster that rejects the client certificate")
            }
            Self::Unclear(error) if error.may_pass() => {
                write!(f, "a node whose API is starting or restarting: {}", error.reason())
            }
            Self::Unclear(error) => write!(f, "a server that is not a Talos node: {error}"),
        }
    }
}
