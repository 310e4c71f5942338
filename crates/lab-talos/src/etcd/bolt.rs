//! bbolt database files, the storage format of etcd. A file has two meta pages, a list of free pages, and a tree of pages for
//! each bucket. Each file is written at once, so it has no free pages and at most one level of branch pages.

use std::collections::BTreeMap;

/// Keys and values of one bucket.
pub(super) type Bucket = BTreeMap<Vec<u8>, Vec<u8>>;

const PAGE: usize = 4096;
const PAGE_SIZE: u32 = 4096;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREE_LIST: u16 = 0x10;
/// Flag of a leaf element whose value is a bucket.
const IS_BUCKET: u32 = 0x01;

/// Length in bytes of a page header, of an index element, and of a bucket header.
const HEADER: usize = 16;
const ELEMENT: usize = 16;
/// Length in bytes of a meta page without its checksum.
const META_LENGTH: usize = 56;
const FREE_LIST_PAGE: u64 = 2;

/// Writes a database file with these buckets.
pub(super) fn write(buckets: &BTreeMap<&str, Bucket>, transaction: u64) -> Vec<u8> {
    let mut file = DatabaseFile { bytes: vec![0; 2 * PAGE] };
    file.add(FREE_LIST, 0, &[]);
    let mut roots = vec![];
    for (name, bucket) in buckets {
        let header = if bucket.is_empty() {
            // A small bucket is stored inside its parent. It has no page of its own: an empty leaf follows the bucket header.
            let mut inline = vec![0; HEADER];
            inline.extend(page_header(0, LEAF, 0, 0));
            inline
        } else {
            bucket_header(file.add_bucket(bucket))
        };
        roots.push((IS_BUCKET, name.as_bytes(), header));
    }
    let elements: Vec<_> =
        roots.iter().map(|(flags, key, value)| (*flags, *key, &value[..])).collect();
    let root = file.add_leaf(&elements);
    file.finish(root, transaction)
}

struct DatabaseFile {
    bytes: Vec<u8>,
}

impl DatabaseFile {
    fn next_page(&self) -> u64 {
        (self.bytes.len() / PAGE) as u64
    }

    /// Adds a page. If the content is too long for one page, overflow pages follow.
    fn add(&mut self, flags: u16, count: usize, content: &[u8]) -> u64 {
        let (id, start) = (self.next_page(), self.bytes.len());
        let pages = (HEADER + content.len()).div_ceil(PAGE);
        let overflow = u32::try_from(pages - 1).unwrap_or(u32::MAX);
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.bytes.extend(page_header(id, flags, count, overflow));
        self.bytes.extend(content);
        self.bytes.resize(start + pages * PAGE, 0);
        id
    }

    /// Adds the pages of a bucket and returns the number of its root page.
    fn add_bucket(&mut self, bucket: &Bucket) -> u64 {
        let mut leaves: Vec<(&[u8], u64)> = vec![];
        let mut elements: Vec<(u32, &[u8], &[u8])> = vec![];
        let mut length = HEADER;
        for (key, value) in bucket {
            let grown = length + ELEMENT + key.len() + value.len();
            if grown > PAGE && !elements.is_empty() {
                leaves.push((elements[0].1, self.add_leaf(&elements)));
                elements.clear();
                length = HEADER;
            }
            length += ELEMENT + key.len() + value.len();
            elements.push((0, key, value));
        }
        if let Some((_, first, _)) = elements.first() {
            leaves.push((first, self.add_leaf(&elements)));
        }
        match leaves.as_slice() {
            [(_, only)] => *only,
            several => self.add_branch(several),
        }
    }

    fn add_leaf(&mut self, elements: &[(u32, &[u8], &[u8])]) -> u64 {
        let (mut index, mut data) = (vec![], vec![]);
        for (number, (flags, key, value)) in elements.iter().enumerate() {
            index.extend(flags.to_le_bytes());
            index.extend(position(elements.len(), number, data.len()).to_le_bytes());
            index.extend(size(key).to_le_bytes());
            index.extend(size(value).to_le_bytes());
            data.extend_from_slice(key);
            data.extend_from_slice(value);
        }
        index.extend(data);
        self.add(LEAF, elements.len(), &index)
    }

    /// Adds a branch page. It refers to each child page by the first key of that page.
    fn add_branch(&mut self, children: &[(&[u8], u64)]) -> u64 {
        let (mut index, mut data) = (vec![], vec![]);
        for (number, (key, page)) in children.iter().enumerate() {
            index.extend(position(children.len(), number, data.len()).to_le_bytes());
            index.extend(size(key).to_le_bytes());
            index.extend(page.to_le_bytes());
            data.extend_from_slice(key);
        }
        index.extend(data);
        self.add(BRANCH, children.len(), &index)
    }

    fn finish(mut self, root: u64, transaction: u64) -> Vec<u8> {
        let end = self.next_page();
        // The meta page with the higher transaction id is valid. The other meta page belongs to the previous transaction.
        for transaction in [transaction, transaction + 1] {
            let number = transaction % 2;
            let mut meta = vec![];
            for value in [MAGIC, VERSION, PAGE_SIZE, 0] {
                meta.extend(value.to_le_bytes());
            }
            for value in [root, 0, FREE_LIST_PAGE, end, transaction] {
                meta.extend(value.to_le_bytes());
            }
            meta.extend(checksum(&meta).to_le_bytes());
            let start = usize::from(number == 1) * PAGE;
            let header = page_header(number, META, 0, 0);
            self.bytes[start..start + HEADER].copy_from_slice(&header);
            self.bytes[start + HEADER..start + HEADER + meta.len()].copy_from_slice(&meta);
        }
        self.bytes
    }
}

