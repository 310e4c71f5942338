//! Actions of steps, with everything that they need: ids, addresses, hosts and texts. Secrets are of a type that does not show
//! them.

mod cluster;
mod image;
mod vm;

use std::time::Duration;

use talmox_pve_types::id::{NodeName, StorageId};

pub use cluster::{
    ApplyAddon, ApplyConfig, AwaitHealth, AwaitMember, AwaitUbuntu, AwaitVip, BootstrapEtcd,
    ClusterSigns, ConfigBy, Evidence, HealthGoal, Meanwhile, NodeSign, SharedAddress, TalosNode,
    VipBringer, Witness, WriteClientFiles,
};
pub use image::{
    CreateMapping, DeleteImage, FetchImage, FetchWay, PostSchematic, SCRUBBED, ScrubCidata,
    UploadCidata,
};
pub use vm::{
    CloneVm, CreateVm, DestroyVm, DetachCidata, FinishVm, MakeTemplate, OwnVm, ResizeDisk, StartVm,
    StopVm,
};

/// Action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    PostSchematic(PostSchematic),
    FetchImage(FetchImage),
    CreateMapping(CreateMapping),
    UploadCidata(UploadCidata),
    CreateVm(CreateVm),
    CloneVm(CloneVm),
    ResizeDisk(ResizeDisk),
    FinishVm(FinishVm),
    StartVm(StartVm),
    ScrubCidata(ScrubCidata),
    DetachCidata(DetachCidata),
    StopVm(StopVm),
    DestroyVm(DestroyVm),
    DeleteImage(DeleteImage),
    MakeTemplate(MakeTemplate),
    ApplyConfig(ApplyConfig),
    AwaitUbuntu(AwaitUbuntu),
    BootstrapEtcd(BootstrapEtcd),
    AwaitMember(AwaitMember),
    AwaitVip(AwaitVip),
    AwaitHealth(AwaitHealth),
    WriteClientFiles(WriteClientFiles),
    ApplyAddon(ApplyAddon),
}

/// Load of a step, so that not too many steps run on one host or storage at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Burden {
    pub host: Option<NodeName>,
    pub storages: Vec<StorageId>,
    /// Whether it changes the voting members of etcd: only one such step runs at a time.
    pub quorum: bool,
}

impl Action {
    /// The name of the action in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PostSchematic(_) => "post-schematic",
            Self::FetchImage(_) => "fetch-image",
            Self::CreateMapping(_) => "create-mapping",
            Self::UploadCidata(_) => "upload-cidata",
            Self::CreateVm(_) => "create-vm",
            Self::CloneVm(_) => "clone-vm",
            Self::ResizeDisk(_) => "resize-disk",
            Self::FinishVm(_) => "finish-vm",
            Self::StartVm(_) => "start-vm",
            Self::ScrubCidata(_) => "scrub-cidata",
            Self::DetachCidata(_) => "detach-cidata",
            Self::StopVm(_) => "stop-vm",
            Self::DestroyVm(_) => "destroy-vm",
            Self::DeleteImage(_) => "delete-image",
            Self::MakeTemplate(_) => "make-template",
            Self::ApplyConfig(_) => "apply-config",
            Self::AwaitUbuntu(_) => "await-ubuntu",
            Self::BootstrapEtcd(_) => "bootstrap-etcd",
            Self::AwaitMember(_) => "await-member",
            Self::AwaitVip(_) => "await-vip",
            Self::AwaitHealth(_) => "await-health",
            Self::WriteClientFiles(_) => "write-client-files",
            Self::ApplyAddon(_) => "apply-addon",
        }
    }

    pub fn burden(&self) -> Burden {
        let on = |host: &NodeName, storages: Vec<StorageId>| Burden {
            host: Some(host.clone()),
            storages,
            quorum: false,
        };
        let of = |own: &OwnVm, storages: Vec<StorageId>| on(&own.vm.node, storages);
        match self {
            Self::FetchImage(fetch) => on(&fetch.host, vec![fetch.volume.storage().clone()]),
            Self::UploadCidata(upload) => on(&upload.host, vec![upload.volume.storage().clone()]),
            Self::ScrubCidata(scrub) => on(&scrub.host, vec![scrub.volume.storage().clone()]),
            Self::DeleteImage(delete) => on(&delete.host, vec![delete.volume.storage().clone()]),
            Self::CreateVm(create) => of(&create.own, create.storages()),
            Self::CloneVm(clone) => of(&clone.own, clone.clone.storage.iter().cloned().collect()),
            Self::ResizeDisk(resize) => of(&resize.own, vec![]),
            Self::FinishVm(finish) => of(&finish.own, vec![]),
            Self::StartVm(start) => of(&start.own, vec![]),
            Self::DetachCidata(detach) => of(&detach.own, vec![]),
            Self::StopVm(stop) => of(&stop.own, vec![]),
            Self::DestroyVm(destroy) => of(&destroy.own, vec![]),
            Self::MakeTemplate(make) => on(&make.vm.node, vec![]),
            Self::BootstrapEtcd(_) => Burden { quorum: true, ..Burden::default() },
            Self::PostSchematic(_)
            | Self::CreateMapping(_)
            | Self::ApplyConfig(_)
            | Self::AwaitUbuntu(_)
            | Self::AwaitMember(_)
            | Self::AwaitVip(_)
            | Self::AwaitHealth(_)
            | Self::WriteClientFiles(_)
            | Self::ApplyAddon(_) => Burden::default(),
        }
    }

    /// The deadline of the step.
    pub fn deadline(&self) -> Duration {
        match self {
            Self::PostSchematic(step) => step.deadline,
            Self::FetchImage(step) => step.deadline,
            Self::CreateMapping(step) => step.deadline,
            Self::UploadCidata(step) => step.deadline,
            Self::CreateVm(step) => step.deadline,
            Self::CloneVm(step) => step.deadline,
            Self::ResizeDisk(step) => step.deadline,
            Self::FinishVm(step) => step.deadline,
            Self::StartVm(step) => step.deadline,
            Self::ScrubCidata(step) => step.deadline,
            Self::DetachCidata(step) => step.deadline,
            Self::StopVm(step) => step.deadline,
            Self::DestroyVm(step) => step.deadline,
            Self::DeleteImage(step) => step.deadline,
            Self::MakeTemplate(step) => step.deadline,
            Self::ApplyConfig(step) => step.deadline,
            Self::AwaitUbuntu(step) => step.deadline,
            Self::BootstrapEtcd(step) => step.deadline,
            Self::AwaitMember(step) => step.deadline,
            Self::AwaitVip(step) => step.deadline,
            Self::AwaitHealth(step) => step.deadline,
            Self::WriteClientFiles(step) => step.deadline,
            Self::ApplyAddon(step) => step.deadline,
        }
    }
}
