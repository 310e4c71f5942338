//! A plan with a step of every kind.

use std::fmt::Debug;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use talmox_plan::desired::{
    AddonSource, Addressing, Card, CardName, Contact, ExpectedNetwork, ManifestFile,
};
use talmox_plan::ownership::{ClusterMark, Identity, SmbiosUuid};
use talmox_plan::plan::{
    Action, ApplyAddon, ApplyConfig, AwaitHealth, AwaitMember, AwaitUbuntu, AwaitVip,
    BootstrapEtcd, Change, Class, CloneVm, ClusterSigns, ConfigBy, CreateMapping, CreateVm,
    DefragEtcd, DeleteImage, DestroyVm, DetachCidata, DisarmAlarms, DiskValue, Evidence,
    FetchImage, FetchWay, FieldChange, Finding, FindingCode, FinishVm, HealthGoal, MakeTemplate,
    Meanwhile, NodeSign, Object, OwnVm, Plan, PostSchematic, ResizeDisk, ScrubCidata, Severity,
    SharedAddress, StartVm, Step, StepId, StopVm, TalosNode, UploadCidata, VipBringer, Witness,
    WriteClientFiles,
};
use talmox_pve_types::api::mapping::{Mapped, MappedDevice};
use talmox_pve_types::api::qemu::{self, Vm};
use talmox_pve_types::api::storage::Checksum;
use talmox_pve_types::config::VmOptions;
use talmox_pve_types::id::VmId;
use talmox_talos_config::machine::Expected;
use talmox_talos_config::network::{FirstLink, FirstNetwork};
use talmox_talos_config::secret::SecretText;

use crate::change_kinds;

/// The text of every secret in the plan.
pub(crate) const SECRET: &str = "hunter2";
pub(crate) const DEADLINE: Duration = Duration::from_mins(5);

fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn ip() -> IpAddr {
    id("10.0.0.11")
}

fn vm() -> Vm {
    Vm::new(&id("pve1"), VmId::new(300).unwrap())
}

pub(crate) fn own() -> OwnVm {
    let identity = Identity {
        cluster: ClusterMark::of("an id"),
        node: "cp-1".to_owned(),
        uuid: SmbiosUuid::of("an id", "cp-1"),
    };
    OwnVm { vm: vm(), identity }
}

pub(crate) fn talos_node() -> TalosNode {
    let expected = Expected {
        uuid: Some(SmbiosUuid::of("an id", "cp-1").to_string()),
        macs: vec!["02:aa:00:00:00:11".to_owned()],
        instance_id: None,
    };
    let (name, contact) = ("cp-1".to_owned(), Contact::At(ip()));
    TalosNode { name, own: own(), contact, expected, is_control_plane: true }
}

pub(crate) fn network() -> ExpectedNetwork {
    let card = |name| Card { name, addressing: Addressing { is_dhcp: false, fixed: vec![ip()] } };
    ExpectedNetwork {
        hostname: Some("cp-1".to_owned()),
        cards: vec![
            card(CardName::Mac("02:aa:00:00:00:11".to_owned())),
            card(CardName::Link("eth0".to_owned())),
            card(CardName::Somehow),
        ],
        shared: vec![id("10.0.0.20")],
        further: vec![id("fd00::11")],
    }
}

pub(crate) fn options() -> VmOptions {
    VmOptions::new()
        .name("cp-1")
        .cores(4)
        .memory_mib(8192)
        .onboot(true)
        .set("scsi0", "local-lvm:40")
}

