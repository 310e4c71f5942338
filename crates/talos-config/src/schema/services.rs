//! Schema of the documents about registries, extensions, logs, devices and trust.

use super::{
    CEL, DURATION, FLAG, META, Struct, TEXT, TEXT_MAP, TEXTS, URL, V10, V13, keep, many, omit, one,
    record,
};

pub(super) static ENVIRONMENT: Struct =
    record("runtime.EnvironmentV1Alpha1", &[META, &[keep("variables", TEXT_MAP).secret()]]);

pub(super) static EVENT_SINK: Struct =
    record("runtime.EventSinkV1Alpha1", &[META, &[keep("endpoint", TEXT)]]);

pub(super) static EXTENSION_SERVICE: Struct = record(
    "extensions.ServiceConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("configFiles", many!(CONFIG_FILE, ByKey("mountPath"))),
            omit("environment", TEXTS).secret(),
        ],
    ],
);

pub(super) static CONFIG_FILE: Struct =
    record("extensions.ConfigFile", &[&[keep("content", TEXT).secret(), keep("mountPath", TEXT)]]);

pub(super) static IMAGE_VERIFICATION_CONFIG: Struct = record(
    "security.ImageVerificationConfigV1Alpha1",
    &[META, &[omit("rules", many!(IMAGE_VERIFICATION_RULE, ReplaceByKey("image")))]],
);

pub(super) static IMAGE_VERIFICATION_RULE: Struct = record(
    "security.ImageVerificationRuleV1Alpha1",
    &[&[
        omit("image", TEXT),
        omit("skip", FLAG),
        omit("deny", FLAG),
        omit("keyless", one!(IMAGE_KEYLESS_VERIFIER)),
        omit("publicKey", one!(IMAGE_PUBLIC_KEY_VERIFIER)),
    ]],
);

pub(super) static IMAGE_KEYLESS_VERIFIER: Struct = record(
    "security.ImageKeylessVerifierV1Alpha1",
    &[&[omit("issuer", TEXT), omit("subject", TEXT), omit("subjectRegex", TEXT)]],
);

pub(super) static IMAGE_PUBLIC_KEY_VERIFIER: Struct =
    record("security.ImagePublicKeyVerifierV1Alpha1", &[&[omit("certificate", TEXT)]]);

pub(super) static KMSG_LOG: Struct =
    record("runtime.KmsgLogV1Alpha1", &[META, &[keep("name", TEXT), keep("url", URL)]]);

pub(super) static OOM: Struct = record(
    "runtime.OOMV1Alpha1",
    &[
        META,
        &[
            omit("triggerExpression", CEL),
            omit("cgroupRankingExpression", CEL),
            omit("strictCgroupClassOrdering", FLAG).since(V13),
            omit("sampleInterval", DURATION),
        ],
    ],
);

pub(super) static PCI_DRIVER_REBIND_CONFIG: Struct = record(
    "hardware.PCIDriverRebindConfigV1Alpha1",
    &[META, &[keep("name", TEXT), keep("targetDriver", TEXT)]],
);

pub(super) static REGISTRY_AUTH_CONFIG: Struct = record(
    "cri.RegistryAuthConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("username", TEXT).secret(),
            omit("password", TEXT).secret(),
            omit("auth", TEXT).secret(),
            omit("identityToken", TEXT).secret(),
        ],
    ],
);

pub(super) static REGISTRY_MIRROR_CONFIG: Struct = record(
    "cri.RegistryMirrorConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("endpoints", many!(REGISTRY_ENDPOINT)),
            omit("skipFallback", FLAG),
        ],
    ],
);

pub(super) static REGISTRY_ENDPOINT: Struct =
    record("cri.RegistryEndpoint", &[&[keep("url", URL), omit("overridePath", FLAG)]]);

pub(super) static REGISTRY_TLS_CONFIG: Struct = record(
    "cri.RegistryTLSConfigV1Alpha1",
    &[
        META,
        &[
            keep("name", TEXT),
            omit("clientIdentity", one!(CLIENT_IDENTITY)),
            omit("ca", TEXT),
            omit("insecureSkipVerify", FLAG),
        ],
    ],
);

pub(super) static CLIENT_IDENTITY: Struct =
    record("meta.CertificateAndKey", &[&[omit("cert", TEXT).secret(), omit("key", TEXT).secret()]]);

pub(super) static SIDERO_LINK: Struct = record(
    "siderolink.ConfigV1Alpha1",
    &[META, &[keep("apiUrl", URL).secret(), omit("uniqueToken", TEXT).secret().since(V10)]],
);

pub(super) static TRUSTED_ROOTS_CONFIG: Struct = record(
    "security.TrustedRootsConfigV1Alpha1",
    &[META, &[keep("name", TEXT), keep("certificates", TEXT)]],
);

pub(super) static WATCHDOG_TIMER: Struct = record(
    "runtime.WatchdogTimerV1Alpha1",
    &[META, &[keep("device", TEXT), omit("timeout", DURATION)]],
);
