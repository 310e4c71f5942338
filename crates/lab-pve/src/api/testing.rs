//! Test fixture that calls the handlers with verified parameters, as the request gate does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use talmox_clock::{Chance, Clock};
use talmox_lab_environment::{Environment, Profile};

use crate::blob::Blobs;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Caller, Host, PveState, User, Vm};
use crate::schema::{Endpoint, Method, Raw, find, verify};
use crate::site::Site;
use crate::{ApiError, Release};

/// Test site with two hosts and several users.
pub(crate) struct ApiTestBench {
    pub(crate) site: Arc<Site>,
    _folder: tempfile::TempDir,
}

impl ApiTestBench {
    pub(crate) fn new(release: Release) -> Self {
        let mut pve_state = PveState::new(release);
        pve_state.cluster_name = Some("lab".to_owned());
        for name in ["pve1", "pve2"] {
            pve_state.hosts.insert(name.to_owned(), host(name));
        }
        for name in ["root@pam", "ops@pve"] {
            let user = User { password: None, enabled: true, expires: 0, comment: None };
            pve_state.access.users.insert(name.to_owned(), user);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let blobs = Blobs::open(folder.path()).expect("blobs");
        let clock = Clock::scaled(1000.0);
        let environment = Arc::new(Environment::new(clock, Chance::new(7), Profile::Instant));
        let site = Arc::new(Site::new(pve_state, blobs, environment));
        Self { site, _folder: folder }
    }

    pub(crate) fn add_vm(&self, vmid: u32, node: &str, config: &[(&str, &str)]) {
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let vm = Vm { node: node.to_owned(), config: config.collect(), ..Vm::default() };
        self.site.pve_state().vms.insert(vmid, vm);
    }

    /// Checks the permissions and parameters of a call, and calls the handler. The host is the one in the path, or else `pve1`.
    pub(crate) fn call(
        &self,
        who: &str,
        method: Method,
        path: &str,
        sent: Json,
        answer: fn(&Endpoint, &Call) -> Outcome,
    ) -> Outcome {
        let release = self.site.pve_state().release;
        let (endpoint, of_path) = find(release, method, path).expect("a known path");
        let mut raw: BTreeMap<String, Raw> =
            of_path.into_iter().map(|(name, value)| (name, Raw::Text(value))).collect();
        if let Json::Object(sent) = sent {
            raw.extend(sent.into_iter().map(|(name, value)| (name, Raw::from(value))));
        }
        let caller = Caller::parse(who);
        self.site.pve_state().check_declared(&caller, &endpoint.permission, &raw)?;
        let node = raw.get("node").and_then(|node| node.scalar().ok());
        let node = node.filter(|_| path.starts_with("/nodes")).unwrap_or("pve1".to_owned());
        let params = verify(endpoint, &raw)?;
        let call = Call { site: Arc::clone(&self.site), caller, node, params, release };
        answer(endpoint, &call)
    }
}

pub(crate) fn host(name: &str) -> Host {
    Host {
        online: true,
        ip: format!("10.0.0.{}", name.len()),
        cores: 8,
        memory: 32 << 30,
        bridges: vec![],
        pci: vec![],
        booted: 0,
        settings: BTreeMap::new(),
    }
}

/// Data of a successful answer. A page becomes an object with `data` and `total`.
pub(crate) fn data(outcome: Outcome) -> Json {
    match outcome.expect("an answer") {
        Reply::Data(data) => data,
        Reply::Page { data, total } => json!({ "data": data, "total": total }),
    }
}

/// Error as one line: status, message, and the message of each invalid parameter.
pub(crate) fn error_line(outcome: Outcome) -> String {
    let ApiError { status, message, errors } = outcome.expect_err("an error");
    let errors: String = errors.iter().map(|(name, text)| format!(" [{name}: {text}]")).collect();
    format!("{status} {message}{errors}")
}
