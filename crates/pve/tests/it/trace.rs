//! Trace spans and events of a client's requests.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};

use talmox_pve::SecretText;
use talmox_pve::api::{cluster, pool};
use talmox_pve::client::{Client, Credentials, Endpoint, Settings, Trust};
use talmox_values::Address;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::server::{Server, data, json};

const VERSION: &str = r#"{"release":"9.0","version":"9.0.3"}"#;

/// Enables all callsites for the whole process. tracing caches for each callsite whether a subscriber is interested in
/// it. If a test without a subscriber reaches a callsite first, the callsite could otherwise stay disabled for the
/// tests below.
pub(crate) fn enable_callsites() {
    static ENABLED: Once = Once::new();
    ENABLED.call_once(|| tracing::subscriber::set_global_default(Registry::default()).unwrap());
}

/// Collector of ended spans and events, in text form.
#[derive(Clone, Default)]
struct TraceCollector(Arc<Mutex<Vec<(Level, String)>>>);

impl TraceCollector {
    /// Collects spans and events of this thread as long as the guard exists.
    fn listen() -> (Self, DefaultGuard) {
        let collector = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(collector.clone()));
        (collector, guard)
    }

    fn all(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?};", field.name()));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceCollector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text(String::new());
        attributes.record(&mut text);
        context.span(id).unwrap().extensions_mut().insert(text);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Text>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if event.metadata().target() == "talmox::pve" {
            self.0.lock().unwrap().push((*event.metadata().level(), text.0));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let Some(text) = span.extensions_mut().remove::<Text>() else { return };
        if span.metadata().target() == "talmox::pve" {
            self.0.lock().unwrap().push((*span.metadata().level(), text.0));
        }
    }
}

#[tokio::test]
async fn a_call_has_its_object_outcome_and_retries() {
    let (collector, _guard) = TraceCollector::listen();
    let server = Server::start(|request, _| {
        if request.line.starts_with("POST") {
            json("403 Permission check failed", "")
        } else {
            data(VERSION)
        }
    })
    .await;
    // No server listens on this port.
    let nowhere =
        Endpoint { reach: Some(Address::new("127.0.0.1", 1)), ..Endpoint::new("pve.test", 8006) };
    let endpoints = vec![nowhere, server.endpoint()];
    let client = Client::new(Settings { endpoints, ..server.settings() }).unwrap();

    client.send(&cluster::version()).await.unwrap();
    let collected = collector.all();
    assert_eq!(collected.len(), 2, "{collected:?}");
    assert_eq!(collected[0].0, Level::INFO);
    assert!(
        collected[0].1.contains("retry: not sent: cannot connect to 127.0.0.1:1: "),
        "{collected:?}"
    );
    let expected = "object=\"GET /version\";retries=1;outcome=200;";
    assert_eq!(collected[1], (Level::DEBUG, expected.to_owned()));

    let create = pool::create(&"talos".parse().unwrap(), Some("hunter2"));
    client.send(&create).await.unwrap_err();
    let collected = collector.all();
    let expected = "object=\"POST /pools\";outcome=403;outcome=403 Permission check failed;";
    assert_eq!(collected, [(Level::INFO, expected.to_owned())], "no parameter is part of it");
}

#[tokio::test]
async fn a_login_shows_neither_the_password_nor_the_ticket() {
    let (collector, _guard) = TraceCollector::listen();
    let server = Server::start(|request, _| {
        if request.line.starts_with("POST") {
            data(r#"{"ticket":"PVE:root@pam:hunter3","CSRFPreventionToken":"hunter4","username":"root@pam"}"#)
        } else {
            data(VERSION)
        }
    })
    .await;
    let credentials = Credentials::Password {
        username: "root@pam".to_owned(),
        password: SecretText::new("hunter2"),
    };
    let trust = Trust::Pinned([server.fingerprint].into());
    let client = Client::new(Settings { credentials, trust, ..server.settings() }).unwrap();
    client.send(&cluster::version()).await.unwrap();
    let collected = format!("{:?}", collector.all());
    assert!(
        collected.contains("POST /access/ticket") && collected.contains("GET /version"),
        "{collected}"
    );
    assert!(!collected.contains("hunter"), "{collected}");
}

#[tokio::test]
async fn a_dropped_call_ends_without_an_outcome() {
    let (collector, _guard) = TraceCollector::listen();
    let server = Server::start(|_, _| crate::server::Reaction::Hang).await;
    let client = server.client();
    let version = cluster::version();
    let waiting = client.send(&version);
    tokio::time::timeout(std::time::Duration::from_millis(300), waiting).await.unwrap_err();
    assert_eq!(collector.all(), [(Level::DEBUG, "object=\"GET /version\";".to_owned())]);
}
