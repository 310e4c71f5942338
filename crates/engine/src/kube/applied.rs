//! Whether manifests are in the cluster already.

use serde_json::Value;

use super::manifest::Manifest;
use super::{KubeClient, KubeError};

impl KubeClient {
    /// Whether every one of them is there, and says what it should. What others added does not
    /// matter.
    pub async fn has(&self, manifests: &[Manifest]) -> Result<bool, KubeError> {
        for manifest in manifests {
            let found = match self.read(manifest).await {
                Ok(Some(found)) => found,
                Ok(None) | Err(KubeError::UnknownKind { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            if !covers(&found, &manifest.object) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            // The API turns this into `data` and forgets it.
            key == "stringData" || covers(found.get(key).unwrap_or(&Value::Null), wanted)
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| covers(found, wanted))
        }
        // Nothing in it is as good as not there.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_does_not_matter() {
        let found = json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"ports": [{"port": 1, "protocol": "TCP"}]}});
        for (wanted, is_there) in [
            (json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}), true),
            (json!({"metadata": {"name": "a", "labels": {}}, "stringData": {"a": "b"}}), true),
            (json!({"spec": {"ports": [{"port": 2}]}}), false),
            (json!({"spec": {"ports": []}}), false),
            (json!({"metadata": {"labels": {"a": "b"}}}), false),
        ] {
            assert_eq!(covers(&found, &wanted), is_there, "{wanted}");
        }
    }
}
