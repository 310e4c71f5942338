//! Tests of the etcd calls, before and while etcd runs. The expected results were observed on real nodes (v1.12.0 and v1.13.6).

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_clock::Clock;
use talmox_talos_api::client::{CopyError, ResourceKind, Service};
use talmox_talos_api::proto::machine::machine_service_client::MachineServiceClient;
use talmox_talos_api::proto::machine::{
    EtcdForfeitLeadershipRequest, EtcdMemberListRequest, EtcdRemoveMemberByIdRequest,
    EtcdSnapshotRequest,
};
use talmox_talos_api::{Client, Code, TalosError};
use tonic::{Request, Status};

use super::raw_client::Raw;
use super::test_bed::{TestBed, until};

type MachineClient = MachineServiceClient<Raw>;

/// Deadline of the etcd calls, in real time.
const DEADLINE: Duration = Duration::from_millis(400);

async fn machine(bed: &TestBed, number: u8) -> MachineClient {
    MachineServiceClient::with_origin(bed.raw(number).await, "https://node".parse().unwrap())
}

/// Request with a short deadline.
fn brief<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

async fn service(client: &Client, id: &str) -> Option<Service> {
    client.services().await.ok()?.into_iter().find(|service| service.id == id)
}

/// Observed on real nodes whose etcd does not run: `EtcdMemberList`, `EtcdStatus` and `EtcdAlarmList` hang until the deadline
/// of the caller. `ServiceList` and service resources are answered at once. `Bootstrap` is accepted at once. A read of the
/// database file is answered with NotFound.
#[test]
fn etcd_calls_wait_while_etcd_does_not_run() {
    let bed = TestBed::new("v1.12.7");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.configure(11, true).await;
        let waiting = until("etcd to wait", || async {
            service(&client, "etcd").await.filter(|etcd| etcd.state == "Preparing")
        });
        assert_eq!(waiting.await.message, "Running pre state");

        let mut node = machine(&bed, 11).await;
        let local = EtcdMemberListRequest { query_local: true };
        let mut late: BTreeMap<&str, (Status, Duration)> = BTreeMap::new();
        let clock = Clock::real();
        macro_rules! rejected {
            ($name:ident, $message:expr) => {
                let before = clock.moment();
                let status = node.$name(brief($message)).await.unwrap_err();
                late.insert(stringify!($name), (status, clock.moment().since(before)));
            };
        }
        rejected!(etcd_member_list, local);
        rejected!(etcd_member_list, EtcdMemberListRequest { query_local: false });
        rejected!(etcd_status, ());
        rejected!(etcd_alarm_list, ());
        rejected!(etcd_alarm_disarm, ());
        rejected!(etcd_defragment, ());
        rejected!(etcd_forfeit_leadership, EtcdForfeitLeadershipRequest {});
        rejected!(etcd_remove_member_by_id, EtcdRemoveMemberByIdRequest { member_id: 1 });
        rejected!(etcd_snapshot, EtcdSnapshotRequest {});
        for (name, (status, took)) in late {
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{name}: {status}");
            assert!(took >= DEADLINE, "{name} was answered after {took:?}");
        }
        match client.etcd_database(vec![]).await.unwrap_err() {
            CopyError::Talos(TalosError::No { code, .. }) => assert_eq!(code, Code::NotFound),
            other => panic!("{other:?}"),
        }

        // A call without a deadline waits until etcd runs.
        let mut patient = machine(&bed, 11).await;
        let open = tokio::spawn(async move { patient.etcd_member_list(local).await });
        Clock::real().sleep(DEADLINE).await;
        assert!(!open.is_finished());
        until("bootstrap", || async { client.bootstrap().await.ok() }).await;
        let answered = open.await.unwrap().unwrap().into_inner().messages.remove(0);
        assert_eq!(answered.legacy_members, ["node-11"]);
        bed.ready(&client).await;
        // Observed on real nodes: after `Bootstrap`, `EtcdMemberList` and `EtcdStatus` are answered at once.
        assert!(node.etcd_status(brief(())).await.is_ok());
    });
    bed.lab.stop();
}

