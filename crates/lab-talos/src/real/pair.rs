//! One object on both sides, as it was when they were last the same.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use talmox_lab_kube::object::{text, uid};

use super::difference::difference;

#[derive(Clone, Debug)]
pub(super) struct Pair {
    uid: String,
    /// The revision there.
    theirs: String,
    ours: Arc<Value>,
}

impl Pair {
    pub(super) fn new(theirs: &Value, ours: Arc<Value>) -> Self {
        Self { uid: uid(theirs).to_owned(), theirs: revision(theirs).to_owned(), ours }
    }

    /// Whether this is the object, and not another of the same name.
    pub(super) fn is_of(&self, theirs: &Value) -> bool {
        self.uid == uid(theirs)
    }

    /// Nothing has happened to it there.
    pub(super) fn is_same(&self, theirs: &Value) -> bool {
        self.theirs == revision(theirs)
    }

    /// What changed here has been told; what changed there has not been seen here.
    pub(super) fn with(&self, ours: Arc<Value>) -> Self {
        Self { ours, ..self.clone() }
    }

    /// What is wanted otherwise here than it was, as a patch.
    pub(super) fn wishes(&self, ours: &Value) -> Option<Value> {
        difference(&wish(&self.ours), &wish(ours))
    }

    /// What is said about the object here that was not, as a patch of its status.
    pub(super) fn news(known: Option<&Self>, ours: &Value) -> Option<Value> {
        let before = known.map_or(&Value::Null, |known| &known.ours["status"]);
        let mut news = difference(before, &ours["status"])?;
        if let Some(news) = news.as_object_mut() {
            // Which the API server knows best.
            news.shift_remove("qosClass");
        }
        Some(news)
    }
}

fn revision(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// All but what the system says about an object.
fn wish(object: &Value) -> Value {
    let all = object.as_object().into_iter().flatten();
    let wanted = all
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    let mut wish: Map<String, Value> =
        wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = &object["metadata"];
    wish.insert(
        "metadata".to_owned(),
        json!({"labels": metadata["labels"], "annotations": metadata["annotations"]}),
    );
    Value::Object(wish)
}
