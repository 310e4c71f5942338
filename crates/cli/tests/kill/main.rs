//! `talmox up` is really killed, with -9, at a dozen places spread over its run, in a lab that lives on. The
//! same command run again comes to the world of a run that nobody disturbed.
//!
//! The places are those of the run itself: so many steps told of, so many changes made. Nothing here
//! depends on how long anything takes.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../common/truth.rs"]
mod truth;
mod world;

use std::sync::OnceLock;

use world::{KEYS, Picture, Place, SECRETS, World, is_of_step};

/// What comes of a run that nobody disturbs.
struct Undisturbed {
    picture: Picture,
    /// How often it tells that a step began or ended.
    told: usize,
    /// How many of its calls change something.
    changes: usize,
}

fn undisturbed() -> &'static Undisturbed {
    static ONCE: OnceLock<Undisturbed> = OnceLock::new();
    ONCE.get_or_init(|| {
        let world = World::start();
        let lines = world.up_to_the_end();
        let changes = world.changes();
        let picture = world.picture();
        picture.assert_whole();
        let told = lines.iter().filter(|line| is_of_step(line)).count();
        assert!(told > 60 && changes > 15, "{told} {changes}");
        Undisturbed { picture, told, changes }
    })
}

/// Kills a run at each of these places, in a world of its own, and runs the same command again.
fn killed_at_each(places: [Place; 3]) {
    places.into_iter().for_each(killed_at);
}

fn killed_at(place: Place) {
    let world = World::start();
    let secrets = world.read(SECRETS);
    world.up_killed(place);
    world.up_to_the_end();
    assert_eq!(world.picture(), undisturbed().picture, "{place:?}");
    assert_eq!(world.read(SECRETS), secrets, "{place:?}");
    world.assert_settled();
}

/// One of the places where `told` are spread over the run, and of those where changes are.
fn eighth(part: usize) -> Place {
    Place::Told(undisturbed().told * part / 8)
}

fn fifth(part: usize) -> Place {
    Place::Changed(undisturbed().changes * part / 5)
}

#[test]
fn killed_as_it_begins() {
    killed_at_each([Place::Told(1), eighth(1), fifth(1)]);
}

#[test]
fn killed_while_machines_are_made() {
    killed_at_each([eighth(2), fifth(2), eighth(3)]);
}

#[test]
fn killed_while_machines_boot() {
    killed_at_each([fifth(3), eighth(4), fifth(4)]);
}

#[test]
fn killed_while_the_cluster_forms() {
    killed_at_each([eighth(5), eighth(6), eighth(7)]);
}

#[test]
fn killed_again_and_again() {
    let world = World::start();
    for place in [Place::Told(3), Place::Told(5), Place::Told(8), Place::Told(4)] {
        world.up_killed(place);
    }
    world.up_to_the_end();
    assert_eq!(world.picture(), undisturbed().picture);
    world.assert_settled();
}

/// Secrets are a cluster's identity: what was made of them stays, and what was not is made once.
#[test]
fn killed_while_it_makes_the_secrets() {
    let world = World::without_secrets();
    world.up_killed(Place::Made(KEYS));
    let key = world.read(KEYS);
    world.up_killed(Place::Made(SECRETS));
    let secrets = world.read(SECRETS);
    world.up_killed(Place::Changed(3));
    world.up_to_the_end();
    assert_eq!((world.read(KEYS), world.read(SECRETS)), (key, secrets));
    world.picture().assert_whole();
    world.assert_settled();
}
