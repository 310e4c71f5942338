//! What is at an address: found out before anything is asked of it.
//!
//! A node has two faces on one port. Configured, it wants a certificate of its cluster's authority
//! and shows one; in maintenance mode it takes anybody and shows a certificate of its own making.

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
        "it hangs (its console tells), or large packets get lost on the way (`mtu:`)"
    };
}

/// What may be with a node that takes connections and does not answer.
pub const HANGS: &str = hangs!();

/// What is there.
#[derive(Debug)]
pub enum Verdict {
    /// There is no way to anybody.
    Nothing(DialError),
    /// Somebody takes the connection, and then says nothing: a node that hangs, or is about to come up.
    Mute(DialError),
    /// Somebody who does not speak as a node does.
    NoNode(DialError),
    /// A node without a config.
    Maintenance(Box<Maintenance>),
    /// In maintenance mode, but with another key than the one that was pinned.
    OtherKey { found: Option<Pin> },
    /// A node of our cluster.
    Ours,
    /// A node of our cluster, by another name: the address is not in its certificate.
    OtherName { presented: Vec<String> },
    /// A node of somebody else's cluster.
    OtherAuthority,
    /// A certificate has ended.
    Expired { whose: Whose, not_after: UnixTime },
    /// Its clock and ours differ; by at least so much, where that can be told.
    ClockSkew { at_least: Option<Duration> },
    /// A node of our cluster that does not accept our certificate, for whatever reason.
    RefusesUs(AlertDescription),
    /// It takes anybody, and does not answer as a node in maintenance mode does.
    Unclear(TalosError),
}

/// Whose certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    TheNode,
}

/// A node in maintenance mode.
#[derive(Debug)]
pub struct Maintenance {
    /// Of the key that it has now.
    pub pin: Option<Pin>,
    /// What it says of itself.
    pub machine: Machine,
    /// Speaks to the same node, and to no other: with its key pinned.
    pub client: Client,
}

/// Finds out what is at `node`. `pin` is for maintenance mode alone.
pub async fn probe(
    node: &Address,
    credentials: &Credentials,
    pin: Option<Pin>,
    settings: &Settings,
) -> Result<Verdict, SetupError> {
    let tls = tls::mutual(credentials, settings.clock)?;
    let refusal = match dialed(settings.dialer(node.clone(), tls)).await {
        Ok(_) => return Ok(Verdict::Ours),
        Err(Failed { error: DialError::Certificate { source, .. }, .. }) => source,
        // Who breaks off before showing a certificate is no node: those do so after it.
        Err(Failed { error: DialError::Refused { alert, .. }, leaf: Some(_) }) => {
            return Ok(refused(alert, credentials, settings));
        }
        Err(Failed { error, .. }) => return Ok(unheard(error)),
    };
    // Its certificate is not good enough for us. Does it want one at all?
    let anonymous = tls::anonymous(None, settings.clock)?;
    match dialed(settings.dialer(node.clone(), anonymous)).await {
        Ok(dialed) => maintenance(node, dialed, pin, settings).await,
        Err(Failed { error: DialError::Refused { .. }, leaf: Some(leaf) }) => {
            configured(&refusal, &leaf, node, credentials)
        }
        // It takes anybody, with a certificate that is not ours, and waits to be spoken to. A node
        // would speak first.
        Err(Failed { error: error @ DialError::Silent { .. }, leaf: Some(_) }) => {
            Ok(Verdict::NoNode(error))
        }
        Err(Failed { error, .. }) => Ok(unheard(error)),
    }
}

/// There was no word of a node.
fn unheard(error: DialError) -> Verdict {
    match error {
        DialError::Resolve { .. } | DialError::Connect { .. } => Verdict::Nothing(error),
        DialError::Silent { .. } | DialError::HungUp { .. } => Verdict::Mute(error),
        _ => Verdict::NoNode(error),
    }
}

/// When the certificate ends that a node of our cluster shows; nothing if it cannot be read.
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

