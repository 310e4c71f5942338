//! Files that `destroy` deletes from storages, and files that it keeps.

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::plan::Plan;
use talmox_plan::planning::{DestroyOptions, destroy};
use talmox_pve_types::api::storage::Volume;

use crate::observed_state::{host, settled, vmid};
use crate::support::{home, ids, single, warnings};

const OWN: &str = "local:import/talos-v1.11.2-nocloud-amd64-376567988ad37013.qcow2";
const OLD: &str = "local:import/talos-v1.11.1-nocloud-amd64-376567988ad37013.qcow2";

fn volume(name: &str, size: u64) -> Volume {
    let volid = name.parse().unwrap();
    Volume { volid, format: None, size: Some(size), created: None, vmid: None }
}

/// A cluster with these files on both hosts.
fn with_files(desired: &Desired, files: &[Volume]) -> Observed {
    let mut observed = settled(desired);
    for name in ["pve1", "pve2"] {
        let place = (host(name), "local".parse().unwrap());
        observed.images.contents.insert(place, Ok(files.to_vec()));
    }
    observed
}

fn end(desired: &Desired, observed: &Observed) -> Plan {
    destroy(desired, observed, DestroyOptions { images: true, secrets: false })
}

fn image_steps(plan: &Plan) -> Vec<&str> {
    ids(plan).into_iter().filter(|id| id.starts_with("image/")).collect()
}

#[test]
fn images_of_the_inventory_are_deleted_on_every_host() {
    let desired = home();
    let files = [OWN, OLD, "local:import/mine.qcow2"].map(|name| volume(name, 1 << 28));
    let observed = with_files(&desired, &files);
    let plan = end(&desired, &observed);
    let file = OWN.rsplit('/').next().unwrap();
    let expected = ["pve1", "pve2"].map(|host| format!("image/{host}/local/{file}/delete"));
    assert_eq!(image_steps(&plan), expected);
    let kept = format!("{OLD} is kept: this inventory does not use it, but another one may");
    assert_eq!(warnings(&plan), ["pve1", "pve2"].map(|host| format!("{host}: {kept}")));
    let delete = plan.steps.iter().find(|step| step.id.as_str() == expected[0]).unwrap();
    assert_eq!(delete.after.len(), 5, "only when the VMs are gone");
    let without = destroy(&desired, &observed, DestroyOptions::default());
    assert_eq!(image_steps(&without), Vec::<&str>::new());
}

#[test]
fn images_in_use_are_kept() {
    let desired = home();
    let mut observed = with_files(&desired, &[volume(OWN, 1 << 28)]);
    observed.images.busy.insert(host("pve2"), "VM 900 is being made there".to_owned());
    let plan = end(&desired, &observed);
    assert_eq!(image_steps(&plan).len(), 1);
    let busy = format!("{OWN} is kept: a task may be reading it: VM 900 is being made there");
    assert_eq!(warnings(&plan), [format!("pve2: {busy}")]);

    for storage in &mut observed.pve.resources.storages {
        storage.shared = true;
    }
    let plan = end(&desired, &observed);
    assert_eq!(image_steps(&plan), Vec::<&str>::new(), "of a shared storage all hosts read");

    observed.images.busy.clear();
    observed.images.used.insert(OWN.parse().unwrap(), vmid(100));
    let plan = end(&desired, &observed);
    assert_eq!(image_steps(&plan), Vec::<&str>::new());
    assert!(warnings(&plan)[0].ends_with("is kept: VM 100 uses it"), "{:?}", warnings(&plan));
}

#[test]
fn images_that_another_cluster_may_use_are_kept() {
    let desired = home();
    let mut observed = with_files(&desired, &[volume(OWN, 1 << 28)]);
    observed.images.others.insert(host("pve2"), vmid(700));
    let plan = end(&desired, &observed);
    let file = OWN.rsplit('/').next().unwrap();
    assert_eq!(image_steps(&plan), [format!("image/pve1/local/{file}/delete")]);
    let why = "is kept: VM 700 belongs to another cluster, which may use the image too";
    assert_eq!(warnings(&plan), [format!("pve2: {OWN} {why}")]);

    for storage in &mut observed.pve.resources.storages {
        storage.shared = true;
    }
    assert_eq!(image_steps(&end(&desired, &observed)), Vec::<&str>::new(), "all hosts read of it");
}

#[test]
fn without_the_right_no_image_is_deleted() {
    let desired = home();
    let mut observed = with_files(&desired, &[volume(OWN, 1 << 28)]);
    observed.pve.permissions.0.get_mut("/").unwrap().remove("Datastore.Allocate");
    let plan = end(&desired, &observed);
    assert_eq!(image_steps(&plan), Vec::<&str>::new());
    let why = "is kept: the token lacks Datastore.Allocate on /storage/local";
    assert!(warnings(&plan).iter().all(|warning| warning.ends_with(why)), "{:?}", warnings(&plan));
}

#[test]
fn uploads_with_configs_are_always_deleted() {
    let desired = single("boot: cidata");
    let mark = desired.mark.clone();
    let own = format!("local:import/talmox-{mark}-cp-1.raw");
    let other = "local:import/talmox-0011223344556677-cp-1.raw";
    let mut observed = with_files(&desired, &[volume(&own, 2 << 20), volume(other, 2 << 20)]);
    observed.images.contents.remove(&(host("pve2"), "local".parse().unwrap()));
    let plan = destroy(&desired, &observed, DestroyOptions::default());
    let step = format!("image/pve1/local/talmox-{mark}-cp-1.raw/scrub");
    assert_eq!(image_steps(&plan), [step.as_str()]);

    observed.pve.permissions.0.get_mut("/").unwrap().remove("Datastore.Allocate");
    let plan = destroy(&desired, &observed, DestroyOptions::default());
    assert_eq!(image_steps(&plan), [step.as_str()], "zeros are written over it");
    let place = (host("pve1"), "local".parse().unwrap());
    observed.images.contents.insert(place, Ok(vec![volume(&own, 4096)]));
    let plan = destroy(&desired, &observed, DestroyOptions::default());
    assert_eq!(image_steps(&plan), Vec::<&str>::new(), "they are written already");
    assert_eq!(warnings(&plan).len(), 1);
}
