//! To which storages the disks of a VM go that moves to another host.

use std::collections::BTreeMap;

use crate::schema::split_list;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageMap {
    /// Everything to the storage of the same name, and the caller said so.
    pub(crate) identity: bool,
    pub(crate) entries: BTreeMap<String, String>,
    /// For all that the entries do not name.
    pub(crate) default: Option<String>,
}

impl StorageMap {
    /// Reads `a:b,c`; the parts are known to be names of storages.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for entry in split_list(text) {
            if entry == "1" {
                map.identity = true;
            } else if let Some((from, to)) = entry.split_once(':') {
                if map.entries.insert(from.to_owned(), to.to_owned()).is_some() {
                    return Err(format!("duplicate mapping for source '{from}'\n"));
                }
            } else if map.default.replace(entry.to_owned()).is_some() {
                return Err("default target ID can only be provided once\n".to_owned());
            }
        }
        if map.identity && (map.default.is_some() || !map.entries.is_empty()) {
            return Err("identity mapping cannot be combined with other mappings\n".to_owned());
        }
        Ok(map)
    }

    pub(crate) fn target<'a>(&'a self, storage: &'a str) -> &'a str {
        let mapped = self.entries.get(storage).or(self.default.as_ref());
        mapped.map_or(storage, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_before_the_default() {
        let map = StorageMap::parse("a:b,c").unwrap();
        assert_eq!((map.target("a"), map.target("z")), ("b", "c"));
        assert_eq!(StorageMap::parse("1").unwrap().target("a"), "a");
        assert_eq!(StorageMap::default().target("a"), "a");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for text in ["a:b,a:c", "a,b", "1,a", "1,a:b"] {
            assert!(StorageMap::parse(text).is_err(), "{text}");
        }
    }
}
