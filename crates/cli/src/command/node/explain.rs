//! What is wrong when a node does not do what it was asked, and what to do about it.

use talmox_talos_api::probe::Whose;
use talmox_talos_api::{Code, DialError, TalosError, Verdict, probe};

use super::access::{Origin, Target, Who};
use crate::error::CommandError;

impl Target {
    /// Turns a failure into words. Where there was no connection, looks once more at what is there.
    pub(super) async fn explain(&self, error: TalosError) -> CommandError {
        let TalosError::Unreachable { source, .. } = &error else {
            let hint = refusal_hint(&error, &self.who);
            let failed = CommandError::failed(self.name.clone()).because(error);
            return match hint {
                Some(hint) => failed.hint(hint),
                None => failed,
            };
        };
        let Who::Known(credentials, origin) = &self.who else {
            let hint = insecure_hint(source);
            return self.no_connection().because(Said(chain(source))).hint(hint);
        };
        match probe(self.client.node(), credentials, None, &self.settings).await {
            Ok(verdict) => {
                let hint = self.verdict_hint(&verdict, *origin);
                self.no_connection().because(Said(verdict_text(&verdict))).hint(hint)
            }
            Err(setup) => CommandError::failed("cannot use TLS").because(setup),
        }
    }

    fn no_connection(&self) -> CommandError {
        CommandError::failed(format!("no connection to {}", self.title()))
    }

    fn verdict_hint(&self, verdict: &Verdict, origin: Origin) -> String {
        let host = &self.client.node().host;
        match verdict {
            Verdict::Nothing(error) => nothing_hint(error),
            Verdict::Mute(_) | Verdict::NoNode(_) | Verdict::RefusesUs(_) | Verdict::Unclear(_) => {
                verdict.advice().to_owned()
            }
            Verdict::Maintenance(_) | Verdict::OtherKey { .. } => format!(
                "it has no config yet: `talmox node apply FILE --insecure {host}` gives it one; the \
                 other commands take --insecure too"
            ),
            Verdict::Ours => "it was away for a moment; try again".to_owned(),
            Verdict::OtherName { .. } => format!(
                "its certificate does not bear {host}: name the node by an address that it bears, \
                 or add {host} to `cert_sans`"
            ),
            Verdict::OtherAuthority => match origin {
                Origin::Bundle => "either the address is another cluster's, or secrets.sops.yaml \
                                   holds other secrets than those that the node was given"
                    .to_owned(),
                Origin::Talosconfig => {
                    "the talosconfig is another cluster's; --context chooses among its contexts"
                        .to_owned()
                }
            },
            Verdict::Expired { whose: Whose::Ours, .. } => match origin {
                Origin::Bundle => "our certificate was made just now: correct the clock of this \
                                   machine"
                    .to_owned(),
                Origin::Talosconfig => "`talmox talosconfig` makes a new one from the cluster's \
                                        secrets"
                    .to_owned(),
            },
            Verdict::Expired { whose: Whose::TheNode, .. } => {
                "a node renews its certificate every half day: either the clock here is wrong, or \
                 the node's is, or it was suspended; a reboot makes it a new one"
                    .to_owned()
            }
            Verdict::ClockSkew { .. } => {
                "correct the clocks: the node needs an NTP server that it can reach, and its host's \
                 clock is what it starts with"
                    .to_owned()
            }
        }
    }
}

/// The verdict, with the cause that it keeps to itself.
fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Nothing(error) => format!("nothing answers: {}", chain(error)),
        Verdict::NoNode(error) => format!("something that is no Talos node: {}", chain(error)),
        other => other.to_string(),
    }
}

fn nothing_hint(error: &DialError) -> String {
    match error {
        DialError::Resolve { .. } => "name the node by its address".to_owned(),
        DialError::Tls { .. } => "something else than Talos listens there".to_owned(),
        DialError::Silent { .. } => {
            "it takes connections and says nothing: it is about to come up, or it hangs; its console \
             tells"
                .to_owned()
        }
        _ => {
            "is the machine on, is the address right, and is port 50000 open from here? If the way \
              leads over another address, say so under `reach:`"
                .to_owned()
        }
    }
}

/// We came as nobody, and were not let in.
fn insecure_hint(error: &DialError) -> String {
    match error {
        DialError::Refused { .. } => {
            "the node has a config already: leave --insecure away".to_owned()
        }
        DialError::OtherKey { .. } => {
            "either this is another machine, or it was rebooted since the \
                                       fingerprint was read: look at its console again"
                .to_owned()
        }
        other => nothing_hint(other),
    }
}

fn refusal_hint(error: &TalosError, who: &Who) -> Option<&'static str> {
    if let TalosError::Lost { call, .. } = error {
        return Some(if call.is_read() {
            "did the node reboot? Ask again when it is back"
        } else {
            "did the node reboot? Look at what became of it before you ask again"
        });
    }
    if let TalosError::Late { call } = error {
        return Some(if call.is_read() {
            "the node is slow, or something in it hangs: ask again, or look at its console"
        } else {
            "the node is slow, or something in it hangs: look at what became of it before you ask again"
        });
    }
    match (error, error.code()?) {
        // A kind that it does not have is refused as one that is for others.
        (TalosError::No { message, .. }, Code::PermissionDenied)
            if message.contains("is not supported") =>
        {
            Some("its version of Talos has none; `talmox node get NODE rd` lists the kinds it has")
        }
        (_, Code::PermissionDenied) => Some(match who {
            Who::Anybody => "in maintenance mode this is for nobody",
            Who::Known(_, Origin::Bundle) => "--admin asks with all rights",
            Who::Known(_, Origin::Talosconfig) => "the role of the talosconfig is not enough",
        }),
        (_, Code::Unimplemented) => Some(match who {
            Who::Anybody => "up to Talos 1.12 a node in maintenance mode does not know this",
            Who::Known(..) => "this version of Talos does not know it",
        }),
        (TalosError::NotYet { .. }, _) => Some("try again in a moment"),
        _ => None,
    }
}

/// A cause that is words already.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);

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
    use talmox_talos_api::{Address, Call};

    use super::*;

    #[test]
    fn what_to_do_without_an_answer_depends_on_what_was_asked() {
        let hint = |operation| {
            let call = Call { operation, node: Address::new("10.0.0.11") };
            refusal_hint(&TalosError::Late { call }, &Who::Anybody).unwrap()
        };
        assert!(hint("ServiceList").contains("ask again, or look at its console"));
        assert!(hint("ApplyConfiguration").contains("look at what became of it before"));
    }
}
