//! Uploaded schematics. Each is a file in the directory of the lab.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_lab_environment::Folder;
use talmox_talos_config::schematic::Schematic;

const FOLDER: &str = "schematics";

/// Schematics by id. The id is a hash of the content.
#[derive(Debug)]
pub(super) struct Schematics {
    folder: Arc<Folder>,
    known: Mutex<BTreeMap<String, Schematic>>,
}

impl Schematics {
    /// Loads the schematics from the directory of the lab. A file is skipped if its content does not match its name.
    pub(super) fn open(folder: Arc<Folder>) -> io::Result<Self> {
        let known = Mutex::new(read(&folder)?);
        Ok(Self { folder, known })
    }

    pub(super) fn get(&self, id: &str) -> Option<Schematic> {
        self.known().get(id).cloned()
    }

    /// Stores a schematic, and returns its id.
    pub(super) fn put(&self, schematic: Schematic) -> io::Result<String> {
        let id = schematic.id();
        let mut known = self.known();
        if !known.contains_key(&id) {
            let name = format!("{FOLDER}/{id}.yaml");
            self.folder.write(&name, schematic.to_yaml().as_bytes())?;
            known.insert(id.clone(), schematic);
        }
        Ok(id)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Schematic>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(folder: &Folder) -> io::Result<BTreeMap<String, Schematic>> {
    let path = folder.join(FOLDER);
    std::fs::create_dir_all(&path)?;
    let mut known = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        match Schematic::read(&text) {
            Ok(schematic) if schematic.id() == id => known.insert(id.to_owned(), schematic),
            _ => None,
        };
    }
    Ok(known)
}
