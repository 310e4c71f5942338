//! Client of one node, which is contacted directly. The submodules contain the API calls, grouped by subject.

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

/// Maximum size of a message of the Talos API.
const MESSAGE: usize = 32 << 20;

/// Minimum timeout of an answer in real time. It also applies if the clock is faster, because the network is real.
const LEAST: Duration = Duration::from_secs(5);

/// Timeout of calls that etcd itself must answer, in real time. While etcd is down, Talos answers none of these calls:
/// the etcd client of Talos waits for a connection until the deadline of the caller.
const ETCD: Duration = Duration::from_secs(3);

/// Settings that all clients share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub clock: Clock,
    pub reach: Reach,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Timeout of each step of connecting, in real time.
    pub connect: Duration,
    /// Timeout of an answer, or of the next message of an answer, in the time of the clock. It also limits connecting.
    pub answer: Duration,
    /// Timeout of calls that pull, install or copy something before they answer.
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

/// Client of one node. Clones share one connection, which is opened at the first call.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    clock: Clock,
    limit: Duration,
    /// Minimum of every timeout, in real time.
    least: Duration,
    work: Duration,
}

impl Client {
    /// Creates a client of a configured node.
    pub fn new(
        node: Address,
        credentials: &Credentials,
        settings: &Settings,
    ) -> Result<Self, SetupError> {
        let tls = tls::mutual(credentials, settings.clock)?;
        Ok(Self::with(Channel::new(settings.dialer(node, tls)), settings))
    }

    /// Creates a client of a node in maintenance mode. Neither side authenticates the other: without a pin, the client
    /// sends requests to any machine that answers.
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

    /// The same client with another timeout for each answer.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { limit, work: limit, ..self.clone() }
    }

    /// The same client with the timeout of long calls.
    fn at_work(&self) -> Self {
        Self { limit: self.work, ..self.clone() }
    }

    /// The same client with the timeout of calls that etcd must answer.
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

    /// Performs a call. `detail` is for the trace.
    async fn ask_about<T>(
        &self,
        operation: &'static str,
        detail: &str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, TalosError> {
        traced(&self.call(operation), detail, self.answer(operation, answer)).await
    }

    /// Waits for an answer until the timeout. The timeout starts when the connection is open. If no connection is open
    /// within the same time, the error says that the request was not sent.
    async fn answer<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, TalosError> {
        let call = || self.call(operation);
        let failed = |status| Err(TalosError::new(call(), status));
        // Boxed, because this future is part of many other futures, which would become large.
        let opened = self.clock.timeout(self.timeout(), Box::pin(self.channel.open()));
        match opened.await {
            Ok(Ok(())) => {}
            Ok(Err(unanswered)) => return failed(Status::from_error(Box::new(unanswered))),
            Err(_) => {
                let source = Arc::new(self.channel.unopened());
                return Err(TalosError::Unreachable { call: call(), source });
            }
        }
        match self.clock.timeout(self.timeout(), Box::pin(answer)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => failed(status),
            Err(_) => Err(TalosError::Late { call: call() }),
        }
    }

    /// Performs a call and returns the single message of the answer. A node that is contacted directly sends one
    /// message.
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

    fn timeout(&self) -> Duration {
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
