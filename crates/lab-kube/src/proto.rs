//! Decoder of protocol buffer bodies. It supports the kinds that `kubectl create` sends in this form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Prefix of every protocol buffer body.
const MAGIC: &[u8] = b"k8s\0";
/// Maximum nesting depth of protocol buffer messages.
const MAX_DEPTH: usize = 16;

/// Type of a protocol buffer field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Texts,
    Number,
    Flag,
    /// Mapping of strings to strings.
    TextMap,
    /// Mapping of strings to bytes.
    ByteMap,
    One(Message),
    Many(Message),
    /// Number or string (`IntOrString`).
    Either,
}

type Field = (u64, &'static str, Type);
type Message = &'static [Field];

use Type::{ByteMap, Either, Flag, Many, Number, One, Text, TextMap, Texts};

const METADATA: Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (14, "finalizers", Texts),
];
const REFERENCE: Message = &[(1, "name", Text)];
const REQUIREMENT: Message = &[(1, "key", Text), (2, "operator", Text), (3, "values", Texts)];
const SELECTOR: Message =
    &[(1, "matchLabels", TextMap), (2, "matchExpressions", Many(REQUIREMENT))];
const CONTAINER_PORT: Message = &[
    (1, "name", Text),
    (2, "hostPort", Number),
    (3, "containerPort", Number),
    (4, "protocol", Text),
];
const ENVIRONMENT: Message = &[(1, "name", Text), (2, "value", Text)];
const CONTAINER: Message = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (6, "ports", Many(CONTAINER_PORT)),
    (7, "env", Many(ENVIRONMENT)),
];
const POD_SPEC: Message = &[
    (2, "containers", Many(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Number),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", TextMap),
    (8, "serviceAccountName", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", Flag),
];
const TEMPLATE: Message = &[(1, "metadata", One(METADATA)), (2, "spec", One(POD_SPEC))];
const DEPLOYMENT_SPEC: Message =
    &[(1, "replicas", Number), (2, "selector", One(SELECTOR)), (3, "template", One(TEMPLATE))];
const JOB_SPEC: Message = &[
    (1, "parallelism", Number),
    (2, "completions", Number),
    (6, "template", One(TEMPLATE)),
    (7, "backoffLimit", Number),
];
const JOB_TEMPLATE: Message = &[(1, "metadata", One(METADATA)), (2, "spec", One(JOB_SPEC))];
const CRON_JOB_SPEC: Message = &[
    (1, "schedule", Text),
    (3, "concurrencyPolicy", Text),
    (4, "suspend", Flag),
    (5, "jobTemplate", One(JOB_TEMPLATE)),
    (8, "timeZone", Text),
];
const BUDGET_SPEC: Message = &[
    (1, "minAvailable", Either),
    (2, "selector", One(SELECTOR)),
    (3, "maxUnavailable", Either),
    (4, "unhealthyPodEvictionPolicy", Text),
];
const SERVICE_PORT: Message = &[
    (1, "name", Text),
    (2, "protocol", Text),
    (3, "port", Number),
    (4, "targetPort", Either),
    (5, "nodePort", Number),
];
const SERVICE_SPEC: Message = &[
    (1, "ports", Many(SERVICE_PORT)),
    (2, "selector", TextMap),
    (3, "clusterIP", Text),
    (4, "type", Text),
    (10, "externalName", Text),
];
const RULE: Message = &[
    (1, "verbs", Texts),
    (2, "apiGroups", Texts),
    (3, "resources", Texts),
    (4, "resourceNames", Texts),
    (5, "nonResourceURLs", Texts),
];
const SUBJECT: Message =
    &[(1, "kind", Text), (2, "apiGroup", Text), (3, "name", Text), (4, "namespace", Text)];
const ROLE: Message = &[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)];
const TOKEN_SPEC: Message = &[(1, "audiences", Texts), (4, "expirationSeconds", Number)];
const PRECONDITIONS: Message = &[(1, "uid", Text), (2, "resourceVersion", Text)];
const DELETE_OPTIONS: Message = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", One(PRECONDITIONS)),
    (3, "orphanDependents", Flag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];
const RESOURCE: Message = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const PATH: Message = &[(1, "path", Text), (2, "verb", Text)];
const ACCESS: Message =
    &[(1, "resourceAttributes", One(RESOURCE)), (2, "nonResourceAttributes", One(PATH))];

fn message(kind: &str) -> Option<Message> {
    const META: Field = (1, "metadata", One(METADATA));
    Some(match kind {
        "Namespace" | "SelfSubjectReview" => &[META],
        "ConfigMap" => {
            &[META, (2, "data", TextMap), (3, "binaryData", ByteMap), (4, "immutable", Flag)]
        }
        "Secret" => &[
            META,
            (2, "data", ByteMap),
            (3, "type", Text),
            (4, "stringData", TextMap),
            (5, "immutable", Flag),
        ],
        "ServiceAccount" => &[META, (3, "imagePullSecrets", Many(REFERENCE))],
        "TokenRequest" => &[META, (2, "spec", One(TOKEN_SPEC))],
        "Service" => &[META, (2, "spec", One(SERVICE_SPEC))],
        "Pod" => TEMPLATE,
        "Deployment" => &[META, (2, "spec", One(DEPLOYMENT_SPEC))],
        "Job" => &[META, (2, "spec", One(JOB_SPEC))],
        "CronJob" => &[META, (2, "spec", One(CRON_JOB_SPEC))],
        "PodDisruptionBudget" => &[META, (2, "spec", One(BUDGET_SPEC))],
        "PriorityClass" => &[
            META,
            (2, "value", Number),
            (3, "globalDefault", Flag),
            (4, "description", Text),
            (5, "preemptionPolicy", Text),
        ],
        "Role" | "ClusterRole" => &[META, (2, "rules", Many(RULE))],
        "RoleBinding" | "ClusterRoleBinding" => {
            &[META, (2, "subjects", Many(SUBJECT)), (3, "roleRef", One(ROLE))]
        }
        "Eviction" => &[META, (2, "deleteOptions", One(DELETE_OPTIONS))],
        "DeleteOptions" => DELETE_OPTIONS,
        "SelfSubjectAccessReview" => &[META, (2, "spec", One(ACCESS))],
        _ => return None,
    })
}

/// Decodes the object in a request body; `None` for an unknown kind or malformed bytes.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    let mut envelope = WireReader(body.strip_prefix(MAGIC)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), vec![]);
    while let Some((number, part)) = envelope.next()? {
        match (number, part) {
            (1, WireValue::Bytes(meta)) => {
                let mut meta = WireReader(meta);
                while let Some((number, part)) = meta.next()? {
                    match number {
                        1 => api_version = part.text()?,
                        2 => kind = part.text()?,
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(bytes)) => raw = bytes.to_vec(),
            _ => {}
        }
    }
    let mut object = object(message(&kind)?, &raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Some(Value::Object(object))
}

fn object(fields: Message, bytes: &[u8], depth: usize) -> Option<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut object = Map::new();
    let mut reader = WireReader(bytes);
    while let Some((number, part)) = reader.next()? {
        let Some((_, name, kind)) = fields.iter().find(|(known, ..)| *known == number) else {
            continue;
        };
        let name = (*name).to_owned();
        let list = |object: &mut Map<String, Value>, item: Value| {
            let all = object.entry(name.clone()).or_insert_with(|| json!([]));
            all.as_array_mut().map(|all| all.push(item))
        };
        let value: Value = match kind {
            Texts => {
                list(&mut object, part.text()?.into())?;
                continue;
            }
            Many(fields) => {
                let item = self::object(fields, part.bytes()?, depth + 1)?;
                list(&mut object, Value::Object(item))?;
                continue;
            }
            TextMap | ByteMap => {
                let (key, value) = entry(part.bytes()?)?;
                let value = match kind {
                    TextMap => String::from_utf8(value).ok()?,
                    _ => STANDARD.encode(value),
                };
                let map = object.entry(name).or_insert_with(|| json!({}));
                map[key] = value.into();
                continue;
            }
            One(fields) => Value::Object(self::object(fields, part.bytes()?, depth + 1)?),
            Number => part.number()?.into(),
            Flag => (part.number()? != 0).into(),
            Either => either(part.bytes()?)?,
            Text => part.text()?.into(),
        };
        // An empty string is the encoding of a missing string.
        if value != "" {
            object.insert(name, value);
        }
    }
    Some(object)
}

fn entry(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut reader = WireReader(bytes);
    let (mut key, mut value) = (String::new(), vec![]);
    while let Some((number, part)) = reader.next()? {
        match number {
            1 => key = part.text()?,
            2 => value = part.bytes()?.to_vec(),
            _ => {}
        }
    }
    Some((key, value))
}

fn either(bytes: &[u8]) -> Option<Value> {
    let mut reader = WireReader(bytes);
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    while let Some((field, part)) = reader.next()? {
        match field {
            1 => is_text = part.number()? == 1,
            2 => number = part.number()?,
            3 => text = part.text()?,
            _ => {}
        }
    }
    Some(if is_text { text.into() } else { number.into() })
}

struct WireReader<'b>(&'b [u8]);

enum WireValue<'b> {
    Number(i64),
    Bytes(&'b [u8]),
}

impl<'b> WireValue<'b> {
    fn bytes(self) -> Option<&'b [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn number(self) -> Option<i64> {
        if let Self::Number(number) = self { Some(number) } else { None }
    }

    fn text(self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

impl<'b> WireReader<'b> {
    /// Reads the next field with its number. The outer `None` means malformed input, the inner `None` means the end of the
    /// input.
    #[expect(clippy::option_option, reason = "broken, at the end, or a field")]
    fn next(&mut self) -> Option<Option<(u64, WireValue<'b>)>> {
        if self.0.is_empty() {
            return Some(None);
        }
        let key = self.varint()?;
        let part = match key & 7 {
            0 => WireValue::Number(self.varint()?.cast_signed()),
            1 => WireValue::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Bytes(self.take(4)?),
            _ => return None,
        };
        Some(Some((key >> 3, part)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for at in 0..10 {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        [&[number << 3 | 2, length], bytes].concat()
    }

    #[test]
    fn a_config_map_is_decoded_and_garbage_is_rejected() {
        let metadata = field(1, b"conf");
        let data = [field(1, b"key"), field(2, b"value")].concat();
        let raw = [field(1, &metadata), field(2, &data)].concat();
        let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
        let body = [MAGIC.to_vec(), field(1, &kind), field(2, &raw)].concat();
        let wanted = json!({
            "metadata": {"name": "conf"},
            "data": {"key": "value"},
            "apiVersion": "v1",
            "kind": "ConfigMap",
        });
        assert_eq!(read(&body), Some(wanted));
        for end in 0..body.len() {
            assert_eq!(read(&body[..end]).filter(|read| read["data"].is_object()), None, "{end}");
        }
        assert_eq!(read(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
