//! Preflight check: the image factories and web servers have the images.

use std::collections::{BTreeMap, BTreeSet};

use talmox_values::url::shown_url;

use crate::desired::ImageSource;
use crate::observed::{Offer, SourceSeen, has_extension};
use crate::plan::{Finding, FindingCode};
use crate::planning::builder::Builder;
use crate::planning::needed_image::needed_images;

/// What the plan needs from an image factory.
#[derive(Debug, Default)]
struct FactoryDemand<'a> {
    extensions: BTreeSet<&'a str>,
    /// Whether a schematic must be posted to the factory. talmox itself posts the schematic, so it is not sufficient that a
    /// host can reach the factory.
    is_told: bool,
}

pub(super) fn check(builder: &Builder<'_>, findings: &mut Vec<Finding>) {
    let mut factories: BTreeMap<&str, FactoryDemand<'_>> = BTreeMap::new();
    let mut files = BTreeSet::new();
    for image in needed_images(builder.desired, &builder.observed.pve) {
        match &image.source {
            ImageSource::Factory { factory, schematic, extensions, .. } => {
                let desired = factories.entry(factory).or_default();
                desired.extensions.extend(extensions.iter().map(String::as_str));
                desired.is_told |= schematic.is_some();
            }
            ImageSource::Url => {
                files.insert(image.url.as_str());
            }
        }
    }
    for (address, desired) in factories {
        factory(builder, address, &desired, findings);
    }
    for url in files {
        file(builder, url, findings);
    }
}

fn factory(
    builder: &Builder<'_>,
    address: &str,
    desired: &FactoryDemand<'_>,
    findings: &mut Vec<Finding>,
) {
    let talos = builder.desired.talos_version.as_deref().unwrap_or_default();
    match builder.observed.sources.get(address) {
        None | Some(SourceSeen::Answers) => {}
        Some(SourceSeen::Unreachable(why)) if !desired.is_told => {
            findings.push(unreachable_from_here(address, why));
        }
        Some(SourceSeen::Unreachable(why) | SourceSeen::Fails(why)) => {
            let message = format!("the Image Factory cannot be queried: {why}");
            let hint = "check `image.factory`, and that this machine can reach it";
            findings
                .push(Finding::error(FindingCode::SourceUnreachable, address, message).hint(hint));
        }
        Some(SourceSeen::Offers(Offer::NoSuchVersion { similar })) => {
            let message = format!("the Image Factory has no Talos {talos}");
            let hint = match similar.as_slice() {
                [] => {
                    "correct `talos_version`; the page /versions of the factory lists all versions"
                        .to_owned()
                }
                similar => {
                    let few: Vec<&str> = similar.iter().rev().take(5).map(String::as_str).collect();
                    format!("correct `talos_version`; available: {}", few.join(", "))
                }
            };
            findings.push(
                Finding::error(FindingCode::FactoryVersionMissing, address, message).hint(hint),
            );
        }
        Some(SourceSeen::Offers(Offer::Extensions(known))) => {
            let unknown = desired.extensions.iter().filter(|name| !has_extension(known, name));
            findings.extend(unknown.map(|name| {
                let message =
                    format!("the Image Factory has no extension {name} for Talos {talos}");
                Finding::error(FindingCode::ExtensionMissing, address, message)
                    .hint(hint_for(name, known))
            }));
        }
    }
}

/// The warning about a server that this machine cannot reach. It is not an error, because the hosts may still reach the
/// server.
fn unreachable_from_here(address: &str, why: &str) -> Finding {
    let message = format!("this machine cannot reach it: {why}");
    let hint =
        "check that the hosts can reach it: they download the images, and nothing was verified";
    Finding::warning(FindingCode::SourceUnreachable, address, message).hint(hint)
}

/// Hint for an unknown extension, with the names of similar extensions that the factory has.
fn hint_for(name: &str, known: &BTreeSet<String>) -> String {
    let bare = name.rsplit('/').next().unwrap_or(name);
    let stem = bare.split('-').next().unwrap_or(bare);
    let is_similar = |one: &&String| {
        let one = one.rsplit('/').next().unwrap_or(one);
        one.contains(bare) || one.split('-').next() == Some(stem)
    };
    let similar: Vec<&str> = known.iter().filter(is_similar).take(5).map(String::as_str).collect();
    match similar.as_slice() {
        [] => "correct `image.extensions`".to_owned(),
        similar => format!("correct `image.extensions`; similar: {}", similar.join(", ")),
    }
}

fn file(builder: &Builder<'_>, url: &str, findings: &mut Vec<Finding>) {
    let seen = builder.observed.sources.get(url);
    let url = &shown_url(url);
    match seen {
        None | Some(SourceSeen::Answers | SourceSeen::Offers(_)) => {}
        Some(SourceSeen::Unreachable(why)) => findings.push(unreachable_from_here(url, why)),
        Some(SourceSeen::Fails(why)) => {
            let message = format!("the image cannot be downloaded: {why}");
            findings.push(
                Finding::error(FindingCode::ImageUnavailable, url, message)
                    .hint("correct `image: {url: …}`"),
            );
        }
    }
}
