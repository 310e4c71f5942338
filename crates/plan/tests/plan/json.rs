//! The JSON form of plans.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use talmox_plan::plan::{Action, Plan, SavedPlan, SavedPlanError, Step};
use talmox_plan::planning::{Part, RemovalConsent, Scope};

use crate::every_kind::{SECRET, apply_config, every_kind};
use crate::observed_state::empty;
use crate::support::{home, plan, secret_values, single};

#[test]
fn every_kind_of_step_is_the_same_after_json() {
    let plan = every_kind();
    let kinds: BTreeSet<&str> = plan.steps.iter().map(|step| step.action.kind()).collect();
    assert_eq!(kinds, Action::KINDS.iter().copied().collect::<BTreeSet<_>>());
    assert_eq!(kinds.len(), Action::KINDS.len(), "two kinds have the same name");
    let text = serde_json::to_string(&plan).unwrap();
    let read: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(read, plan);
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let form: Value = serde_json::from_str(&text).unwrap();
    for step in form["steps"].as_array().unwrap() {
        assert_eq!(step["action"]["kind"], step["id"]);
        assert_eq!(step["action"]["deadline_seconds"], 300, "{step}");
    }
}

/// The names of all fields below a value, without the names of VM options, which Proxmox defines.
fn field_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
        Value::Object(fields) => {
            for (name, field) in fields {
                names.insert(name.clone());
                if !["options", "set"].contains(&name.as_str()) {
                    field_names(field, names);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_kind_and_field_is_documented() {
    let documented = include_str!("../../../../docs/PLAN-JSON.md");
    let mut names = BTreeSet::new();
    let form = serde_json::to_value(every_kind()).unwrap();
    field_names(&form, &mut names);
    names.extend(every_kind().steps.iter().map(|step| step.action.kind().to_owned()));
    for name in names {
        let is_named = documented.contains(&format!("`{name}`"));
        assert!(is_named || documented.contains(&format!("\"{name}\"")), "`{name}`");
    }
}

#[test]
fn numbers_are_numbers() {
    let form = serde_json::to_value(every_kind()).unwrap();
    let fields = &form["changes"][0]["fields"];
    assert_eq!(fields[0], json!({"path": "cores", "old": 2, "new": 4}));
    let disk = json!({"size_gib": 40, "storage": "local-lvm", "options": "ssd=1"});
    assert_eq!(fields[1]["new"], disk);
    let steps = form["steps"].as_array().unwrap();
    let action = |kind: &str| &steps.iter().find(|step| step["id"] == kind).unwrap()["action"];
    assert_eq!(action("create-vm")["options"]["memory"], 8192);
    assert_eq!(action("start-vm")["own"]["vm"], json!({"node": "pve1", "vmid": 300}));
    assert_eq!(action("resize-disk")["gib"], 40);
}

#[test]
fn a_changed_secret_is_a_changed_plan() {
    let plan = every_kind();
    let mut changed = plan.clone();
    let apply = changed.steps.iter_mut().find(|step| step.action.kind() == "apply-config").unwrap();
    apply.action = Action::ApplyConfig(apply_config("hunter3"));
    assert_ne!(changed, plan);
    assert_ne!(changed.fingerprint(), plan.fingerprint());
    assert_eq!(every_kind().fingerprint(), plan.fingerprint());
}

#[test]
fn a_plan_file_holds_no_secret() {
    let file = SavedPlan::of(&every_kind(), &empty()).to_json();
    assert!(!file.contains(SECRET) && file.contains("sha256"), "{file}");
    for desired in [home(), single("boot: cidata")] {
        let made = plan(&desired, &empty());
        let file = SavedPlan::of(&made, &empty()).to_json();
        for secret in secret_values() {
            assert!(!file.contains(&secret), "{secret}\n{file}");
        }
        let read = SavedPlan::parse(&file).unwrap();
        assert_eq!(read.plan, made);
        let is_without = |step: &Step| match &step.action {
            Action::ApplyConfig(apply) => apply.config.text().is_none(),
            Action::ChangeConfig(change) => change.config.text().is_none(),
            Action::UploadCidata(upload) => upload.user_data.text().is_none(),
            _ => true,
        };
        assert!(read.plan.steps.iter().all(is_without), "a plan from a file has no secrets");
    }
}

#[test]
fn a_plan_file_has_the_limits_of_its_plan() {
    let file = SavedPlan::of(&every_kind(), &empty());
    assert_eq!(file.scope, Scope::default());
    assert!(!file.to_json().contains("\"scope\""), "files without limits are as before");
    let scope = Scope {
        nodes: Some(BTreeSet::from(["wk-1".to_owned()])),
        only: Some(Part::Vms),
        removal: RemovalConsent::All,
        ..Scope::default()
    };
    let text = file.within(&scope).to_json();
    assert_eq!(SavedPlan::parse(&text).unwrap().scope, scope);
    let form: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({"nodes": ["wk-1"], "only": "vms", "removal": "all", "replace": [],
        "max_unavailable": 1});
    assert_eq!(form["scope"], expected);
}

#[test]
fn an_unknown_kind_is_an_error() {
    for form in [json!({"kind": "dance"}), json!({"kind": "start-vm"}), json!({}), json!(7)] {
        let error = serde_json::from_value::<Action>(form.clone()).unwrap_err().to_string();
        let is_named = error.contains("unknown variant") || error.contains("missing field `own`");
        assert!(is_named, "{form}: {error}");
    }
}

#[test]
fn other_files_are_not_plans() {
    let file = SavedPlan::of(&every_kind(), &empty()).to_json();
    let mut form: Value = serde_json::from_str(&file).unwrap();
    form["plan"]["steps"][0]["id"] = "another".into();
    assert_eq!(SavedPlan::parse(&form.to_string()), Err(SavedPlanError::Edited));
    form["format"] = 1.into();
    assert_eq!(SavedPlan::parse(&form.to_string()), Err(SavedPlanError::Unreadable));
    let before =
        r#"{"format":1,"cluster":"home","fingerprint":{"plan":"a","world":"b"},"plan":{}}"#;
    for text in ["", "{}", "{\"format\":2}", before] {
        assert_eq!(SavedPlan::parse(text), Err(SavedPlanError::Unreadable), "{text}");
    }
}