fn page_header(id: u64, flags: u16, count: u16, overflow: u32) -> Vec<u8> {
    let mut header = id.to_le_bytes().to_vec();
    header.extend(flags.to_le_bytes());
    header.extend(count.to_le_bytes());
    header.extend(overflow.to_le_bytes());
    header
}

fn bucket_header(root: u64) -> Vec<u8> {
    let mut header = root.to_le_bytes().to_vec();
    header.extend(0_u64.to_le_bytes());
    header
}

/// Offset of the data of an element, relative to the element itself.
fn position(count: usize, number: usize, data: usize) -> u32 {
    u32::try_from((count - number) * ELEMENT + data).unwrap_or(u32::MAX)
}

fn size(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// FNV-1a hash with 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Value of a key in a bucket; `None` if the key does not exist or the file is damaged.
pub(super) fn value(file: &[u8], bucket: &str, key: &[u8]) -> Option<Vec<u8>> {
    let metas = [0, PAGE].into_iter().filter_map(|start| meta(file, start));
    let (root, _) = metas.max_by_key(|(_, transaction)| *transaction)?;
    let header = find(file, root, bucket.as_bytes(), 0)?;
    let root = number(header, 0)?;
    find(file, root, key, 0).map(<[u8]>::to_vec)
}

/// Root page and transaction id of a meta page; `None` if its checksum is wrong.
fn meta(file: &[u8], start: usize) -> Option<(u64, u64)> {
    let meta = file.get(start + HEADER..start + HEADER + META_LENGTH + 8)?;
    let is_whole = meta.starts_with(&MAGIC.to_le_bytes())
        && number(meta, META_LENGTH)? == checksum(&meta[..META_LENGTH]);
    is_whole.then_some((number(meta, 16)?, number(meta, 48)?))
}

/// Maximum depth of a tree. The limit prevents an endless loop in a damaged file.
const MAX_DEPTH: u32 = 16;

fn find<'f>(file: &'f [u8], page: u64, key: &[u8], depth: u32) -> Option<&'f [u8]> {
    let start = usize::try_from(page).ok()?.checked_mul(PAGE)?;
    let page = file.get(start..)?;
    let flags = u16::from_le_bytes(page.get(8..10)?.try_into().ok()?);
    let count = usize::from(u16::from_le_bytes(page.get(10..12)?.try_into().ok()?));
    let elements = (0..count).map(|index| page.get(HEADER + index * ELEMENT..));
    if flags == LEAF {
        return elements.flatten().find_map(|element| {
            let [position, keys, values] = [4, 8, 12].map(|at| small(element, at));
            let (start, keys) = (position?, keys?);
            let own = element.get(start..start.checked_add(keys)?)?;
            let value = start + keys;
            (own == key).then(|| element.get(value..value.checked_add(values?)?)).flatten()
        });
    }
    if flags != BRANCH || depth == MAX_DEPTH {
        return None;
    }
    let mut child = None;
    for element in elements.flatten() {
        let (start, length) = (small(element, 0)?, small(element, 4)?);
        let first = element.get(start..start.checked_add(length)?)?;
        if first > key {
            break;
        }
        child = Some(number(element, 8)?);
    }
    find(file, child?, key, depth + 1)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn small(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_found_in_pages_of_any_size() {
        let many: Bucket =
            (0..5000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; (n % 97) as usize])).collect();
        let large = Bucket::from([(b"big".to_vec(), vec![3; 3 * PAGE])]);
        let buckets =
            BTreeMap::from([("empty", Bucket::new()), ("large", large), ("many", many.clone())]);
        let mut file = write(&buckets, 7);
        assert_eq!(file.len() % PAGE, 0);
        for (key, wanted) in &many {
            assert_eq!(value(&file, "many", key).as_ref(), Some(wanted), "{key:?}");
        }
        assert_eq!(value(&file, "large", b"big").unwrap().len(), 3 * PAGE);
        assert_eq!(value(&file, "empty", b"key"), None);
        assert_eq!(value(&file, "other", b"key"), None);
        // If one meta page is damaged, the other one is used. If both are damaged, nothing can be read.
        file[PAGE + 20] ^= 1;
        assert!(value(&file, "large", b"big").is_some());
        file[20] ^= 1;
        assert_eq!(value(&file, "large", b"big"), None);
    }

    #[test]
    fn damaged_files_are_read_without_a_panic() {
        let bucket = Bucket::from([(b"key".to_vec(), b"value".to_vec())]);
        let file = write(&BTreeMap::from([("bucket", bucket)]), 1);
        for at in 2 * PAGE..file.len() {
            let mut damaged = file.clone();
            damaged[at] = 0xff;
            value(&damaged, "bucket", b"key");
        }
        for length in [0, 1, PAGE, 2 * PAGE, 3 * PAGE + 20] {
            value(&file[..length], "bucket", b"key");
        }
    }
}
