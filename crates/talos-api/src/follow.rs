//! Following what was begun to its end: a reboot, an upgrade, a reset, a shutdown.
//!
//! Events that bear the actor's id tell how it goes, until the machine hangs up. A cut connection
//! proves nothing: only another boot id does, and before anything is begun is the last chance to
//! read the old one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::client::{Actor, Client, Event, Payload, Settings, Since};
use crate::credentials::Credentials;
use crate::error::TalosError;
use crate::machine::Expected;
use crate::probe::{Maintenance, Verdict, probe};
use crate::proto::machine::machine_status_event::MachineStage;
use crate::proto::machine::{MachineStatusEvent, phase_event, sequence_event};
use crate::tls::SetupError;
use crate::wait::{self, Look, Wait, WaitError};

/// After so much silence the machine is asked, whatever its events say or do not say.
const SILENCE: Duration = Duration::from_secs(15);

/// Why something did not come to the end that was waited for.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The machine says itself that it failed.
    #[error("{sequence} failed: {error}")]
    Failed { sequence: String, error: String },
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// Somebody else answers where the machine was.
    #[error("another machine is in maintenance mode there: {why}")]
    OtherMachine { why: String },
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl From<TalosError> for FollowError {
    fn from(error: TalosError) -> Self {
        Self::Wait(error.into())
    }
}

/// A machine that is about to be restarted.
#[derive(Clone, Debug)]
pub struct Follow {
    client: Client,
    /// Of the boot that is to end.
    boot_id: String,
    wait: Wait,
}

/// How listening ended.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// What was listened for.
    It,
    /// The connection was cut, or there was none.
    Cut(String),
    /// Nothing for a while.
    Silence,
}

impl Follow {
    /// Reads which boot this is. To be called before the reboot, upgrade or reset.
    pub async fn prepare(client: &Client, wait: Wait) -> Result<Self, TalosError> {
        Ok(Self { client: client.clone(), boot_id: client.boot_id().await?, wait })
    }

    /// Waits until the machine runs and is ready, in another boot. `tell` hears how it goes.
    pub async fn to_running(
        &self,
        actor: &Actor,
        mut tell: impl FnMut(&str),
    ) -> Result<(), FollowError> {
        let client = &self.client;
        loop {
            self.leave(actor, &mut tell).await?;
            let boot_id = async || client.boot_id().await.map(Look::Done);
            if self.wait.until(boot_id, &mut tell).await? != self.boot_id {
                break;
            }
            // Only the connection was lost, and the story goes on.
        }
        self.come_up(&mut tell).await
    }

    /// Waits until the machine is in maintenance mode: where a reset of `STATE` leads.
    pub async fn to_maintenance(
        &self,
        actor: &Actor,
        (credentials, settings): (&Credentials, &Settings),
        expected: &Expected,
        mut tell: impl FnMut(&str),
    ) -> Result<Box<Maintenance>, FollowError> {
        self.leave(actor, &mut tell).await?;
        let look = async || {
            Ok(match probe(self.client.node(), credentials, None, settings).await {
                Ok(Verdict::Maintenance(found)) => Look::Done(Ok(found)),
                Ok(other) => Look::NotYet(other.to_string()),
                Err(error) => Look::Done(Err(error)),
            })
        };
        let found = self.wait.until(look, &mut tell).await??;
        match found.machine.mismatch(expected) {
            None => Ok(found),
            Some(why) => Err(FollowError::OtherMachine { why }),
        }
    }

    /// Waits until the machine has hung up. Whether it is off, only its Proxmox knows.
    pub async fn to_silence(
        &self,
        actor: &Actor,
        mut tell: impl FnMut(&str),
    ) -> Result<(), FollowError> {
        self.leave(actor, &mut tell).await
    }

