//! Proxmox stores most values in another spelling than the one it received, and users write other spellings. Another spelling
//! of the same value is not a change. Another value is a change.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::plan::show;
use talmox_pve_types::config::VmConfig;

use crate::observed_state::{config_of, settled, vmid};
use crate::support::{plan, single};

/// A node whose VM has every kind of option.
fn rich() -> Desired {
    single(
        "tpm: true, ssd: true, discard: true, vlan: 40, cores: 4, disks: [{size: 5}], \
         nics: [{bridge: vmbr1, ip: 10.9.0.1/24}], gpu: {mapping: gpu}, tags: [Rack-1, blue], \
         image: {extensions: [siderolabs/qemu-guest-agent]}",
    )
}

/// The options in the final config of the VM.
fn entries(observed: &Observed) -> BTreeMap<String, String> {
    let config = config_of(&observed.pve, vmid(300));
    config.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn with(observed: &Observed, entries: BTreeMap<String, String>) -> Observed {
    let mut observed = observed.clone();
    observed.pve.vms.get_mut(&vmid(300)).unwrap().config = Ok(VmConfig::new(entries));
    observed
}

/// The parts of a property string in two orders: as given, and with all parts after the first one reversed.
fn orders(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split(',').collect();
    let (first, rest) = parts.split_first().unwrap();
    let turned: Vec<&str> = rest.iter().rev().copied().collect();
    let all = [[&[*first], rest].concat(), [&[*first], turned.as_slice()].concat()];
    all.iter().map(|parts| parts.join(",")).collect()
}

fn with_words(text: &str) -> Vec<String> {
    let flags = [("=1,", "=on,"), ("=0,", "=off,"), ("=on,", "=1,"), ("=on,", "=yes,")];
    let closed = format!("{text},");
    let spelled = flags.iter().map(|(from, to)| closed.replace(from, to));
    spelled.map(|spelled| spelled.trim_end_matches(',').to_owned()).collect()
}

/// All spellings of a value. None stands for a key that is missing in the config. The cases are in the order of the table of
/// answers of Proxmox.
fn spellings(key: &str, value: &str) -> Vec<Option<String>> {
    let mut all = vec![value.to_owned()];
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    match family {
        "scsi" => {
            all.extend(orders(value));
            all.extend(with_words(value));
            all.push(format!("{value},backup=1,replicate=1,iothread=0"));
            all.push(format!("file={value},media=disk"));
            all.push(value.replace("discard=on", "discard=ON"));
            let (volume, options) = value.split_once(',').unwrap();
            all.push(format!("{options},file={volume}"));
            all.push(value.replace("size=40G", "size=40960M"));
        }
        "efidisk" => {
            all.extend(orders(value));
            all.push(value.replace("pre-enrolled-keys=0,", ""));
            all.push(value.replace("size=1G", "size=4M"));
            all.push(value.replace("size=1G", "size=528K"));
        }
        "tpmstate" => {
            all.extend(orders(value));
            all.push(value.replace("size=1G", "size=4M"));
        }
        "ide" => all.push(format!("{value},size=4M")),
        "net" => {
            let (card, rest) = value.split_once(',').unwrap();
            let (model, mac) = card.split_once('=').unwrap();
            all.extend(orders(value));
            all.push(format!("model={model},macaddr={mac},{rest}"));
            all.push(format!("{rest},{model}={}", mac.to_uppercase()));
            all.push(format!("{card},{rest},link_down=0"));
            all.push(value.replace(",firewall=0", ""));
        }
        "tags" => {
            let tags: Vec<String> = value.split([';', ' ']).map(str::to_lowercase).collect();
            let mut sorted: Vec<String> =
                tags.iter().filter(|it| !it.is_empty()).cloned().collect();
            sorted.sort_unstable();
            all.extend([sorted.join(";"), sorted.join(","), sorted.join(" ").to_uppercase()]);
            sorted.reverse();
            all.push(format!("{};{}", sorted.join(";"), sorted.join(";")));
        }
        "description" => {
            all.extend([
                format!("{value}\n"),
                format!("{value} \n\n"),
                format!("# Mine\n\n{value}"),
            ]);
        }
        "machine" => {
            let kind = value.trim_start_matches("type=");
            all.extend([kind.to_owned(), format!("type={kind}")]);
        }
        "boot" => all.push(format!("{value},legacy=cdn")),
        "smbios" => all.push(value.to_uppercase().replace("UUID=", "uuid=")),
        "ipconfig" => {
            let parts: Vec<&str> = value.split(',').rev().collect();
            all.push(parts.join(","));
        }
        "nameserver" | "searchdomain" => {
            all.extend([
                value.replace(' ', ","),
                value.replace(' ', ";"),
                value.replace(' ', "  "),
            ]);
        }
        "agent" => {
            let on = [
                "1",
                "enabled=1",
                "enabled=on",
                "1,fstrim_cloned_disks=0",
                "enabled=1,type=virtio",
            ];
            all.extend(on.map(str::to_owned));
        }
        "cpu" => {
            all.extend([format!("cputype={value}"), format!("{value},hidden=0")]);
        }
        "hostpci" => {
            all.extend(orders(value));
            all.extend(with_words(value));
            all.extend([format!("{value},x-vga=0"), format!("{value},legacy-igd=off")]);
            all.push(value.replace(",rombar=1", ""));
        }
        "memory" => all.push(format!("current={value}")),
        "cores" | "balloon" => all.push(format!("0{value}")),
        "onboot" => all.extend(["on", "yes", "1"].map(str::to_owned)),
        "numa" | "protection" => {
            let mut all: Vec<Option<String>> =
                ["0", "off", "no", "false"].iter().map(|it| Some((*it).to_owned())).collect();
            all.push(None);
            return all;
        }
        _ => {}
    }
    all.into_iter().map(Some).collect()
}

/// Options that Proxmox adds by itself.
const ADDED: [(&str, &str); 3] = [
    ("digest", "ffffffffffffffffffffffffffffffffffffffff"),
    ("meta", "creation-qemu=10.1.2,ctime=1763220000"),
    ("vmgenid", "00000000-1111-4222-8333-444444444444"),
];

#[test]
fn another_spelling_is_not_a_change() {
    let desired = rich();
    let observed = settled(&desired);
    let made = entries(&observed);
    let mut count = 0;
    for (key, value) in &made {
        for spelling in spellings(key, value) {
            let mut entries = made.clone();
            match &spelling {
                Some(spelling) => entries.insert(key.clone(), spelling.clone()),
                None => entries.remove(key),
            };
            let plan = plan(&desired, &with(&observed, entries));
            assert!(plan.is_empty(), "{key}: {value} as {spelling:?}\n{}", show::text(&plan));
            count += 1;
        }
    }
    assert!(count > 90, "{count}");
}

#[test]
fn a_mixture_of_spellings_is_not_a_change() {
    let desired = rich();
    let observed = settled(&desired);
    let made = entries(&observed);
    let choices = proptest::collection::vec(any::<Index>(), made.len());
    proptest!(ProptestConfig::with_cases(300), |(choices in choices, added in any::<bool>())| {
        let mut entries = BTreeMap::new();
        for ((key, value), choice) in made.iter().zip(choices) {
            let all = spellings(key, value);
            if let Some(spelling) = &all[choice.index(all.len())] {
                entries.insert(key.clone(), spelling.clone());
            }
        }
        if added {
            entries.extend(ADDED.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        let plan = plan(&desired, &with(&observed, entries));
        prop_assert!(plan.is_empty(), "{}", show::text(&plan));
    });
}

#[test]
fn another_value_is_a_change_of_that_option_only() {
    let desired = rich();
    let observed = settled(&desired);
    let made = entries(&observed);
    let other = |key: &str| match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "scsi" => Some(made[key].replace("ssd=1", "ssd=0")),
        "efidisk" => Some(made[key].replace("efitype=4m", "efitype=2m")),
        "tpmstate" => Some(made[key].replace("v2.0", "v1.2")),
        "net" => Some(made[key].replace("bridge=vmbr", "bridge=vmbr9")),
        "tags" => Some("talmox".to_owned()),
        "machine" => Some("type=pc".to_owned()),
        "boot" => Some("order=ide2".to_owned()),
        "ipconfig" => Some("ip=10.0.0.77/16".to_owned()),
        "nameserver" => Some("8.8.8.8 1.1.1.1".to_owned()),
        "agent" => Some("0".to_owned()),
        "cpu" => Some("x86-64-v3".to_owned()),
        "hostpci" => Some("mapping=other,pcie=1".to_owned()),
        "memory" => Some("current=1024".to_owned()),
        "cores" => Some("1".to_owned()),
        "balloon" => Some("512".to_owned()),
        "onboot" => Some("off".to_owned()),
        "numa" | "protection" => Some("on".to_owned()),
        "bios" => Some("seabios".to_owned()),
        "scsihw" => Some("virtio-scsi-single".to_owned()),
        "ostype" => Some("win11".to_owned()),
        "name" => Some("somebody".to_owned()),
        "serial" => Some("/dev/ttyS1".to_owned()),
        _ => None,
    };
    let mut count = 0;
    for key in made.keys() {
        let Some(value) = other(key) else { continue };
        let mut entries = made.clone();
        entries.insert(key.clone(), value);
        let plan = plan(&desired, &with(&observed, entries));
        let fields: Vec<&str> =
            plan.changes.iter().flat_map(|it| &it.fields).map(|it| it.path.as_str()).collect();
        assert_eq!(fields, [key.as_str()], "{}", show::text(&plan));
        count += 1;
    }
    assert!(count > 22, "{count}");
}
