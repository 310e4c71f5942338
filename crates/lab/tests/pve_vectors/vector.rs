//! Parser of vectors.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use talmox_lab::Scenario;
use talmox_lab::pve::Release;

pub(crate) const PASSWORD: &str = "only-for-vectors";
pub(crate) const SECRET: &str = "00000000-1111-4222-8333-444444444444";

#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) operation: String,
    setup: Json,
    pub(crate) steps: Vec<Step>,
    expect: Vec<Json>,
    expect_8: Option<Vec<Json>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) who: String,
    pub(crate) upload: Option<Json>,
}

impl Vector {
    /// Reads all vectors in a folder. The error is about the first vector that cannot be read.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Self>, String> {
        let listed = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let mut vectors = vec![];
        for path in paths {
            let is_json = path.extension().is_some_and(|extension| extension == "json");
            if !is_json || path.file_stem().is_some_and(|name| name == "index") {
                continue;
            }
            let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
            let text = fs::read_to_string(&path).map_err(|e| wrong(&e))?;
            let items: Vec<Json> = serde_json::from_str(&text).map_err(|e| wrong(&e))?;
            for item in &items {
                vectors.push(Self::read(item).ok_or_else(|| wrong(&item["id"]))?);
            }
        }
        Ok(vectors)
    }

    fn read(item: &Json) -> Option<Self> {
        let expect = item["expect"].as_array()?.clone();
        let expect_8 = match item["also"]["8.4"].as_str() {
            Some("same") => Some(expect.clone()),
            Some("differs") => Some(item["expect_8.4"].as_array()?.clone()),
            _ => None,
        };
        Some(Self {
            id: item["id"].as_str()?.to_owned(),
            operation: item["operation"].as_str()?.to_owned(),
            setup: item["setup"].clone(),
            steps: item["steps"].as_array()?.iter().map(Step::read).collect::<Option<_>>()?,
            expect,
            expect_8,
        })
    }

    /// Expected results for a release; `None` if the vector was not observed on it.
    pub(crate) fn expect(&self, release: Release) -> Option<&[Json]> {
        match release {
            Release::V9 => Some(&self.expect),
            Release::V8 => self.expect_8.as_deref(),
        }
    }

    /// Name of the initial state. Vectors that share an initial state have the same name.
    pub(crate) fn start(&self, release: Release) -> String {
        format!("{release} {}", self.setup)
    }

    /// Users and tokens that make calls, but do not exist in the setup. A vector starts after the login, so the lab gets them
    /// as users without privileges.
    fn unknown_callers(&self) -> BTreeSet<&str> {
        let access = &self.setup["access"];
        let users = access["users"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let tokens = access["tokens"].as_array().into_iter().flatten();
        let tokens = tokens.filter_map(|token| token["tokenid"].as_str());
        let known: BTreeSet<&str> = users.chain(tokens).collect();
        let callers = self.steps.iter().map(|step| step.who.as_str());
        callers.filter(|caller| !known.contains(caller)).collect()
    }

    /// Scenario of the vector, with a password for every user and a secret for every token.
    pub(crate) fn scenario(&self, release: Release) -> Result<Scenario, String> {
        let mut setup = self.setup.clone();
        let unknown_callers = self.unknown_callers();
        let access = &mut setup["access"];
        if let Some(users) = access["users"].as_array_mut() {
            users.extend(unknown_callers.iter().filter(|id| !id.contains('!')).map(|id| json!(id)));
            for user in users {
                *user = json!({"userid": user.clone(), "password": PASSWORD});
            }
        }
        if let Some(tokens) = access["tokens"].as_array_mut() {
            let unknown = unknown_callers.iter().filter(|id| id.contains('!'));
            tokens.extend(unknown.map(|id| json!({"tokenid": id, "privsep": 1})));
            for token in tokens {
                token["secret"] = json!(SECRET);
            }
        }
        if let Some(acl) = access["acl"].as_array_mut() {
            let is_unknown = |id: &Json| id.as_str().is_some_and(|id| unknown_callers.contains(id));
            acl.retain(|entry| !is_unknown(&entry["ugid"]));
        }
        let scenario = Scenario::parse(&self.id, &setup.to_string());
        scenario.map(|scenario| scenario.with_release(release)).map_err(|error| error.to_string())
    }

    pub(crate) fn nodes(&self) -> Vec<&str> {
        self.setup["nodes"].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
    }
}

impl Step {
    fn read(item: &Json) -> Option<Self> {
        let mut params = vec![];
        for (key, value) in item["params"].as_object()? {
            match value {
                // A list is sent as a key that occurs several times.
                Json::Array(values) => {
                    params.extend(values.iter().map(|value| (key.clone(), plain(value))));
                }
                value => params.push((key.clone(), plain(value))),
            }
        }
        Some(Self {
            method: item["method"].as_str()?.to_owned(),
            path: item["path"].as_str()?.to_owned(),
            params,
            who: item["as"].as_str()?.to_owned(),
            upload: item.get("upload").cloned(),
        })
    }

    /// Name of the host in the path of the step.
    pub(crate) fn node(&self) -> Option<&str> {
        self.path.strip_prefix("/nodes/")?.split('/').next()
    }

    pub(crate) fn only_reads(&self) -> bool {
        self.method == "GET"
    }
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