    /// Listens until the machine does not answer any more, or is in another boot already.
    async fn leave(&self, actor: &Actor, tell: &mut impl FnMut(&str)) -> Result<(), FollowError> {
        // Each time all that the machine remembers is told again.
        let mut known = BTreeSet::new();
        loop {
            let mut failed = None;
            let heard = self
                .listen(Some(actor), |event| {
                    if !known.insert(event.id.clone()) {
                        return ControlFlow::Continue(());
                    }
                    failed = failure(event, actor);
                    if failed.is_some() {
                        return ControlFlow::Break(());
                    }
                    if let Some(text) = describe(&event.payload) {
                        tell(&text);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
            if let Some(failure) = failed {
                return Err(failure);
            }
            match self.client.boot_id().await {
                Ok(id) if id == self.boot_id => {}
                Ok(_) => return Ok(()),
                Err(error) if error.may_pass() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.wait.deadline.has_passed() {
                let reason = match heard {
                    Heard::Cut(why) => why,
                    _ => "the machine has not restarted".to_owned(),
                };
                return Err(WaitError::Late { reason }.into());
            }
            self.pause().await;
        }
    }

    /// Listens until the machine is up.
    async fn come_up(&self, tell: &mut impl FnMut(&str)) -> Result<(), FollowError> {
        loop {
            let heard = self
                .listen(None, |event| {
                    if let Some(text) = describe(&event.payload) {
                        tell(&text);
                    }
                    match &event.payload {
                        Payload::Machine(status) if is_ready(status) => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                })
                .await?;
            if heard == Heard::It {
                return Ok(());
            }
            // What was said before we came is not always said again.
            let reason = match wait::machine_ready(&self.client).await {
                Ok(Look::Done(())) => return Ok(()),
                Ok(Look::NotYet(reason)) => reason,
                Err(error) if error.may_pass() => error.reason(),
                Err(error) => return Err(error.into()),
            };
            if self.wait.deadline.has_passed() {
                return Err(WaitError::Late { reason }.into());
            }
            self.pause().await;
        }
    }

    /// Hears all that the machine remembers and then what it says, until `hear` has enough.
    async fn listen(
        &self,
        actor: Option<&Actor>,
        mut hear: impl FnMut(&Event) -> ControlFlow<()>,
    ) -> Result<Heard, FollowError> {
        let cut = |error: TalosError| {
            if error.may_pass() { Ok(Heard::Cut(error.reason())) } else { Err(error.into()) }
        };
        let mut events = match self.client.events(&Since::TheBeginning, actor).await {
            Ok(events) => events,
            Err(error) => return cut(error),
        };
        loop {
            if self.wait.deadline.has_passed() {
                return Ok(Heard::Silence);
            }
            let patience = SILENCE.min(self.wait.deadline.left()).max(self.wait.pause);
            match self.wait.clock.timeout(patience, events.next()).await {
                Err(_) => return Ok(Heard::Silence),
                Ok(Err(error)) => return cut(error),
                Ok(Ok(None)) => return Ok(Heard::Cut("the events have ended".to_owned())),
                Ok(Ok(Some(event))) => {
                    if hear(&event).is_break() {
                        return Ok(Heard::It);
                    }
                }
            }
        }
    }

    async fn pause(&self) {
        self.wait.clock.sleep(self.wait.pause.min(self.wait.deadline.left())).await;
    }
}

/// What the machine says went wrong with what this actor does. Of others it may say what it likes.
fn failure(event: &Event, actor: &Actor) -> Option<FollowError> {
    match &event.payload {
        Payload::Sequence(sequence) if event.actor == *actor => {
            let error = sequence.error.as_ref()?.message.clone();
            Some(FollowError::Failed { sequence: sequence.sequence.clone(), error })
        }
        _ => None,
    }
}

fn is_ready(status: &MachineStatusEvent) -> bool {
    status.stage() == MachineStage::Running && status.status.as_ref().is_some_and(|one| one.ready)
}

/// What is worth telling, in few words.
fn describe(payload: &Payload) -> Option<String> {
    match payload {
        Payload::Sequence(event) if event.action() == sequence_event::Action::Start => {
            Some(format!("{} begins", event.sequence))
        }
        Payload::Phase(event) if event.action() == phase_event::Action::Start => {
            Some(format!("phase {}", event.phase))
        }
        Payload::Machine(event) => {
            let stage = event.stage().as_str_name().to_lowercase().replace('_', " ");
            let unmet = event.status.iter().flat_map(|status| &status.unmet_conditions);
            let unmet: Vec<String> =
                unmet.map(|one| format!("{}: {}", one.name, one.reason)).collect();
            let colon = if unmet.is_empty() { "" } else { ": " };
            Some(format!("the machine is {stage}{colon}{}", unmet.join(", ")))
        }
        _ => None,
    }
}
