//! Error messages and hints for failed calls to a node.

use std::io;

use talmox_talos_api::probe::{HANGS, Whose};
use talmox_talos_api::{Code, DialError, TalosError, Verdict, probe};

use super::access::{Caller, Origin, Target};
use crate::command_code::CommandCode;
use crate::error::CommandError;

/// Hint for a connection that the node closes before it answers.
const RESTARTS: &str = "the node is switching from maintenance mode to its configured API, or it is booting or \
                        shutting down; retry in a few seconds";

impl Target {
    /// Converts the error of a call. If no connection was possible, the address is probed to find the cause.
    pub(super) async fn explain(&self, error: TalosError) -> CommandError {
        let TalosError::Unreachable { source, .. } = &error else {
            let hint = self.refusal_hint(&error);
            let failed =
                CommandError::failed(CommandCode::NodeFailed, self.name.clone()).because(error);
            return match hint {
                Some(hint) => failed.hint(hint),
                None => failed,
            };
        };
        let Caller::Known(credentials, origin) = &self.caller else {
            let hint = insecure_hint(source);
            return self.no_connection().because(CauseText(dial_text(source))).hint(hint);
        };
        match probe(self.client.node(), credentials, None, &self.settings).await {
            Ok(verdict) => {
                let hint = self.verdict_hint(&verdict, origin);
                self.no_connection().because(CauseText(verdict_text(&verdict, origin))).hint(hint)
            }
            Err(setup) => {
                CommandError::failed(CommandCode::SystemFailed, "cannot use TLS").because(setup)
            }
        }
    }

    fn no_connection(&self) -> CommandError {
        CommandError::failed(
            CommandCode::NodeUnreachable,
            format!("no connection to {}", self.title()),
        )
    }

    fn verdict_hint(&self, verdict: &Verdict, origin: &Origin) -> String {
        let host = &self.client.node().host;
        match verdict {
            Verdict::Nothing(error) | Verdict::Mute(error) => dial_hint(error),
            Verdict::Unclear(error) if error.may_pass() => RESTARTS.to_owned(),
            Verdict::NoNode(_) | Verdict::Unclear(_) => {
                "check the address: another machine, or another program, answers there".to_owned()
            }
            Verdict::Maintenance(_) | Verdict::OtherKey { .. } => format!(
                "it has no config yet: `talmox node apply FILE --insecure {host}` sends one, and the \
                 other commands take --insecure too; if it was sent one just now, retry in a few \
                 seconds"
            ),
            Verdict::OwnNode => "the node answers again: run the same command again".to_owned(),
            Verdict::OtherName { .. } => format!(
                "its certificate does not include {host}: use one of these addresses, or add {host} \
                 to `cert_sans`"
            ),
            Verdict::OtherAuthority => match origin {
                Origin::Bundle => "either the address belongs to another cluster, or \
                                   secrets.sops.yaml has other secrets than the node"
                    .to_owned(),
                Origin::Talosconfig { file, context } => format!(
                    "context `{context}` of {file} is for another cluster than this node: choose \
                     another context with --context, or another file"
                ),
            },
            Verdict::RejectsClient(_) => match origin {
                Origin::Bundle => verdict.advice().to_owned(),
                Origin::Talosconfig { file, context } => format!(
                    "the node does not trust the client certificate of context `{context}` in \
                     {file}: choose another context with --context, or create a new talosconfig \
                     with `talmox talosconfig`"
                ),
            },
            Verdict::Expired { whose: Whose::Client, .. } => match origin {
                Origin::Bundle => "the certificate was issued just now: correct the clock of this \
                                   machine"
                    .to_owned(),
                Origin::Talosconfig { file, .. } => format!(
                    "create a new talosconfig in place of {file}: `talmox talosconfig` does so from \
                     the cluster's secrets"
                ),
            },
            Verdict::Expired { whose: Whose::TheNode, .. } => {
                "a node renews its certificate every 12 hours: correct the clock of this machine or \
                 of the node, or reboot the node if it was suspended"
                    .to_owned()
            }
            Verdict::ClockSkew { .. } => {
                "correct the clocks: the node needs an NTP server that it can reach, and starts with \
                 the clock of its host"
                    .to_owned()
            }
        }
    }

    /// Hint for a call that the node rejected or did not answer.
    fn refusal_hint(&self, error: &TalosError) -> Option<String> {
        match error {
            TalosError::Lost { call, .. } => Some(self.lost_hint(call.is_read())),
            TalosError::Late { call } => Some(late_hint(call.is_read()).to_owned()),
            TalosError::NotYet { .. } => Some(format!(
                "the node is still starting, or busy: {} shows its services; retry in a few seconds",
                self.command("services", "")
            )),
            TalosError::No { code, message, .. } => self.code_hint(*code, message),
            _ => None,
        }
    }

    fn lost_hint(&self, is_read: bool) -> String {
        if is_read {
            return "the node may be rebooting, or switching from maintenance mode to its \
                    configured API; retry in a few seconds"
                .to_owned();
        }
        match self.caller {
            // A node with Talos 1.13 may close the connection when it leaves maintenance mode.
            Caller::Anonymous => format!(
                "the node may have accepted the config and be switching from maintenance mode to \
                 its configured API: run `talmox node services {}` in a few seconds, without \
                 --insecure, before you send it again",
                self.name
            ),
            Caller::Known(..) => {
                "the node may be rebooting: check its state before you retry".to_owned()
            }
        }
    }

