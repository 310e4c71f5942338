//! JSON schema for editors, generated from the declarations of the mappings.

use serde_json::{Map, Value as Json, json};

use super::Mapping;

/// Collector of the schemas of mappings, by name. Each schema is written only once.
#[derive(Default)]
pub(crate) struct Schemas {
    definitions: Map<String, Json>,
}

impl Schemas {
    /// Reference to the schema of a mapping. The schema is added if it is missing.
    pub(crate) fn mapping<M: Mapping>(&mut self) -> Json {
        let name = M::TYPE;
        if !self.definitions.contains_key(name) {
            // The name is registered before the properties are built. Otherwise a recursive mapping would cause an
            // endless recursion.
            self.definitions.insert(name.to_owned(), Json::Null);
            let schema = self.object::<M>();
            self.definitions.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn object<M: Mapping>(&mut self) -> Json {
        let mut properties = Map::new();
        M::properties(self, &mut properties);
        let mut schema = json!({
            "description": M::DOC,
            "type": "object",
            "properties": properties,
        });
        if !M::REQUIRED.is_empty() {
            schema["required"] = json!(M::REQUIRED);
        }
        if let Some(prefix) = M::OWN_PREFIX {
            schema["patternProperties"] = json!({ format!("^{prefix}"): {} });
        }
        schema["additionalProperties"] = json!(false);
        schema
    }
}

/// JSON schema (draft 2020-12) of a file that contains the mapping `M`.
pub(crate) fn schema_of<M: Mapping>(title: &str) -> Json {
    let mut schemas = Schemas::default();
    let root = schemas.object::<M>();
    let mut definitions: Vec<_> = schemas.definitions.into_iter().collect();
    definitions.sort_by(|a, b| a.0.cmp(&b.0));
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
    });
    let object = schema.as_object_mut().expect("invariant: made as an object above");
    object.extend(root.as_object().expect("invariant: a mapping's schema is an object").clone());
    object.insert("$defs".to_owned(), Json::Object(definitions.into_iter().collect()));
    schema
}

/// Adds a description to a schema. Since draft 2019-09, a `$ref` may have a description.
pub(crate) fn described(mut schema: Json, doc: &str) -> Json {
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), Json::String(doc.to_owned()));
    }
    schema
}

/// Schema of a value that is one of the given words.
pub(crate) fn constant_choice(words: &[&str]) -> Json {
    json!({ "enum": words })
}
