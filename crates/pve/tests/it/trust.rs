use std::collections::BTreeSet;
use std::error::Error as _;

use talmox_pve::api::cluster;
use talmox_pve::client::{Client, Settings, Trust};
use talmox_pve::error::{Distrust, NotSent, PveError};
use talmox_pve::fingerprint::Fingerprint;

use crate::server::{Server, data, self_signed};

async fn server() -> Server {
    Server::start(|_, _| data(r#"{"version":"9.1.6","release":"9.1"}"#)).await
}

async fn ask(server: &Server, trust: Trust) -> Result<cluster::Version, PveError> {
    let client = Client::new(Settings { trust, ..server.settings() }).unwrap();
    client.send(&cluster::version()).await
}

#[tokio::test]
async fn the_pinned_server_is_trusted_and_no_other() {
    let server = server().await;
    let other = Fingerprint([7; 32]);
    let version = ask(&server, Trust::Pinned([other, server.fingerprint].into())).await.unwrap();
    assert_eq!(version.major(), Some(9));

    let error = ask(&server, Trust::Pinned([other].into())).await.unwrap_err();
    let PveError::NotSent { source: NotSent::NotPinned { shown, port, .. }, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*shown, server.fingerprint);
    assert_eq!(error.port(), Some(*port));
    assert_eq!(error.distrust(), Some(Distrust::Fingerprint));
    assert!(!error.is_unanswered(), "another server answers");
    assert_eq!(error.to_string(), "GET /version was not sent");
    let reason = error.source().unwrap().to_string();
    assert!(reason.starts_with("127.0.0.1:"), "{reason}");
    let collected = format!("fingerprint {}, which is not the pinned one", server.fingerprint);
    assert!(reason.ends_with(&collected), "{reason}");
    assert_eq!(server.lines().len(), 1, "nothing was sent to the untrusted server");
}

#[tokio::test]
async fn certificates_of_a_given_ca_are_trusted() {
    let server = server().await;
    assert!(ask(&server, Trust::Authorities(server.pem.clone().into_bytes())).await.is_ok());
    let (other, _) = self_signed("pve.test");
    let error = ask(&server, Trust::Authorities(other.to_pem().into_bytes())).await.unwrap_err();
    assert_eq!(error.untrusted_fingerprint(), Some(server.fingerprint), "{error:?}");
    assert_eq!(error.distrust(), Some(Distrust::Authority));
    assert!(!error.is_unanswered(), "a server answers");
    let reason = error.source().unwrap();
    let shown = format!("whose certificate has the fingerprint {}", server.fingerprint);
    assert!(reason.to_string().ends_with(&shown), "{reason}");
    let cause = reason.source().unwrap().to_string();
    assert!(cause.starts_with("invalid peer certificate: "), "{cause}");
    assert_eq!(server.lines().len(), 1, "nothing was sent to the untrusted server");
}

#[tokio::test]
async fn an_empty_trust_is_an_error_and_insecure_is_explicit() {
    let server = server().await;
    let client = |trust| Client::new(Settings { trust, ..server.settings() });
    assert!(client(Trust::Pinned(BTreeSet::new())).is_err());
    assert!(!client(Trust::Pinned([server.fingerprint].into())).unwrap().is_insecure());
    let insecure = client(Trust::Insecure).unwrap();
    assert!(insecure.is_insecure());
    assert!(insecure.send(&cluster::version()).await.is_ok());
}