    fn code_hint(&self, code: Code, message: &str) -> Option<String> {
        let hint = match code {
            // Talos rejects an unknown resource type with the same code as a missing permission.
            Code::PermissionDenied if message.contains("is not supported") => {
                return Some(format!(
                    "its version of Talos does not have this kind; {} lists those it has",
                    self.command("get", "resourcedefinitions")
                ));
            }
            Code::PermissionDenied => match &self.caller {
                Caller::Anonymous => "a node in maintenance mode rejects this for every caller",
                Caller::Known(_, Origin::Bundle) => "add --admin to ask with the admin role",
                Caller::Known(_, Origin::Talosconfig { file, context }) => {
                    return Some(format!(
                        "the role of the talosconfig is not enough: context `{context}` of {file}"
                    ));
                }
            },
            Code::Unimplemented => match self.caller {
                Caller::Anonymous => {
                    "a node in maintenance mode does not support this up to Talos 1.12"
                }
                Caller::Known(..) => "this version of Talos does not support it",
            },
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

fn late_hint(is_read: bool) -> &'static str {
    if is_read {
        "the node is slow, or a service on it hangs: retry, or check its console"
    } else {
        "the node is slow, or a service on it hangs: check its state before you retry"
    }
}

/// Text of a probe verdict, with the cause.
fn verdict_text(verdict: &Verdict, origin: &Origin) -> String {
    match verdict {
        Verdict::Nothing(error) => format!("nothing answers: {}", dial_text(error)),
        Verdict::Mute(error @ DialError::Silent { .. }) => {
            format!("it accepts connections and does not answer: {error}")
        }
        Verdict::Mute(error) => dial_text(error),
        Verdict::NoNode(error) => format!("it is not a Talos node: {}", dial_text(error)),
        Verdict::RejectsClient(_) => match origin {
            Origin::Bundle => {
                "the node rejects the certificate issued from the secrets bundle".to_owned()
            }
            Origin::Talosconfig { file, context } => {
                format!("the node rejects the client certificate of context `{context}` in {file}")
            }
        },
        Verdict::Expired { whose: Whose::Client, not_after } => match origin {
            Origin::Bundle => format!("the client certificate expired at {not_after}"),
            Origin::Talosconfig { file, context } => format!(
                "the client certificate of context `{context}` in {file} expired at {not_after}"
            ),
        },
        other => other.to_string(),
    }
}

/// Text of a connection error, without the error number of the operating system.
fn dial_text(error: &DialError) -> String {
    let DialError::Connect { source, .. } = error else { return chain(error) };
    // An error that talmox created, such as for an address outside of a lab, is more specific than its kind.
    if source.get_ref().is_some() {
        return chain(error);
    }
    let why = match source.kind() {
        io::ErrorKind::ConnectionRefused => "the port is closed",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::HostUnreachable => "no machine with this address answers",
        io::ErrorKind::NetworkUnreachable => "there is no route to this network",
        _ => return chain(error),
    };
    format!("{error}: {why}")
}

fn dial_hint(error: &DialError) -> String {
    match error {
        DialError::HungUp { .. } | DialError::Rejected { .. } => RESTARTS.to_owned(),
        DialError::Connect { .. } if error.is_restart() => {
            "a machine is there and port 50000 is closed: Talos is still booting (retry in a few \
             seconds), or the address belongs to another machine"
                .to_owned()
        }
        DialError::Resolve { .. } => "pass the address of the node instead of its name".to_owned(),
        DialError::Tls { .. } => {
            "check the address: a program other than Talos answers there".to_owned()
        }
        DialError::Silent { .. } => {
            format!("the node may be booting: retry in a few seconds; if this persists, {HANGS}")
        }
        _ => "check that the machine is on, that the address is right, and that port 50000 is \
              reachable from here; if the node is reached through another address, set it under \
              `reach:`"
            .to_owned(),
    }
}

/// Hint for a call without credentials that could not connect.
fn insecure_hint(error: &DialError) -> String {
    match error {
        DialError::Rejected { .. } if error.is_restart() => RESTARTS.to_owned(),
        DialError::Rejected { .. } => {
            "the node has a config already: omit --insecure".to_owned()
        }
        DialError::OtherKey { .. } => {
            "either this is another machine, or it was rebooted since the fingerprint was read: read \
             the fingerprint from its console again"
                .to_owned()
        }
        other => dial_hint(other),
    }
}

/// Cause of an error as text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CauseText(String);

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use talmox_talos_api::node_address;

    use super::*;

    #[test]
    fn a_closed_port_and_a_silent_host_have_different_hints() {
        let connect = |kind: io::ErrorKind| DialError::Connect {
            target: node_address("10.0.0.11"),
            source: kind.into(),
        };
        let rejected = connect(io::ErrorKind::ConnectionRefused);
        assert_eq!(dial_text(&rejected), "cannot connect to 10.0.0.11:50000: the port is closed");
        assert!(dial_hint(&rejected).contains("still booting"));
        let silent = connect(io::ErrorKind::TimedOut);
        assert!(dial_text(&silent).ends_with("no answer in time"));
        assert!(dial_hint(&silent).contains("the machine is on"));
    }

    #[test]
    fn the_hint_recommends_a_retry_only_for_reads() {
        assert!(late_hint(true).contains("retry, or check its console"));
        assert!(late_hint(false).contains("check its state before you retry"));
    }
}
