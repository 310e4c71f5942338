//! Validation of request options. Invalid options are rejected, because otherwise a request with a misspelled `dryRun` would
//! change objects.

use serde_json::Value;

use crate::failure::Failure;
use crate::object::list;
use crate::patch::PatchType;
use crate::request::Request;

/// Maximum length of a field manager's name.
const MAX_MANAGER_LENGTH: usize = 128;

/// Validates the query options of a request.
pub(super) fn check(request: &Request, is_list: bool) -> Result<(), Failure> {
    match request.method.as_str() {
        "POST" => check_writing(request, "CreateOptions"),
        "PUT" => check_writing(request, "UpdateOptions"),
        "PATCH" => check_patching(request),
        "DELETE" => check_dry_run(request, "DeleteOptions"),
        "GET" if is_list && !request.is_set("watch") => check_listing(request),
        _ => Ok(()),
    }
}

fn check_dry_run(request: &Request, options: &str) -> Result<(), Failure> {
    let given: Vec<&str> = request
        .query
        .iter()
        .filter(|(key, value)| key == "dryRun" && !value.is_empty())
        .map(|(_, value)| value.as_str())
        .collect();
    if given.iter().all(|how| *how == "All") {
        return Ok(());
    }
    let problem = format!("Unsupported value: {}: supported values: \"All\"", Value::from(given));
    Err(Failure::invalid_options(options, "dryRun", &problem))
}

fn check_writing(request: &Request, options: &str) -> Result<(), Failure> {
    check_dry_run(request, options)?;
    if request.parameter("fieldManager").len() > MAX_MANAGER_LENGTH {
        let problem = format!("Too long: may not be more than {MAX_MANAGER_LENGTH} bytes");
        return Err(Failure::invalid_options(options, "fieldManager", &problem));
    }
    match request.parameter("fieldValidation") {
        "" | "Ignore" | "Strict" | "Warn" => Ok(()),
        other => {
            let problem = format!(
                "Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
            );
            Err(Failure::invalid_options(options, "fieldValidation", &problem))
        }
    }
}

fn check_patching(request: &Request) -> Result<(), Failure> {
    const OPTIONS: &str = "PatchOptions";
    check_writing(request, OPTIONS)?;
    let is_apply = PatchType::parse(&request.content_type) == Some(PatchType::Apply);
    if is_apply && request.parameter("fieldManager").is_empty() {
        let problem = "Required value: is required for apply patch";
        return Err(Failure::invalid_options(OPTIONS, "fieldManager", problem));
    }
    if !is_apply && !request.parameter("force").is_empty() {
        let problem = "Forbidden: may not be specified for non-apply patch";
        return Err(Failure::invalid_options(OPTIONS, "force", problem));
    }
    Ok(())
}

fn check_listing(request: &Request) -> Result<(), Failure> {
    for key in ["limit", "timeoutSeconds"] {
        let text = request.parameter(key);
        if !text.is_empty() && text.parse::<i64>().is_err() {
            let problem = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            return Err(Failure::bad_request(problem));
        }
    }
    let (seen, how) =
        (request.parameter("resourceVersion"), request.parameter("resourceVersionMatch"));
    let problem = match how {
        "" => None,
        _ if seen.is_empty() => Some(
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
                .to_owned(),
        ),
        "Exact" if seen == "0" => Some(
            "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
                .to_owned(),
        ),
        "Exact" | "NotOlderThan" => None,
        other => Some(format!(
            "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
        )),
    };
    if let Some(problem) = problem {
        return Err(Failure::invalid_options("ListOptions", "resourceVersionMatch", &problem));
    }
    if !seen.is_empty() && seen.parse::<u64>().is_err() {
        return Err(Failure::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {seen:?}: strconv.ParseUint: parsing {seen:?}: invalid syntax"
        )));
    }
    Ok(())
}

/// Validates the options `dryRun` and `propagationPolicy` of a deletion.
pub(super) fn check_deletion(body: &Value, propagation: Option<&str>) -> Result<(), Failure> {
    const OPTIONS: &str = "DeleteOptions";
    if let Some(other) = list(body, "/dryRun").iter().find(|how| *how != "All") {
        let problem = format!("Unsupported value: [{other}]: supported values: \"All\"");
        return Err(Failure::invalid_options(OPTIONS, "dryRun", &problem));
    }
    let Some(propagation) = propagation else { return Ok(()) };
    let problem = if body["orphanDependents"].is_boolean() {
        format!(
            "Invalid value: {propagation:?}: orphanDependents and deletionPropagation cannot be both set"
        )
    } else if ["Foreground", "Background", "Orphan"].contains(&propagation) {
        return Ok(());
    } else {
        format!(
            "Unsupported value: {propagation:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        )
    };
    Err(Failure::invalid_options(OPTIONS, "propagationPolicy", &problem))
}
