//! Faults on order: which calls and tasks go wrong, when, and how.
//!
//! A rule looks at every call, or at every task if it names a kind of task, or at every request to the
//! Image Factory if it names a path there, and counts those that it fits. From the `nth` on, `times` times, it acts. The counters are all the state there is, so the
//! same calls meet the same faults again.

mod script;
mod trouble;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use regex_lite::Regex;
pub(crate) use trouble::Trouble;

use super::site::Site;

/// One rule.
#[derive(Clone, Debug)]
pub struct Fault {
    pub when: When,
    /// The first fitting call or task that it acts on, counted from 1.
    pub nth: u64,
    /// How many of them, `None` for all that follow.
    pub times: Option<u64>,
    pub action: Action,
}

/// What a rule fits. What is not said fits everything.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: Option<String>,
    pub path: Option<PathPattern>,
    /// A kind of task, such as `qmcreate`: the rule is about tasks then, and not about calls.
    pub task: Option<String>,
    pub vmid: Option<u32>,
    pub host: Option<String>,
    /// A path of the Image Factory: the rule is about requests there, and not about calls.
    pub factory: Option<PathPattern>,
}

/// A path below `/api2/json`.
#[derive(Clone, Debug)]
pub enum PathPattern {
    /// `/nodes/{node}/qemu/*/config`: braces and `*` are one part, `**` at the end is all the rest.
    Parts(Vec<String>),
    /// What begins with `^` is a regular expression.
    Regex(Regex),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is refused, and nothing is done.
    Refuse { status: u16, message: String },
    /// The call or task takes this much longer.
    Delay(Duration),
    /// The connection breaks before anything is done.
    CutBefore,
    /// The connection breaks after all is done.
    CutAfter,
    /// All is done, but another host's answer came too late: 596.
    TimedOut,
    /// The task fails after so many percent of its first wait; at 100 when all is done.
    Fail { percent: u8, message: String },
    /// Nothing more fits on this storage.
    Full { storage: String },
    /// The lock file of the VM cannot be had.
    LostLock,
    /// A host is switched off, for some time or for good.
    Down { host: String, lasts: Option<Duration> },
    /// An API token is taken away.
    Revoke { token: String },
    /// The factory's answer breaks off after so many percent of it.
    Truncate { percent: u8 },
}

/// The rules of a running lab.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<Rule>>);

#[derive(Debug)]
struct Rule {
    fault: Fault,
    /// How many fitted so far.
    seen: u64,
}

/// A call, a task, or a request to the factory, as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) task: Option<&'a str>,
    pub(crate) vmid: Option<u32>,
    pub(crate) host: &'a str,
    pub(crate) factory: Option<&'a str>,
}

impl Fault {
    /// Acts once, on the first that fits.
    pub fn new(when: When, action: Action) -> Self {
        Self { when, nth: 1, times: Some(1), action }
    }
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('^') {
            return Regex::new(text).map(Self::Regex).map_err(|error| error.to_string());
        }
        let parts: Vec<String> =
            text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        match parts.iter().position(|part| part == "**") {
            Some(at) if at + 1 < parts.len() => Err("`**` is only known at the end".to_owned()),
            _ => Ok(Self::Parts(parts)),
        }
    }

    fn fits(&self, path: &str) -> bool {
        let wanted = match self {
            Self::Regex(regex) => return regex.is_match(path),
            Self::Parts(parts) => parts,
        };
        let mut given = path.split('/').filter(|part| !part.is_empty());
        for part in wanted {
            if part == "**" {
                return true;
            }
            let Some(given) = given.next() else { return false };
            let is_any = part == "*" || (part.starts_with('{') && part.ends_with('}'));
            if !is_any && part != given {
                return false;
            }
        }
        given.next().is_none()
    }
}

impl When {
    fn fits(&self, sight: &Sight<'_>) -> bool {
        let same = |wanted: &Option<String>, given: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(given))
        };
        let right_kind = match (&self.task, sight.task) {
            (None, None) => true,
            (Some(wanted), Some(given)) => wanted == "*" || wanted == given,
            _ => false,
        };
        let right_place = match (&self.factory, sight.factory) {
            (None, None) => true,
            (Some(wanted), Some(given)) => wanted.fits(given),
            _ => false,
        };
        right_kind
            && right_place
            && same(&self.method, sight.method)
            && same(&self.host, sight.host)
            && self.path.as_ref().is_none_or(|path| path.fits(sight.path))
            && (self.vmid.is_none() || self.vmid == sight.vmid)
    }
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        self.rules().push(Rule { fault, seen: 0 });
    }

    pub fn clear(&self) {
        self.rules().clear();
    }

    /// What happens to this call or task, in the order of the rules.
    pub(crate) fn strike(&self, sight: &Sight<'_>) -> Vec<Action> {
        let mut actions = vec![];
        for rule in self.rules().iter_mut() {
            let Fault { when, nth, times, action } = &rule.fault;
            if !when.fits(sight) {
                continue;
            }
            rule.seen += 1;
            let acted = rule.seen.saturating_sub((*nth).max(1));
            if rule.seen >= *nth && times.is_none_or(|times| acted < times) {
                actions.push(action.clone());
            }
        }
        actions
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Action {
    /// Changes the world, where that is what the fault does.
    pub(crate) fn befall(&self, site: &Arc<Site>) {
        match self {
            Self::Full { storage } => {
                if let Some(storage) = site.world().storages.get_mut(storage) {
                    storage.full = true;
                }
            }
            Self::Revoke { token } => {
                site.world().access.tokens.remove(token);
            }
            Self::Down { host, lasts } => {
                site.switch_off_host(host);
                if let Some(lasts) = *lasts {
                    let (site, host) = (Arc::clone(site), host.clone());
                    tokio::spawn(async move {
                        site.clock.sleep(lasts).await;
                        let now = site.now();
                        if let Some(host) = site.world().hosts.get_mut(&host) {
                            host.online = true;
                            host.booted = now;
                        }
                    });
                }
            }
            _ => {}
        }
    }
}

/// What a call is told that waited for a VM's lock file in vain.
pub(crate) fn lock_timeout(vmid: Option<u32>) -> String {
    let vmid = vmid.map_or_else(|| "0".to_owned(), |vmid| vmid.to_string());
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
}
