//! `/nodes/{node}/qemu/{vmid}/agent`: commands to the QEMU guest agent of a VM.

use serde_json::{Value as Json, json};

use super::vmid;
use crate::ApiError;
use crate::call::{Call, Outcome, Reply};
use crate::pve_state::{Agent, Config, Run};
use crate::vm::power::{PING_TIMEOUT, agent_is_enabled, answers};

/// Guest agent commands of the Proxmox API, sorted by name.
const COMMANDS: &[&str] = &[
    "exec",
    "exec-status",
    "file-read",
    "file-write",
    "fsfreeze-freeze",
    "fsfreeze-status",
    "fsfreeze-thaw",
    "fstrim",
    "get-fsinfo",
    "get-host-name",
    "get-memory-block-info",
    "get-memory-blocks",
    "get-osinfo",
    "get-time",
    "get-timezone",
    "get-users",
    "get-vcpus",
    "info",
    "network-get-interfaces",
    "ping",
    "set-user-password",
    "shutdown",
    "suspend-disk",
    "suspend-hybrid",
    "suspend-ram",
];

/// Guest agent commands that the simulated agent implements.
const SUPPORTED: &[&str] = &[
    "fsfreeze-status",
    "get-fsinfo",
    "get-host-name",
    "get-osinfo",
    "get-time",
    "get-timezone",
    "get-users",
    "get-vcpus",
    "info",
    "network-get-interfaces",
    "ping",
    "shutdown",
];

pub(super) fn index() -> Outcome {
    Ok(Reply::Data(COMMANDS.iter().map(|name| json!({ "name": name })).collect()))
}

/// Runs the guest agent command that the parameter `command` names.
pub(super) async fn named(call: &Call) -> Outcome {
    let command = call.params.text("command").unwrap_or_default().to_owned();
    run(call, &command).await
}

pub(super) async fn run(call: &Call, command: &str) -> Outcome {
    let vmid = vmid(call);
    let answers = {
        let pve_state = call.pve_state();
        let vm = pve_state.vm(&call.node, vmid)?;
        if !vm.config.contains_key("agent") {
            return Err(ApiError::failed("No QEMU guest agent configured"));
        }
        let Some(run) = &vm.run else {
            return Err(ApiError::failed(format!("VM {vmid} is not running")));
        };
        agent_is_enabled(&pve_state, &run.config) && answers(run)
    };
    if !answers {
        call.site.clock.sleep(PING_TIMEOUT).await;
        return Err(ApiError::failed("QEMU guest agent is not running"));
    }
    if command == "shutdown" {
        call.site.press_power_button(&call.node, vmid);
    }
    let result = {
        let pve_state = call.pve_state();
        let run = pve_state.vm(&call.node, vmid)?.run.as_ref();
        run.and_then(|run| answer(command, run, call)).unwrap_or_else(|| {
            let text = format!("The command guest-{command} has not been found");
            json!({ "error": { "class": "CommandNotFound", "desc": text } })
        })
    };
    Ok(Reply::Data(json!({ "result": result })))
}

/// Result of a guest agent command, or `None` if the simulated agent does not implement it.
fn answer(command: &str, run: &Run, call: &Call) -> Option<Json> {
    let agent = run.agent.as_ref()?;
    Some(match command {
        "ping" | "shutdown" => json!({}),
        "network-get-interfaces" => interfaces(agent),
        "get-host-name" => json!({ "host-name": agent.hostname }),
        "get-osinfo" => json!({
            "id": "talos",
            "name": "Talos",
            "pretty-name": "Talos",
            "machine": "x86_64",
        }),
        "get-time" => json!(u64::try_from(call.site.clock.since_epoch().as_nanos()).ok()?),
        "get-timezone" => json!({ "offset": 0, "zone": "UTC" }),
        "get-users" | "get-fsinfo" => json!([]),
        "get-vcpus" => processors(&run.config),
        "fsfreeze-status" => json!("thawed"),
        "info" => {
            let known = SUPPORTED.iter().map(|name| {
                json!({ "name": format!("guest-{name}"), "enabled": true, "success-response": true })
            });
            json!({ "version": "10.0.0", "supported_commands": known.collect::<Vec<_>>() })
        }
        _ => return None,
    })
}

fn interfaces(agent: &Agent) -> Json {
    let all = agent.interfaces.iter().map(|(name, mac, addresses)| {
        let addresses: Vec<Json> = addresses
            .iter()
            .map(|(ip, prefix)| {
                let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
                json!({ "ip-address": ip, "ip-address-type": family, "prefix": prefix })
            })
            .collect();
        let counts = [
            "rx-bytes",
            "rx-dropped",
            "rx-errs",
            "rx-packets",
            "tx-bytes",
            "tx-dropped",
            "tx-errs",
            "tx-packets",
        ];
        let statistics: serde_json::Map<String, Json> =
            counts.iter().map(|count| ((*count).to_owned(), json!(0))).collect();
        let mut interface = json!({
            "name": name,
            "hardware-address": mac.to_lowercase(),
            "statistics": statistics,
        });
        // The agent omits `ip-addresses` for a card without addresses.
        if !addresses.is_empty() {
            interface["ip-addresses"] = json!(addresses);
        }
        interface
    });
    Json::Array(all.collect())
}

fn processors(config: &Config) -> Json {
    let number = |key: &str| config.get(key).and_then(|value| value.parse::<u64>().ok());
    let count = number("sockets").unwrap_or(1).saturating_mul(number("cores").unwrap_or(1));
    // Upper limit of virtual CPUs in QEMU.
    let count = count.min(4096);
    let one = |id: u64| json!({ "logical-id": id, "online": true, "can-offline": id > 0 });
    Json::Array((0..count).map(one).collect())
}
