//! Schema of the documents about disks and volumes.

use super::enums::{ENCRYPTION_PROVIDER_TYPE, FILESYSTEM_TYPE, VOLUME_TYPE};
use super::{
    CEL, DURATION, FLAG, Format, INT, META, Struct, TEXT, TEXTS, Type, U64, UINT, V11, V12, V13,
    V14, choice, flat, keep, list, many, omit, one, ptr, record,
};

const BYTE_SIZE: Type = Type::Scalar(Format::ByteSize);
const SIZE: Type = Type::Scalar(Format::Size);

pub(super) static EXISTING_VOLUME_CONFIG: Struct = record(
    "block.ExistingVolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("discovery", flat(&VOLUME_DISCOVERY_SPEC)),
            omit("mount", flat(&EXISTING_MOUNT_SPEC)),
            omit("trim", one!(TRIM_CONFIG)).since(V14),
            omit("scrub", one!(SCRUB_CONFIG)).since(V14),
        ],
    ],
);

pub(super) static TRIM_CONFIG: Struct =
    record("block.TrimConfig", &[&[omit("enabled", FLAG), omit("interval", DURATION)]]);

pub(super) static SCRUB_CONFIG: Struct =
    record("block.ScrubConfig", &[&[omit("enabled", FLAG), omit("interval", DURATION)]]);

pub(super) static VOLUME_DISCOVERY_SPEC: Struct =
    record("block.VolumeDiscoverySpec", &[&[omit("volumeSelector", flat(&VOLUME_SELECTOR))]]);

pub(super) static VOLUME_SELECTOR: Struct =
    record("block.VolumeSelector", &[&[omit("match", CEL)]]);

pub(super) static EXISTING_MOUNT_SPEC: Struct = record(
    "block.ExistingMountSpec",
    &[&[
        omit("readOnly", FLAG),
        omit("disableAccessTime", FLAG).since(V13),
        omit("secure", FLAG).since(V13),
    ]],
);

pub(super) static EXTERNAL_VOLUME_CONFIG: Struct = record(
    "block.ExternalVolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            keep("filesystemType", choice(&FILESYSTEM_TYPE)),
            omit("mount", flat(&EXTERNAL_MOUNT_SPEC)),
        ],
    ],
);

pub(super) static EXTERNAL_MOUNT_SPEC: Struct = record(
    "block.ExternalMountSpec",
    &[&[
        omit("readOnly", FLAG),
        omit("disableAccessTime", FLAG),
        omit("secure", FLAG),
        omit("virtiofs", one!(VIRTIOFS_MOUNT_SPEC)),
    ]],
);

pub(super) static VIRTIOFS_MOUNT_SPEC: Struct =
    record("block.VirtiofsMountSpec", &[&[keep("tag", TEXT)]]);

pub(super) static RAW_VOLUME_CONFIG: Struct = record(
    "block.RawVolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("provisioning", flat(&PROVISIONING_SPEC)),
            omit("encryption", flat(&ENCRYPTION_SPEC)),
        ],
    ],
);

pub(super) static PROVISIONING_SPEC: Struct = record(
    "block.ProvisioningSpec",
    &[&[
        omit("diskSelector", flat(&DISK_SELECTOR)),
        omit("grow", FLAG),
        omit("minSize", BYTE_SIZE),
        omit("maxSize", SIZE),
    ]],
);

pub(super) static DISK_SELECTOR: Struct = record("block.DiskSelector", &[&[omit("match", CEL)]]);

pub(super) static ENCRYPTION_SPEC: Struct = record(
    "block.EncryptionSpec",
    &[&[
        keep("provider", choice(&ENCRYPTION_PROVIDER_TYPE)),
        keep("keys", many!(ENCRYPTION_KEY)),
        omit("cipher", TEXT),
        omit("keySize", UINT),
        omit("blockSize", U64),
        omit("options", TEXTS),
        omit("allowDiscards", FLAG).since(V14),
    ]],
)
.counted_by(&["provider", "keys"]);