fn actions_on_storages() -> Vec<Action> {
    let link = FirstLink {
        name: "eth0".to_owned(),
        mac: Some(id("02:aa:00:00:00:11")),
        addresses: vec![id("10.0.0.11/16")],
        gateways: vec![id("10.0.0.1")],
        mtu: Some(9000),
        vlan: Some(7),
    };
    let first_network = FirstNetwork {
        hostname: "cp-1".to_owned(),
        links: vec![link],
        nameservers: vec![id("1.1.1.1")],
        search_domains: vec![],
    };
    let device = MappedDevice {
        node: id("pve1"),
        path: "0000:01:00.0".to_owned(),
        id: "10de:2204".to_owned(),
        iommu_group: Some(7),
        subsystem_id: None,
    };
    vec![
        Action::PostSchematic(PostSchematic {
            factory: "https://factory.talos.dev".to_owned(),
            id: "ab".to_owned(),
            yaml: "customization: {}\n".to_owned(),
            deadline: DEADLINE,
        }),
        Action::FetchImage(FetchImage {
            host: id("pve1"),
            volume: id("local:import/talos.qcow2"),
            url: "https://factory.talos.dev/image/ab/v1.11.2/nocloud-amd64.qcow2".to_owned(),
            checksum: Some(Checksum { algorithm: "sha256".to_owned(), value: "ab".to_owned() }),
            sums: vec![],
            ways: vec![FetchWay::Download, FetchWay::Stream],
            is_present: false,
            deadline: DEADLINE,
        }),
        Action::CreateMapping(CreateMapping {
            id: id("gpu"),
            mapped: Mapped { devices: vec![device], ..Mapped::default() },
            deadline: DEADLINE,
        }),
        Action::UploadCidata(UploadCidata {
            host: id("pve1"),
            volume: id("local:import/cp-1.raw"),
            user_data: SecretText::new(SECRET).into(),
            instance_id: "i-1".to_owned(),
            network: first_network,
            deadline: DEADLINE,
        }),
        Action::ScrubCidata(ScrubCidata {
            host: id("pve1"),
            volume: id("local:import/cp-1.raw"),
            delete: true,
            deadline: DEADLINE,
        }),
        Action::DeleteImage(DeleteImage {
            host: id("pve1"),
            volume: id("local:import/talos.qcow2"),
            deadline: DEADLINE,
        }),
    ]
}

fn actions_on_vms() -> Vec<Action> {
    let clone = qemu::CloneVm {
        newid: VmId::new(300).unwrap(),
        name: "cp-1".to_owned(),
        description: "Node cp-1".to_owned(),
        pool: Some(id("talos")),
        full: true,
        storage: Some(id("local-lvm")),
        target: None,
    };
    let running = "UPID:pve1:0001A2B3:1234ABCDE:65F0C0DE:qmcreate:300:talmox@pve!ci:";
    vec![
        Action::CreateVm(CreateVm {
            own: own(),
            pool: Some(id("talos")),
            options: options(),
            running: Some(id(running)),
            deadline: DEADLINE,
        }),
        Action::CloneVm(CloneVm {
            own: own(),
            template: Vm::new(&id("pve1"), VmId::new(9000).unwrap()),
            clone,
            running: None,
            deadline: DEADLINE,
        }),
        Action::ResizeDisk(ResizeDisk {
            own: own(),
            slot: id("scsi0"),
            gib: 40,
            deadline: DEADLINE,
        }),
        Action::FinishVm(FinishVm {
            own: own(),
            set: options(),
            delete: vec!["ide2".to_owned()],
            deadline: DEADLINE,
        }),
        Action::StartVm(StartVm { own: own(), deadline: DEADLINE }),
        Action::DetachCidata(DetachCidata {
            own: own(),
            slot: id("scsi1"),
            protect: true,
            deadline: DEADLINE,
        }),
        Action::StopVm(StopVm { own: own(), deadline: DEADLINE }),
        Action::DestroyVm(DestroyVm { own: own(), deadline: DEADLINE }),
        Action::MakeTemplate(MakeTemplate {
            vm: vm(),
            name: "talos-v1.11.2".to_owned(),
            pool: None,
            options: options(),
            deadline: DEADLINE,
        }),
    ]
}

/// A step that sends this config.
pub(crate) fn apply_config(config: &str) -> ApplyConfig {
    ApplyConfig {
        node: talos_node(),
        by: ConfigBy::Maintenance,
        has_drive: true,
        config: SecretText::new(config).into(),
        talos_version: "v1.11.2".to_owned(),
        template: Some("talos-v1.11.2".to_owned()),
        shape: network(),
        is_started: true,
        resets: 2,
        boot: Duration::from_mins(3),
        needs: vec![StepId::new("etcd/bootstrap")],
        deadline: DEADLINE,
    }
}

