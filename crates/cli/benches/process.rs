//! Benchmark of the CPU time and peak memory of `render` and `config gen`, with existing secrets. It prints a table, and
//! fails if a limit is exceeded.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use talmox_talos_config::random::SystemRandomness;
use talmox_talos_config::secrets;
use talmox_talos_config::time::UnixTime;

/// Clock ticks per second in `/proc/*/stat`.
const TICKS: u32 = 100;

/// Cost of one run.
struct Cost {
    cpu: Duration,
    memory_mb: u64,
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for count in [7, 100, 1000] {
        // Each cluster is in its own inventory, because clusters of one inventory are compared with each other.
        write_inventory(&folder.join(format!("i{count}/cluster")), count);
    }
    let render = |count: usize, runs: u32| {
        let args = format!("render --inventory i{count} --output out{count}");
        run(folder, &args);
        measure(folder, &args, runs)
    };
    let seven = render(7, 50);
    let hundred = render(100, 20);
    let thousand = render(1000, 5);
    show("render 7 nodes", &seven);
    show("render 100 nodes", &hundred);
    show("render 1000 nodes", &thousand);

    fs::write(folder.join("secrets.yaml"), new_bundle()).expect("a file");
    let gen_args =
        "config gen bench https://10.0.0.1:6443 --with-secrets secrets.yaml --force -o gen";
    run(folder, gen_args);
    let generate = measure(folder, gen_args, 50);
    show("config gen", &generate);

    let ratio = thousand.cpu.as_secs_f64() / hundred.cpu.as_secs_f64();
    println!("1000 nodes take {ratio:.1} times as long as 100");
    assert!(seven.cpu <= Duration::from_millis(15), "7 nodes take too long");
    assert!(seven.memory_mb <= 20, "7 nodes take too much memory");
    assert!(generate.cpu <= Duration::from_micros(9200), "config gen takes too long");
    assert!(thousand.memory_mb <= 100, "1000 nodes take too much memory");
    assert!(ratio <= 12.0, "time does not grow linearly");
}

fn show(what: &str, cost: &Cost) {
    let cpu = cost.cpu.as_secs_f64() * 1000.0;
    println!("{what:20} {cpu:8.1} ms CPU {:5} MB", cost.memory_mb);
}

fn write_inventory(folder: &Path, count: usize) {
    fs::create_dir_all(folder).expect("a folder");
    let cluster = "talos_version: v1.12.4\n\
        network: {subnet: 10.0.0.0/8, gateway: 10.0.0.1, vip: 10.0.0.2, pod_cidr: 172.16.0.0/16, svc_cidr: 172.20.0.0/16}\n\
        image: {extensions: [siderolabs/qemu-guest-agent]}\n\
        patches: {all: [{machine: {sysctls: {vm.max_map_count: '262144'}}}]}\n";
    let host = format!("pve{count}");
    let proxmox =
        format!("proxmox: {{endpoint: https://{host}:8006, token: {{env: T}}, node: {host}}}\n");
    fs::write(folder.join("cluster.yaml"), format!("{cluster}{proxmox}")).expect("a file");
    let mut nodes = String::from("controlplane:\n");
    for index in 0..count {
        if index == 3 {
            nodes.push_str("workers:\n");
        }
        let (high, low) = (index / 250, index % 250 + 3);
        writeln!(nodes, "  - {{name: n{count}-{index}, ip: 10.1.{high}.{low}}}").expect("a string");
    }
    fs::write(folder.join("nodes.yaml"), nodes).expect("a file");
}

/// New secrets bundle in the format of `talosctl gen secrets`.
fn new_bundle() -> String {
    let now = UnixTime::from_seconds(1_700_000_000);
    let bundle = secrets::generate(now, &mut SystemRandomness::new()).expect("a bundle");
    bundle.to_yaml().expose().to_owned()
}

fn command(folder: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talmox"));
    command
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .args(args.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn run(folder: &Path, args: &str) {
    let output = command(folder, args).stderr(Stdio::piped()).output().expect("a run");
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
}

fn measure(folder: &Path, args: &str, runs: u32) -> Cost {
    let before = children_ticks();
    let mut memory_mb = 0;
    for _ in 0..runs {
        let mut child = command(folder, args).spawn().expect("a run");
        let status = format!("/proc/{}/status", child.id());
        // The peak memory can only be read while the process exists, so it is polled.
        while child.try_wait().expect("a child").is_none() {
            let peak = fs::read_to_string(&status).unwrap_or_default();
            let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kilobytes =
                peak.and_then(|text| text.trim().split(' ').next()?.parse::<u64>().ok());
            memory_mb = memory_mb.max(kilobytes.unwrap_or_default() / 1000);
            std::thread::yield_now();
        }
    }
    let ticks = children_ticks() - before;
    Cost { cpu: Duration::from_secs(ticks) / TICKS / runs, memory_mb }
}

/// CPU time of ended child processes in clock ticks, from the fields 16 and 17 of `/proc/self/stat`.
fn children_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}
