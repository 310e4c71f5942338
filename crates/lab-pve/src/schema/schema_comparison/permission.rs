//! Parser of declared permissions in the notation of the schema.

use serde_json::Value;

use super::super::endpoint::{Groups, Permission};

pub(super) fn of(permissions: &Value) -> Permission {
    // If the schema declares both `user` and `check`, only `user` counts.
    match permissions["user"].as_str() {
        Some("world") => Permission::World,
        Some("all") => Permission::All,
        Some(other) => panic!("unknown user {other}"),
        None if permissions["check"].is_null() => Permission::Root,
        None => check(&permissions["check"]),
    }
}

/// Leaks a string, because permissions hold `'static` strings.
fn leak(value: &Value) -> &'static str {
    Box::leak(value.as_str().unwrap().to_owned().into_boxed_str())
}

fn leak_all(values: &Value) -> &'static [&'static str] {
    let values: Vec<&'static str> = values.as_array().unwrap().iter().map(leak).collect();
    Box::leak(values.into_boxed_slice())
}

fn check(check: &Value) -> Permission {
    let parts = check.as_array().unwrap();
    match parts[0].as_str().unwrap() {
        "and" => Permission::And(parts[1..].iter().map(self::check).collect()),
        "or" => Permission::Or(parts[1..].iter().map(self::check).collect()),
        "perm-modify" => Permission::Modify(leak(&parts[1])),
        "perm" => {
            let option = |name: &str| {
                let mut pairs = parts[3..].chunks(2);
                pairs.find(|pair| pair[0] == name).map(|pair| &pair[1])
            };
            Permission::Privileges {
                path: leak(&parts[1]),
                privileges: leak_all(&parts[2]),
                any: option("any").is_some(),
                needs: option("require_param").map(leak),
            }
        }
        "userid-param" => match leak(&parts[1]) {
            "self" => Permission::IsSelf,
            privilege => Permission::OnRealm(privilege),
        },
        "userid-group" => Permission::OnGroups {
            privileges: leak_all(&parts[1]),
            groups: match parts.get(3).and_then(Value::as_str) {
                None => Groups::Current,
                Some("create") => Groups::Create,
                Some("update") => Groups::Update,
                Some(other) => panic!("unknown groups {other}"),
            },
        },
        other => panic!("unknown check {other}"),
    }
}