/// machined asks all known control-plane nodes for the member list, unless the caller requests only the local one.
#[test]
fn etcd_members_are_queried_through_other_control_planes() {
    let bed = TestBed::new("v1.13.6");
    bed.fault("{node: node-12, slow: 1000h}");
    bed.start(11);
    bed.start(12);
    bed.lab.wait(async {
        bed.bootstrap(11).await;
        bed.configure(12, true).await;
        let mut second = machine(&bed, 12).await;
        let all = EtcdMemberListRequest { query_local: false };
        let members = second.etcd_member_list(all).await.unwrap().into_inner();
        assert_eq!(members.messages[0].legacy_members, ["node-11"]);
        let local = brief(EtcdMemberListRequest { query_local: true });
        let late = second.etcd_member_list(local).await.unwrap_err();
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded, "{late}");
    });
    bed.lab.stop();
}

/// Observed on real nodes while the time is not in sync: 1.13.6 answers `Bootstrap` with "bootstrap is not available yet".
/// 1.12.0 answers with "time is not in sync yet".
#[test]
fn bootstrap_is_rejected_before_time_sync() {
    for (version, reason) in
        [("v1.12.7", "time is not in sync yet"), ("v1.13.6", "bootstrap is not available yet")]
    {
        let bed = TestBed::new(version);
        bed.start_alone(11);
        bed.lab.wait(async {
            let client = bed.configure(11, true).await;
            until("the container runtime", || async {
                service(&client, "cri").await.filter(Service::is_fine)
            })
            .await;
            let mut node = machine(&bed, 11).await;
            let status = node.bootstrap(bootstrap()).await.unwrap_err();
            let expected = (tonic::Code::FailedPrecondition, reason);
            assert_eq!((status.code(), status.message()), expected, "{version}");
            // etcd, the kubelet and trustd do not start before the time is synchronized.
            for id in ["etcd", "kubelet", "trustd"] {
                let waiting = service(&client, id).await.unwrap();
                assert_eq!(waiting.state, "Waiting", "{version}: {waiting:?}");
                assert!(waiting.message.contains("time sync"), "{version}: {waiting:?}");
            }
        });
        bed.lab.stop();
    }
}

fn bootstrap() -> talmox_talos_api::proto::machine::BootstrapRequest {
    talmox_talos_api::proto::machine::BootstrapRequest::default()
}

/// Members report the version that is also the tag of the image: 3.6.7 on Talos 1.12.0, and 3.6.12 on 1.13.6.
#[test]
fn etcd_versions_are_consistent() {
    for (talos, etcd, storage) in [("v1.12.0", "3.6.7", "3.6.0"), ("v1.13.6", "3.6.12", "3.6.0")] {
        let bed = TestBed::new(talos);
        bed.start(11);
        bed.lab.wait(async {
            let client = bed.bootstrap(11).await;
            let status = client.etcd_status().await.unwrap();
            assert_eq!(
                (status.protocol_version.as_str(), &*status.storage_version),
                (etcd, storage)
            );
            let kind = ResourceKind::new("etcd", "EtcdSpecs.etcd.talos.dev");
            let spec = client.get(kind, "etcd").await.unwrap().unwrap();
            assert_eq!(spec.text("image").unwrap(), format!("registry.k8s.io/etcd:v{etcd}"));
        });
        bed.lab.stop();
    }
}

/// The snapshot must have valid checksums. bbolt reports `checksum error` for a meta page with a wrong checksum.
#[test]
fn a_snapshot_is_a_valid_etcd_database() {
    use aws_lc_rs::digest::{SHA256, digest};

    let bed = TestBed::new("v1.13.6");
    bed.start(11);
    bed.lab.wait(async {
        let client = bed.bootstrap(11).await;
        // The snapshot contains the Node object, because the kubelet has registered the node.
        let snapshot = until("a snapshot with the node", || async {
            let snapshot = client.etcd_snapshot().await.ok()?.all().await.ok()?;
            let wanted = b"/registry/minions/node-11";
            snapshot.windows(wanted.len()).any(|part| part == wanted).then_some(snapshot)
        })
        .await;
        assert_eq!(snapshot.len() % 512, 32);
        let (file, sum) = snapshot.split_at(snapshot.len() - 32);
        assert_eq!(digest(&SHA256, file).as_ref(), sum);

        let bolt = Bolt::open(file);
        let buckets = bolt.bucket(bolt.root);
        let names: Vec<&str> =
            buckets.keys().map(|name| std::str::from_utf8(name).unwrap()).collect();
        for name in ["alarm", "auth", "cluster", "key", "lease", "members", "meta"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let root = |name: &str| u64_at(&buckets[name.as_bytes()], 0);
        let meta = bolt.bucket(root("meta"));
        assert_eq!(meta[&b"storageVersion"[..]], b"3.6.0");
        assert_eq!(meta[&b"consistent_index"[..]].len(), 8);
        let keys = bolt.bucket(root("key"));
        // The key of a revision consists of eight bytes, an underscore, and eight bytes.
        assert!(keys.keys().all(|key| key.len() == 17 && key[8] == b'_'));
        let has = |wanted: &str| {
            keys.values().any(|entry| {
                let own = &entry[2..2 + usize::from(entry[1])];
                entry[0] == 0x0a && own == wanted.as_bytes()
            })
        };
        assert!(has("/registry/minions/node-11"));
        assert!(has("/registry/namespaces/kube-system"));
        assert_eq!(bolt.pages_seen(), bolt.end, "every page is of some bucket");
    });
    bed.lab.stop();
}

/// Key with its value, or with the number of a child page.
type Element<'f> = (&'f [u8], Result<&'f [u8], u64>);

/// Reader of the bbolt format. It is independent of the writer in the lab.
struct Bolt<'f> {
    file: &'f [u8],
    root: u64,
    /// Number of pages of the database.
    end: u64,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()).try_into().unwrap()
}

