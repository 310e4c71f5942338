//! Checks whether the sources of images answer. Requests are sent only to the sources of images that the plan needs.

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

/// Timeout of each source, in real time, also in a lab.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Queries each factory for the Talos version, and checks for each other source that the file exists.
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
                    let seen = timeout(TIMEOUT, asking).await;
                    let seen = seen.map(|offer| offer.map(SourceSeen::Offers));
                    (factory, seen)
                });
            }
            ImageSource::Url if asked.insert(image.url.clone()) => {
                let url = image.url.clone();
                looks.spawn(async move {
                    let seen = timeout(TIMEOUT, web.length(&url)).await;
                    (url, seen.map(|length| length.map(|_| SourceSeen::Answers)))
                });
            }
            _ => {}
        }
    }
    let mut seen = BTreeMap::new();
    for (place, answer) in looks.join_all().await {
        let state = match answer {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => failed(&error),
            Err(_) => SourceSeen::Unreachable("it does not answer in time".to_owned()),
        };
        seen.insert(place, state);
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
