//! The client: one node, asked directly. Calls stand in the modules, by what they are about.

mod answers;
mod cluster;
mod config;
mod cosi;
mod etcd;
mod events;
mod files;
mod power;
mod status;
mod upgrade;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_net::Reach;
use talmox_values::Address;
use tonic::{Response, Status};

use crate::channel::Channel;
use crate::credentials::Credentials;
use crate::dial::Dialer;
use crate::error::{Call, TalosError};
use crate::pin::Pin;
use crate::proto::cluster::cluster_service_client::ClusterServiceClient;
use crate::proto::cosi::resource::state_client::StateClient;
use crate::proto::machine::image_service_client::ImageServiceClient;
use crate::proto::machine::lifecycle_service_client::LifecycleServiceClient;
use crate::proto::machine::machine_service_client::MachineServiceClient;
use crate::proto::storage::storage_service_client::StorageServiceClient;
use crate::tls::{self, SetupError};
use crate::trace::traced;

pub use answers::Answers;
pub use cluster::HealthProgress;
pub use config::{Applied, Apply, ApplyMode, ClientConfiguration};
pub use cosi::{Change, Resource, ResourceKind, Watch};
pub use etcd::{Alarm, Member, MemberStatus, SnapshotCheck, SnapshotError, check_snapshot};
pub use events::{Event, EventStream, Payload, Since};
pub use files::{Bytes, CopyError, LogSource};
pub use power::{Actor, RebootMode, Reset, Wipe};
pub use status::{Health, Service, Version};
pub use upgrade::{Install, LegacyUpgrade, Pull, PullStep, Step};

/// The biggest message that Talos sends or takes.
const MESSAGE: usize = 32 << 20;

/// However fast the clock runs, an answer gets this long: bytes cross a real network.
const LEAST: Duration = Duration::from_secs(5);

/// The limit of calls that etcd itself must answer, in real time. While etcd is down, Talos answers none of them: its etcd
/// client waits for a connection until the caller gives up.
const ETCD: Duration = Duration::from_secs(3);

/// What all clients have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    pub clock: Clock,
    pub reach: Reach,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For each step of connecting, in real time.
    pub connect: Duration,
    /// For an answer, or for the next piece of one, in the clock's time. No connection is waited for longer, either.
    pub answer: Duration,
    /// The same for calls that pull, install or copy before they answer.
    pub work: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_mins(1),
            work: Duration::from_mins(15),
        }
    }
}

/// A client of one node. Clones share its connection, which is opened when it is first needed.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    clock: Clock,
    limit: Duration,
    /// The lower bound of every limit, in real time.
    least: Duration,
    work: Duration,
}

impl Client {
    /// Of a configured node.
    pub fn new(
        node: Address,
        credentials: &Credentials,
        settings: &Settings,
    ) -> Result<Self, SetupError> {
        let tls = tls::mutual(credentials, settings.clock)?;
        Ok(Self::with(Channel::new(settings.dialer(node, tls)), settings))
    }

    /// Of a node in maintenance mode, which knows nobody and whom nobody knows: without a pin,
    /// whoever answers is spoken to.
    pub fn maintenance(
        node: Address,
        pin: Option<Pin>,
        settings: &Settings,
    ) -> Result<Self, SetupError> {
        let tls = tls::anonymous(pin, settings.clock)?;
        Ok(Self::with(Channel::new(settings.dialer(node, tls)), settings))
    }

    pub(crate) fn with(channel: Channel, settings: &Settings) -> Self {
        let Limits { answer, work, .. } = settings.limits;
        Self { channel, clock: settings.clock, limit: answer, least: LEAST, work }
    }

    /// The same client, with another limit for each answer.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { limit, work: limit, ..self.clone() }
    }

    /// The same client, with the limit for calls that take long.
    fn at_work(&self) -> Self {
        Self { limit: self.work, ..self.clone() }
    }

    /// The same client, with the limit for calls that etcd itself must answer.
    fn of_etcd(&self) -> Self {
        Self { limit: ETCD, least: ETCD, ..self.clone() }
    }

    pub fn node(&self) -> &Address {
        self.channel.address()
    }

    fn call(&self, operation: &'static str) -> Call {
        Call { operation, node: self.node().clone() }
    }

    async fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, TalosError> {
        self.ask_about(operation, "", answer).await
    }

    /// The same, with a word for traces about what is asked for.
    async fn ask_about<T>(
        &self,
        operation: &'static str,
        detail: &str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, TalosError> {
        traced(&self.call(operation), detail, self.answer(operation, answer)).await
    }

    /// Waits for an answer, as long as it may take. That time begins once there is a connection; if there is none for as
    /// long, nothing was asked.
    async fn answer<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, TalosError> {
        let call = || self.call(operation);
        let failed = |status| Err(TalosError::new(call(), status));
        // Both are boxed: futures of calls are inside of many others, and would make all of those large.
        let opened = self.clock.timeout(self.patience(), Box::pin(self.channel.open()));
        match opened.await {
            Ok(Ok(())) => {}
            Ok(Err(unanswered)) => return failed(Status::from_error(Box::new(unanswered))),
            Err(_) => {
                let source = Arc::new(self.channel.unopened());
                return Err(TalosError::Unreachable { call: call(), source });
            }
        }
        match self.clock.timeout(self.patience(), Box::pin(answer)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => failed(status),
            Err(_) => Err(TalosError::Late { call: call() }),
        }
    }

    /// The one message of an answer: a node that is asked directly sends one.
    async fn ask_one<T, M>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
        messages: impl FnOnce(T) -> Vec<M>,
    ) -> Result<M, TalosError> {
        let answer = self.ask(operation, answer).await?;
        messages(answer).into_iter().next().ok_or_else(|| TalosError::Unreadable {
            call: self.call(operation),
            what: "the answer is empty".to_owned(),
        })
    }

    fn patience(&self) -> Duration {
        self.limit.max(self.least.mul_f64(self.clock.speed()))
    }

    fn machine(&self) -> MachineServiceClient<Channel> {
        MachineServiceClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE)
    }

    fn lifecycle(&self) -> LifecycleServiceClient<Channel> {
        LifecycleServiceClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
    }

    fn image(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
    }

    fn storage(&self) -> StorageServiceClient<Channel> {
        StorageServiceClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
    }

    fn cluster(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
    }

    fn state(&self) -> StateClient<Channel> {
        StateClient::with_origin(self.channel.clone(), self.channel.origin())
            .max_decoding_message_size(MESSAGE)
    }
}

impl Settings {
    pub fn new(clock: Clock) -> Self {
        Self { clock, reach: Reach::default(), limits: Limits::default() }
    }

    pub(crate) fn dialer(&self, node: Address, tls: rustls::ClientConfig) -> Dialer {
        Dialer::new(node, &self.reach, tls, self.limits.connect)
    }
}
