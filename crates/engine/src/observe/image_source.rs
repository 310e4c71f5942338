//! Whether the places answer that images come from. Asked only for what is to be made.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::time::Duration;

use talmox_plan::desired::{Desired, ImageSource};
use talmox_plan::observed::{Pve, SourceSeen};
use talmox_plan::planning::needed_images;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::factory;
use crate::web::{Web, WebError};

/// A plan does not wait for longer. Of sockets, hence in real time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks each factory once, and for each file whether it is there.
pub(super) async fn look(desired: &Desired, pve: &Pve, web: &Web) -> BTreeMap<String, SourceSeen> {
    let talos = desired.talos_version.clone().unwrap_or_default();
    let mut asked = BTreeSet::new();
    let mut looks = JoinSet::new();
    for image in needed_images(desired, pve) {
        let (web, talos) = (web.clone(), talos.clone());
        match &image.source {
            ImageSource::Factory { factory, .. } if asked.insert(factory.clone()) => {
                let factory = factory.clone();
                looks.spawn(async move {
                    let asking = factory::offer(&web, &factory, &talos);
                    let seen = timeout(PATIENCE, asking).await;
                    let seen = seen.map(|told| told.map(SourceSeen::Offers));
                    (factory, seen)
                });
            }
            ImageSource::Url if asked.insert(image.url.clone()) => {
                let url = image.url.clone();
                looks.spawn(async move {
                    let seen = timeout(PATIENCE, web.length(&url)).await;
                    (url, seen.map(|told| told.map(|_| SourceSeen::Answers)))
                });
            }
            _ => {}
        }
    }
    let mut seen = BTreeMap::new();
    for (place, told) in looks.join_all().await {
        let told = match told {
            Ok(Ok(told)) => told,
            Ok(Err(error)) => failed(&error),
            Err(_) => SourceSeen::Unreachable("it does not answer in time".to_owned()),
        };
        seen.insert(place, told);
    }
    seen
}

fn failed(error: &WebError) -> SourceSeen {
    let text = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    match error {
        WebError::Connect { .. } => SourceSeen::Unreachable(text),
        _ => SourceSeen::Fails(text),
    }
}
