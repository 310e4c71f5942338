//! Declared permissions, as the schema spells them.

use serde_json::Value;

use super::super::endpoint::{Groups, Permission};

pub(super) fn of(permissions: &Value) -> Permission {
    // Who may call without a check is not checked, even where a check stands beside it.
    match permissions["user"].as_str() {
        Some("world") => Permission::World,
        Some("all") => Permission::All,
        Some(other) => panic!("who is {other}?"),
        None if permissions["check"].is_null() => Permission::Root,
        None => check(&permissions["check"]),
    }
}

/// Texts live as long as the test; the tables' do for ever.
fn forever(value: &Value) -> &'static str {
    Box::leak(value.as_str().unwrap().to_owned().into_boxed_str())
}

fn all_forever(values: &Value) -> &'static [&'static str] {
    let values: Vec<&'static str> = values.as_array().unwrap().iter().map(forever).collect();
    Box::leak(values.into_boxed_slice())
}

fn check(check: &Value) -> Permission {
    let parts = check.as_array().unwrap();
    match parts[0].as_str().unwrap() {
        "and" => Permission::And(parts[1..].iter().map(self::check).collect()),
        "or" => Permission::Or(parts[1..].iter().map(self::check).collect()),
        "perm-modify" => Permission::Modify(forever(&parts[1])),
        "perm" => {
            let option = |name: &str| {
                let mut pairs = parts[3..].chunks(2);
                pairs.find(|pair| pair[0] == name).map(|pair| &pair[1])
            };
            Permission::Privileges {
                path: forever(&parts[1]),
                privileges: all_forever(&parts[2]),
                any: option("any").is_some(),
                needs: option("require_param").map(forever),
            }
        }
        "userid-param" => match forever(&parts[1]) {
            "self" => Permission::IsSelf,
            privilege => Permission::OnRealm(privilege),
        },
        "userid-group" => Permission::OnGroups {
            privileges: all_forever(&parts[1]),
            groups: match parts.get(3).and_then(Value::as_str) {
                None => Groups::Current,
                Some("create") => Groups::Create,
                Some("update") => Groups::Update,
                Some(other) => panic!("which groups are {other}?"),
            },
        },
        other => panic!("unknown check {other}"),
    }
}