impl<'f> Bolt<'f> {
    fn open(file: &'f [u8]) -> Self {
        let metas = [0, 4096].map(|start| {
            let page = &file[start..start + 4096];
            assert_eq!(page[8..10], [4, 0], "a meta page");
            assert_eq!(u32_at(page, 16), 0xED0C_DAED);
            assert_eq!((u32_at(page, 20), u32_at(page, 24)), (2, 4096));
            let mut sum = 0xcbf2_9ce4_8422_2325_u64;
            for byte in &page[16..72] {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            assert_eq!(u64_at(page, 72), sum, "checksum error");
            assert_eq!(u64_at(page, 0), u64_at(page, 64) % 2, "a meta page in its place");
            page
        });
        let newest = metas.into_iter().max_by_key(|page| u64_at(page, 64)).unwrap();
        let free = usize::try_from(u64_at(newest, 48)).unwrap() * 4096;
        assert_eq!(file[free + 8..free + 12], [0x10, 0, 0, 0], "no page is free");
        let end = u64_at(newest, 56);
        assert_eq!(file.len(), usize::try_from(end).unwrap() * 4096);
        Self { file, root: u64_at(newest, 32), end }
    }

    fn page(&self, id: u64) -> &'f [u8] {
        let page = &self.file[usize::try_from(id).unwrap() * 4096..];
        assert_eq!(u64_at(page, 0), id, "a page in its place");
        page
    }

    /// Elements of a page. Each is a key with its value, or with the number of a child page.
    fn elements(&self, id: u64) -> Vec<Element<'f>> {
        let page = self.page(id);
        let count = usize::from(u16::from_le_bytes([page[10], page[11]]));
        let elements = (0..count).map(|index| &page[16 + index * 16..]);
        elements
            .map(|element| match page[8] {
                1 => {
                    let (start, length) = (u32_at(element, 0), u32_at(element, 4));
                    (&element[start..start + length], Err(u64_at(element, 8)))
                }
                2 => {
                    let start = u32_at(element, 4);
                    let value = start + u32_at(element, 8);
                    (&element[start..value], Ok(&element[value..value + u32_at(element, 12)]))
                }
                other => panic!("a page of kind {other}"),
            })
            .collect()
    }

    fn bucket(&self, root: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::new();
        let elements = self.elements(root);
        assert!(elements.is_sorted_by_key(|(key, _)| *key));
        for (key, value) in elements {
            match value {
                Ok(value) => drop(all.insert(key.to_vec(), value.to_vec())),
                Err(page) => all.extend(self.bucket(page)),
            }
        }
        all
    }

    /// Number of pages that are found: the pages of buckets, the meta pages and the free list.
    fn pages_seen(&self) -> u64 {
        let roots = self.elements(self.root).into_iter().map(|(_, value)| value.unwrap());
        let trees = roots.map(|header| u64_at(header, 0)).filter(|root| *root != 0);
        3 + self.length(self.root) + trees.map(|root| self.pages_of(root)).sum::<u64>()
    }

    fn pages_of(&self, root: u64) -> u64 {
        let children = self.elements(root).into_iter().filter_map(|(_, value)| value.err());
        self.length(root) + children.map(|child| self.pages_of(child)).sum::<u64>()
    }

    fn length(&self, id: u64) -> u64 {
        1 + u64::try_from(u32_at(self.page(id), 12)).unwrap()
    }
}