/// It is configured, and we did not accept its certificate.
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
            let ended = our_time(*not_after);
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
    // The dates are looked at first: whose it is must still be asked, at a time when it is valid.
    Ok(if is_ours(leaf, *at, node, credentials)? { verdict } else { Verdict::OtherAuthority })
}

/// The name itself: it comes as `DnsName("cp-1")` or `IpAddress(10.0.0.11)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}

fn is_ours(
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

/// We accepted its certificate, and it did not accept ours.
fn refused(alert: AlertDescription, credentials: &Credentials, settings: &Settings) -> Verdict {
    let not_after = credentials.not_after();
    let now = our_time(TlsTime::since_unix_epoch(settings.clock.since_epoch()));
    if not_after <= now {
        return Verdict::Expired { whose: Whose::Ours, not_after };
    }
    match alert {
        AlertDescription::CertificateExpired => Verdict::ClockSkew { at_least: None },
        other => Verdict::RefusesUs(other),
    }
}

fn our_time(time: TlsTime) -> UnixTime {
    UnixTime::from_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

impl Verdict {
    /// What can be done about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Nothing(_) => {
                "see that the machine is on, that the address is right, and that port 50000 can be \
                 reached from here"
            }
            Self::Mute(_) => {
                concat!("it may be about to come up; if it stays so, ", hangs!())
            }
            Self::NoNode(_) => {
                "another machine has the address: turn it off, or give the node another `ip:`"
            }
            Self::Unclear(_) => {
                "it may be about to come up; if it stays so, another machine has the address"
            }
            Self::Maintenance(_) => "it has no config yet: `talmox up` gives it one",
            Self::Ours => "there is nothing to be done",
            Self::OtherKey { .. } => "read its fingerprint from its console again",
            Self::OtherName { .. } => {
                "its certificate does not bear this address: correct the `ip:` of the node, or add \
                 the address to `cert_sans`"
            }
            Self::OtherAuthority => {
                "either the address is another cluster's, or the secrets here are not those that \
                 the node was given"
            }
            Self::Expired { whose: Whose::Ours, .. } => "correct the clock of this machine",
            Self::Expired { whose: Whose::TheNode, .. } => {
                "correct the clocks, here and there; a reboot of the node makes it a new one"
            }
            Self::ClockSkew { .. } => {
                "correct the clocks: the node needs a time server that it can reach"
            }
            Self::RefusesUs(_) => {
                "the node trusts another authority than the secrets here have: restore the secrets \
                 that it was given"
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(error) => write!(f, "nothing answers: {error}"),
            Self::Mute(error) => {
                write!(f, "something that takes connections and says nothing: {error}")
            }
            Self::NoNode(error) => write!(f, "something that is no Talos node: {error}"),
            Self::Maintenance(_) => f.write_str("a node in maintenance mode"),
            Self::OtherKey { found: Some(pin) } => {
                write!(f, "a node in maintenance mode with another key: {pin}")
            }
            Self::OtherKey { found: None } => {
                f.write_str("a node in maintenance mode with another key")
            }
            Self::Ours => f.write_str("a node of this cluster"),
            Self::OtherName { presented } => {
                write!(f, "a node of this cluster by other names: {}", presented.join(", "))
            }
            Self::OtherAuthority => f.write_str("a node of another cluster"),
            Self::Expired { whose: Whose::Ours, not_after } => {
                write!(f, "our certificate ended at {not_after}")
            }
            Self::Expired { whose: Whose::TheNode, not_after } => {
                write!(f, "the certificate of the node ended at {not_after}")
            }
            Self::ClockSkew { at_least: Some(time) } => {
                write!(f, "the clock of the node is at least {} s ahead", time.as_secs())
            }
            Self::ClockSkew { at_least: None } => {
                f.write_str("our certificate is valid by our clock, and not by the node's")
            }
            Self::RefusesUs(_) => {
                f.write_str("a node of this cluster that refuses our certificate")
            }
            Self::Unclear(error) if error.may_pass() => {
                write!(f, "a node whose API is starting or restarting: {}", error.reason())
            }
            Self::Unclear(error) => write!(f, "something that is not a Talos node: {error}"),
        }
    }
}
