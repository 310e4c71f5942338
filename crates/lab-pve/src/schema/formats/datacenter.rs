//! Formats of datacenter and storage options.

use super::super::format::{Fields, Format};
use super::super::property::{flag, formatted, integer, number, one_of, p, pattern, text};
use super::super::value_format::CIDR;
use super::{FormatName, Makers};
use crate::Release;

pub(super) const FORMATS: Makers = &[
    (FormatName::BandwidthLimit, bandwidth_limit),
    (FormatName::Crs, crs),
    (FormatName::Ha, ha),
    (FormatName::Migration, migration),
    (FormatName::NextId, next_id),
    (FormatName::Notify, notify),
    (FormatName::PruneBackups, prune_backups),
    (FormatName::TagStyle, tag_style),
    (FormatName::U2f, u2f),
    (FormatName::UserTagAccess, user_tag_access),
    (FormatName::WebAuthn, web_authn),
];

fn bandwidth_limit(release: Release) -> Format {
    let operations = ["clone", "default", "migration", "move", "restore"];
    Format::new(release, operations.map(|name| p(name, number().min(0))))
}

/// Cluster resource scheduling (`crs`): determines how HA chooses hosts.
fn crs(release: Release) -> Format {
    let auto = "ha-auto-rebalance";
    let tuning = || number().min(0).requires(auto).since(Release::V9);
    Format::new(
        release,
        [
            p("ha", one_of(["basic", "static"]).until(Release::V8)),
            p("ha", one_of(["basic", "static", "dynamic"]).since(Release::V9)),
            p(auto, flag().since(Release::V9)),
            p("ha-auto-rebalance-hold-duration", tuning()),
            p("ha-auto-rebalance-margin", tuning()),
            p(
                "ha-auto-rebalance-method",
                one_of(["bruteforce", "topsis"]).requires(auto).since(Release::V9),
            ),
            p("ha-auto-rebalance-threshold", tuning()),
            p("ha-rebalance-on-start", flag()),
        ],
    )
}

fn ha(release: Release) -> Format {
    let policies = one_of(["freeze", "failover", "conditional", "migrate"]);
    Format::new(release, [p("shutdown_policy", policies.required())])
}

/// Format of both `migration` and `replication`.
fn migration(release: Release) -> Format {
    let types = one_of(["secure", "insecure"]);
    Format::new(release, [p("type", types.default_key().required()), p("network", formatted(CIDR))])
}

/// Range of vmids for `/cluster/nextid`. Proxmox misspells the limits in its schema, so no limits apply.
fn next_id(release: Release) -> Format {
    Format::new(release, [p("lower", integer()), p("upper", integer())])
}

fn notify(release: Release) -> Format {
    let when = || one_of(["always", "never"]);
    Format::new(
        release,
        [
            p("fencing", when()),
            p("package-updates", one_of(["auto", "always", "never"])),
            p("replication", when()),
            p("target-fencing", text()),
            p("target-package-updates", text()),
            p("target-replication", text()),
        ],
    )
}

fn prune_backups(release: Release) -> Format {
    let keys =
        ["keep-daily", "keep-hourly", "keep-last", "keep-monthly", "keep-weekly", "keep-yearly"];
    let counts = keys.map(|key| p(key, integer().min(0)));
    Format::new(release, counts.into_iter().chain([p("keep-all", flag())]))
        .named("prune-backups")
        .with_check(|fields: &Fields, _| {
            let mut counts = fields.iter().filter(|(key, _)| *key != "keep-all");
            let some = counts.any(|(_, count)| count.parse().is_ok_and(|count: u64| count > 0));
            if some && fields.flag("keep-all") == Some(true) {
                return Err("keep-all cannot be set together with other options.".to_owned());
            }
            Ok(())
        })
}

fn tag_style(release: Release) -> Format {
    Format::new(
        release,
        [
            p("case-sensitive", flag()),
            p(
                "color-map",
                pattern(concat!(
                    r"(?:(?i:[a-z0-9_][a-z0-9_\-\+\.]*):[0-9a-fA-F]{6}(?::[0-9a-fA-F]{6})?)",
                    r"(?:;(?:(?i:[a-z0-9_][a-z0-9_\-\+\.]*):[0-9a-fA-F]{6}(?::[0-9a-fA-F]{6})?))*"
                )),
            ),
            p("ordering", one_of(["config", "alphabetical"])),
            p("shape", one_of(["full", "circle", "dense", "none"])),
        ],
    )
}

fn u2f(release: Release) -> Format {
    Format::new(release, [p("appid", text()), p("origin", text())])
}

fn user_tag_access(release: Release) -> Format {
    let tags = r"(?i:[a-z0-9_][a-z0-9_\-\+\.]*)(?:;(?i:[a-z0-9_][a-z0-9_\-\+\.]*))*";
    Format::new(
        release,
        [
            p("user-allow", one_of(["none", "list", "existing", "free"])),
            p("user-allow-list", pattern(tags)),
        ],
    )
}

fn web_authn(release: Release) -> Format {
    Format::new(
        release,
        [p("allow-subdomains", flag()), p("id", text()), p("origin", text()), p("rp", text())],
    )
}
