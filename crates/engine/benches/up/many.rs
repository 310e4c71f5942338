//! Plans of many VMs without changes: how time, requests and memory grow with the number of VMs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use talmox_lab::Ready;
use talmox_talos_config::secrets::Bundle;
use tokio::runtime::Runtime;

use crate::rig::Rig;
use crate::served::{INSTANT, Pace, Served};
use crate::table::{Table, number};
use crate::yard::{Size, scenario};

/// Fast, but slow enough for two cores to simulate all nodes.
const PACE: Pace = Pace { profile: INSTANT, speed: 20.0 };
/// Number of times that a plan is measured. The table shows the plan with the median time.
const ROUNDS: usize = 3;

/// Cost of a plan of all clusters.
struct Cost {
    vms: usize,
    took: Duration,
    requests: usize,
    /// Maximum memory of the process, in MiB.
    memory: f64,
}

pub(crate) fn measure(runtime: &Runtime, table: &mut Table, clusters: u8, nodes: usize) {
    let few = cost(runtime, 1, 50);
    let many = cost(runtime, clusters, nodes);
    let what =
        format!("ms to plan {} VMs in {clusters} clusters, against {} in 1", many.vms, few.vms);
    table.row(&what, millis(many.took), millis(few.took), None);
    let each = |cost: &Cost| millis(cost.took) / number(cost.vms);
    table.row("ms per VM", each(&many), each(&few), Some(1.25));
    // One request for each VM, and six for each cluster.
    let against = many.vms + 6 * usize::from(clusters);
    let what = "requests of the plan (limit: 1 per VM, 6 per cluster)";
    table.row(what, number(many.requests), number(against), Some(1.0));
    table.row("maximum memory in MiB, limit 150", many.memory, 150.0, Some(1.0));
    let what = format!("maximum memory in MiB, against the plan of {} VMs", few.vms);
    table.row(&what, many.memory, few.memory, None);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Creates the clusters, then plans all of them in a separate process.
fn cost(runtime: &Runtime, clusters: u8, nodes: usize) -> Cost {
    let sizes: Vec<Size> = (0..clusters).map(|nth| Size { nth, nodes }).collect();
    let lab = Served::start(&scenario(sizes[0]), PACE, clusters);
    let ready = lab.folder().join("ready.json");
    std::fs::write(&ready, serde_json::to_vec(&lab.ready).unwrap()).unwrap();
    for size in &sizes {
        let rig = Rig::new(&lab.ready, size.inventory());
        runtime.block_on(rig.up());
        std::fs::write(bundle(lab.folder(), size.nth), rig.bundle.to_yaml().expose()).unwrap();
    }
    let mut costs: Vec<Cost> = (0..ROUNDS)
        .map(|_| {
            let before = lab.requests();
            let output = Command::new(std::env::current_exe().unwrap())
                .arg("--plan")
                .arg(lab.folder())
                .args([clusters.to_string(), nodes.to_string()])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            let (took, memory) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{said}"));
            Cost {
                vms: usize::from(clusters) * nodes,
                took: Duration::from_secs_f64(took.parse().unwrap()),
                requests: lab.requests() - before,
                memory: memory.parse().unwrap(),
            }
        })
        .collect();
    costs.sort_by_key(|cost| cost.took);
    costs.swap_remove(ROUNDS / 2)
}

fn bundle(folder: &Path, nth: u8) -> PathBuf {
    folder.join(format!("bundle-{nth}.yaml"))
}

/// Main function of the process that plans. Prints the time that the plans took, and the maximum memory of the process.
pub(crate) fn plan(folder: &Path, clusters: u8, nodes: usize) {
    let runtime = Runtime::new().unwrap();
    let ready: Ready =
        serde_json::from_slice(&std::fs::read(folder.join("ready.json")).unwrap()).unwrap();
    let started = Instant::now();
    for nth in 0..clusters {
        let text = std::fs::read_to_string(bundle(folder, nth)).unwrap();
        let inventory = Size { nth, nodes }.inventory();
        let rig = Rig::known(&ready, inventory, Bundle::read(&text).unwrap());
        let plan = runtime.block_on(async { rig.plan(&rig.desired(), true).await });
        assert!(plan.is_empty() && plan.errors().next().is_none(), "{:#?}", plan.findings);
    }
    println!("{} {}", started.elapsed().as_secs_f64(), most_memory());
}

/// Maximum memory of this process so far, in MiB.
fn most_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
