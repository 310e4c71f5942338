//! Templates: whether they fit the nodes, and how they are created.

use talmox_plan::desired::Desired;
use talmox_plan::observed::Observed;
use talmox_plan::ownership::TemplateMark;
use talmox_plan::plan::{Action, Plan};
use talmox_plan::planning;

use crate::observed_state::{described_template, empty, template, vmid};
use crate::support::{errors, ids, plan, single, warnings};

const NAME: &str = "talos-v1.11.2-base";

fn clone(settings: &str) -> Desired {
    single(&format!("boot: template, template: {NAME}, disk: 20G{settings}"))
}

/// The plan of `template create`.
fn create(desired: &Desired, observed: &Observed) -> Plan {
    planning::templates(desired, observed, &[vmid(9000)])
}

/// An observed state with a template that has this Talos version and this schematic.
fn observed_with(talos: &str, schematic: &str) -> Observed {
    let mut observed = empty();
    let mark = TemplateMark { talos: talos.to_owned(), schematic: schematic.to_owned() };
    described_template(
        &mut observed,
        9000,
        NAME,
        &format!("Ask Ann first.\n\n{}", mark.description()),
    );
    observed
}

#[test]
fn the_contents_of_a_template_are_checked() {
    let desired = clone("");
    let made = create(&desired, &empty());
    let description = made.steps.iter().find_map(|step| match &step.action {
        Action::MakeTemplate(make) => make.options.get("description"),
        _ => None,
    });
    let mark = TemplateMark::find(description.unwrap()).unwrap();
    assert_eq!(mark.talos, "v1.11.2");
    assert_eq!(Some(&mark.schematic), desired.nodes[0].schematic.as_ref());

    let observed = observed_with(&mark.talos, &mark.schematic);
    let found = plan(&desired, &observed);
    assert!(ids(&found).contains(&"vm/cp-1/clone"), "{:?}", ids(&found));
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    assert!(create(&desired, &observed).is_empty());

    let other = clone(", image: {extensions: [siderolabs/qemu-guest-agent]}");
    let wanted = &other.nodes[0].schematic.as_ref().unwrap()[..16];
    let reported = format!(
        "pve1/{NAME}: nodes cannot be cloned from it: it has the schematic {}…, and {wanted}… is needed",
        &mark.schematic[..16]
    );
    assert_eq!(errors(&plan(&other, &observed)), [reported.as_str()]);
    let made = create(&other, &observed);
    assert_eq!(errors(&made), [reported.as_str()]);
    assert!(made.is_empty());
    let hint = made.findings[0].hint.as_deref().unwrap();
    assert!(hint.contains("on pve1: qm destroy 9000"), "{hint}");

    let observed = observed_with("v1.10.5", &mark.schematic);
    let reported = format!(
        "pve1/{NAME}: nodes cannot be cloned from it: it has Talos v1.10.5, and v1.11.2 is needed"
    );
    assert_eq!(errors(&plan(&desired, &observed)), [reported.as_str()]);
    assert_eq!(errors(&create(&desired, &observed)), [reported]);
}

#[test]
fn a_template_without_a_description_is_checked_by_its_name() {
    let mut observed = empty();
    for (number, name) in [(9000, "talos-v1.10.5-base"), (9001, "golden")] {
        template(&mut observed, number, name);
    }
    let clone = |name: &str| single(&format!("boot: template, template: {name}, disk: 20G"));
    let old = plan(&clone("talos-v1.10.5-base"), &observed);
    assert_eq!(errors(&old), Vec::<String>::new());
    assert_eq!(
        warnings(&old),
        [
            "pve1/talos-v1.10.5-base: by its name the template has Talos v1.10.5, and the nodes need v1.11.2"
        ]
    );
    // A node can refer to the template by vmid.
    assert_eq!(warnings(&plan(&clone("9000"), &observed)), warnings(&old));
    assert_eq!(warnings(&plan(&clone("golden"), &observed)), Vec::<String>::new());
}

#[test]
fn problems_of_a_new_template_are_reported_before_any_change() {
    let mut observed = empty();
    let no_storage = create(&clone(", datastore: nosuch"), &observed);
    assert_eq!(
        errors(&no_storage),
        ["pve1/nosuch: the host has no such storage; it has: local, local-lvm"]
    );
    let no_host = create(&clone(", host: pve9"), &observed);
    assert_eq!(errors(&no_host), ["pve9: Proxmox has no such host; it has: pve1, pve2"]);
    let lvm =
        observed.pve.resources.storages.iter_mut().find(|one| one.storage.as_str() == "local-lvm");
    lvm.unwrap().content = vec!["rootdir".to_owned()];
    let no_content = create(&clone(""), &observed);
    assert_eq!(
        errors(&no_content),
        ["pve1/local-lvm: the storage does not allow the content type images"]
    );
}

#[test]
fn an_old_proxmox_can_clone_an_existing_template() {
    let mut observed = empty();
    let desired = clone("");
    observed.pve.version.as_mut().unwrap().version = "8.2.4".to_owned();
    assert_eq!(
        errors(&create(&desired, &observed)),
        ["proxmox: Proxmox VE 8.2.4 is too old: creating templates needs 8.4"]
    );
    template(&mut observed, 9000, NAME);
    let found = plan(&desired, &observed);
    assert_eq!(errors(&found), Vec::<String>::new());
    assert_eq!(warnings(&found), ["proxmox: Proxmox VE 8.2.4 is old: it can only clone templates"]);
    observed.pve.version.as_mut().unwrap().version = "7.4.1".to_owned();
    assert_eq!(
        errors(&plan(&desired, &observed)),
        ["proxmox: Proxmox VE 7.4.1 is too old: 8.4 is needed"]
    );
}