fn actions_on_nodes() -> Vec<Action> {
    let signs = ClusterSigns {
        cluster: "home".to_owned(),
        mark: ClusterMark::of("an id"),
        nodes: vec![NodeSign {
            name: "cp-1".to_owned(),
            uuid: SmbiosUuid::of("an id", "cp-1").to_string(),
            vmid: VmId::new(300).unwrap(),
            has_etcd: true,
        }],
        addresses: vec![ip()],
    };
    let witness = |evidence| Witness { node: talos_node(), evidence };
    let manifest =
        ManifestFile { origin: "shop.yaml".to_owned(), text: SecretText::new(SECRET).into() };
    vec![
        Action::ApplyConfig(apply_config(SECRET)),
        Action::AwaitUbuntu(AwaitUbuntu {
            own: own(),
            contact: Contact::AskAgent,
            has_agent: true,
            deadline: DEADLINE,
        }),
        Action::BootstrapEtcd(BootstrapEtcd {
            node: talos_node(),
            signs,
            witnesses: vec![witness(Evidence::FreshDisk), witness(Evidence::Answer)],
            deadline: DEADLINE,
        }),
        Action::AwaitMember(AwaitMember {
            node: talos_node(),
            shape: Some(network()),
            awaits_ready: true,
            deadline: DEADLINE,
        }),
        Action::AwaitVip(AwaitVip {
            address: ip(),
            port: 6443,
            by: VipBringer::Addon("kube-vip".to_owned()),
            deadline: DEADLINE,
        }),
        Action::AwaitHealth(AwaitHealth {
            nodes: vec![talos_node()],
            goal: HealthGoal::Settled,
            allows_other_members: true,
            deadline: DEADLINE,
        }),
        Action::WriteClientFiles(WriteClientFiles {
            cluster: "home".to_owned(),
            server: "https://10.0.0.20:6443".to_owned(),
            shared: Some(SharedAddress {
                address: ip(),
                port: 6443,
                meanwhile: Meanwhile::Await(Some(StepId::new("vip"))),
            }),
            endpoints: vec![talos_node()],
            nodes: vec![talos_node()],
            deadline: DEADLINE,
        }),
        Action::DefragEtcd(DefragEtcd { node: talos_node(), deadline: DEADLINE }),
        Action::DisarmAlarms(DisarmAlarms { nodes: vec![talos_node()], deadline: DEADLINE }),
        Action::ApplyAddon(ApplyAddon {
            name: "shop".to_owned(),
            source: AddonSource::Texts(vec![manifest]),
            namespace: None,
            skips_rollout: false,
            deadline: DEADLINE,
        }),
    ]
}

/// A plan with a step of every kind.
pub(crate) fn every_kind() -> Plan {
    let actions =
        [actions_on_storages(), actions_on_vms(), actions_on_nodes(), change_kinds::actions()];
    let step = |action: Action| Step {
        id: StepId::new(action.kind()),
        node: Some("cp-1".to_owned()),
        action,
        after: vec![],
    };
    let disk = DiskValue {
        size_gib: Some(40),
        storage: "local-lvm".to_owned(),
        options: "ssd=1".to_owned(),
    };
    let field = |path: &str, old, new| FieldChange { path: path.to_owned(), old, new };
    Plan {
        cluster: "home".to_owned(),
        changes: vec![Change {
            object: Object::Vm("cp-1".to_owned()),
            class: Class::Create,
            fields: vec![
                field("cores", Some(2_u32.into()), Some(4_u32.into())),
                field("scsi0", None, Some(disk.into())),
                field("host", Some("pve1".into()), None),
            ],
            note: None,
            is_planned: true,
            left: None,
        }],
        findings: vec![Finding {
            severity: Severity::Warning,
            code: FindingCode::DiskSerialMissing,
            subject: "cp-1".to_owned(),
            message: "its VM has no serial".to_owned(),
            hint: Some("set one".to_owned()),
            blocks_only_its_node: false,
        }],
        steps: actions.concat().into_iter().map(step).collect(),
    }
}