pub(super) static ENCRYPTION_KEY: Struct = record(
    "block.EncryptionKey",
    &[&[
        keep("slot", INT),
        omit("static", one!(ENCRYPTION_KEY_STATIC)),
        omit("nodeID", one!(ENCRYPTION_KEY_NODE_ID)),
        omit("kms", one!(ENCRYPTION_KEY_KMS)),
        omit("tpm", one!(ENCRYPTION_KEY_TPM)),
        omit("lockToState", FLAG).since(V11),
    ]],
);

pub(super) static ENCRYPTION_KEY_STATIC: Struct =
    record("block.EncryptionKeyStatic", &[&[omit("passphrase", TEXT).secret()]]);

pub(super) static ENCRYPTION_KEY_NODE_ID: Struct = record("block.EncryptionKeyNodeID", &[]);

pub(super) static ENCRYPTION_KEY_KMS: Struct =
    record("block.EncryptionKeyKMS", &[&[keep("endpoint", TEXT)]]);

pub(super) static ENCRYPTION_KEY_TPM: Struct = record(
    "block.EncryptionKeyTPM",
    &[&[
        omit("options", one!(ENCRYPTION_KEY_TPM_OPTIONS)).since(V12),
        omit("checkSecurebootStatusOnEnroll", FLAG),
    ]],
);

pub(super) static ENCRYPTION_KEY_TPM_OPTIONS: Struct =
    record("block.EncryptionKeyTPMOptions", &[&[omit("pcrs", list(&INT))]]);

pub(super) static SWAP_VOLUME_CONFIG: Struct = record(
    "block.SwapVolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("provisioning", flat(&PROVISIONING_SPEC)),
            omit("encryption", flat(&ENCRYPTION_SPEC)),
        ],
    ],
);

pub(super) static USER_VOLUME_CONFIG: Struct = record(
    "block.UserVolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("volumeType", ptr(&choice(&VOLUME_TYPE))).since(V12),
            omit("provisioning", flat(&PROVISIONING_SPEC)),
            omit("filesystem", flat(&FILESYSTEM_SPEC)),
            omit("encryption", flat(&ENCRYPTION_SPEC)),
            omit("mount", flat(&USER_MOUNT_SPEC)).since(V13),
            omit("trim", one!(TRIM_CONFIG)).since(V14),
            omit("scrub", one!(SCRUB_CONFIG)).since(V14),
        ],
    ],
);

pub(super) static FILESYSTEM_SPEC: Struct = record(
    "block.FilesystemSpec",
    &[&[
        omit("type", choice(&FILESYSTEM_TYPE)),
        omit("projectQuotaSupport", FLAG).since(V11),
        omit("xfs", one!(XFS_SPEC)).since(V14),
    ]],
);

pub(super) static XFS_SPEC: Struct =
    record("block.XFSSpec", &[&[omit("minAllocationGroupSize", BYTE_SIZE)]]);

pub(super) static USER_MOUNT_SPEC: Struct =
    record("block.UserMountSpec", &[&[omit("disableAccessTime", FLAG), omit("secure", FLAG)]]);

pub(super) static VOLUME_CONFIG: Struct = record(
    "block.VolumeConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("provisioning", flat(&PROVISIONING_SPEC)),
            omit("filesystem", flat(&SYSTEM_VOLUME_FILESYSTEM_SPEC)).since(V14),
            omit("encryption", flat(&ENCRYPTION_SPEC)).since(V11),
            omit("mount", flat(&MOUNT_SPEC)).since(V13),
            omit("trim", one!(TRIM_CONFIG)).since(V14),
            omit("scrub", one!(SCRUB_CONFIG)).since(V14),
        ],
    ],
);

pub(super) static SYSTEM_VOLUME_FILESYSTEM_SPEC: Struct =
    record("block.SystemVolumeFilesystemSpec", &[&[omit("xfs", one!(XFS_SPEC))]]);

pub(super) static MOUNT_SPEC: Struct = record(
    "block.MountSpec",
    &[&[omit("secure", FLAG).since(V13), omit("disableAccessTime", FLAG).since(V14)]],
);

pub(super) static ZSWAP_CONFIG: Struct = record(
    "block.ZswapConfigV1Alpha1",
    &[META, &[omit("maxPoolPercent", ptr(&INT)), omit("shrinkerEnabled", FLAG)]],
);
