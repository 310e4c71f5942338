//! Which disks an expression of a config means: as much of CEL as is written about disks.

use super::disk::Disk;

/// What an expression can look at.
pub(crate) struct Candidate<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) is_system_disk: bool,
}

/// Whether the disk is meant. What is not understood here excludes no disk.
pub(crate) fn matches(expression: &str, candidate: &Candidate<'_>) -> bool {
    let evaluated = words(expression).and_then(|words| {
        let mut reader = Reader { words: &words, at: 0, candidate, bound: vec![] };
        let value = reader.either()?;
        (reader.at == words.len()).then_some(value)
    });
    !matches!(evaluated, Some(Value::Bool(false)))
}

/// A size as people write it: `10GB`, `1.5 TiB`; a plain number is bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, name) = text.split_at(end);
    let name = name.trim();
    let unit = if name.is_empty() { 1 } else { unit(name)? };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if fraction.is_empty() {
        return Some(bytes);
    }
    let parts = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(unit).checked_mul(fraction.parse().ok()?)? / parts;
    bytes.checked_add(u64::try_from(part).ok()?)
}

fn unit(name: &str) -> Option<u64> {
    const DECIMAL: [&str; 5] = ["kb", "mb", "gb", "tb", "pb"];
    const BINARY: [&str; 5] = ["kib", "mib", "gib", "tib", "pib"];
    let name = name.to_lowercase();
    if name == "b" {
        return Some(1);
    }
    let power = |names: [&str; 5]| names.iter().position(|known| *known == name).map(|at| at + 1);
    match (power(DECIMAL), power(BINARY)) {
        (Some(power), _) => 1000_u64.checked_pow(u32::try_from(power).ok()?),
        (_, Some(power)) => 1024_u64.checked_pow(u32::try_from(power).ok()?),
        _ => None,
    }
}

/// As in a shell: `*` is anything, `?` is one letter.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for letter in pattern {
        let before = reached.clone();
        for at in 0..=text.len() {
            reached[at] = match letter {
                '*' => before[at] || at > 0 && reached[at - 1],
                '?' => at > 0 && before[at - 1],
                letter => at > 0 && before[at - 1] && text[at - 1] == letter,
            };
        }
    }
    reached[text.len()]
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    Text(String),
    Number(u64),
    Name(String),
    Sign(&'static str),
}

const SIGNS: [&str; 17] =
    ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", ",", ".", "*", "+", "-", "/"];

fn words(text: &str) -> Option<Vec<Word>> {
    let mut words = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("//") {
            rest = after.split_once('\n').map_or("", |(_, next)| next);
        } else if matches!(first, '"' | '\'') {
            let (inside, after) = rest[1..].split_once(first)?;
            words.push(Word::Text(inside.to_owned()));
            rest = after;
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            words.push(Word::Number(rest[..end].parse().ok()?));
            rest = rest[end..].strip_prefix(['u', 'U']).unwrap_or(&rest[end..]);
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            words.push(Word::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            words.push(Word::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Some(words)
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Bool(bool),
    Number(u64),
    Text(String),
    Disk,
    /// The links that lead to a disk.
    Symlinks,
}

struct Reader<'a> {
    words: &'a [Word],
    at: usize,
    candidate: &'a Candidate<'a>,
    /// Variables of `exists`, the innermost last.
    bound: Vec<(String, String)>,
}

impl Reader<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.words.get(self.at), Some(Word::Sign(next)) if *next == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn either(&mut self) -> Option<Value> {
        let mut value = self.both()?;
        while self.takes("||") {
            let (Value::Bool(one), Value::Bool(other)) = (value, self.both()?) else { return None };
            value = Value::Bool(one || other);
        }
        Some(value)
    }

    fn both(&mut self) -> Option<Value> {
        let mut value = self.comparison()?;
        while self.takes("&&") {
            let (Value::Bool(one), Value::Bool(other)) = (value, self.comparison()?) else {
                return None;
            };
            value = Value::Bool(one && other);
        }
        Some(value)
    }

    fn comparison(&mut self) -> Option<Value> {
        let left = self.sum()?;
        if matches!(self.words.get(self.at), Some(Word::Name(name)) if name == "in") {
            self.at += 1;
            let (Value::Text(link), Value::Symlinks) = (left, self.sum()?) else { return None };
            return Some(Value::Bool(self.candidate.disk.symlinks().contains(&link)));
        }
        let signs = ["==", "!=", "<=", ">=", "<", ">"];
        let Some(sign) = signs.into_iter().find(|sign| self.takes(sign)) else { return Some(left) };
        let right = self.sum()?;
        Some(Value::Bool(match (sign, left, right) {
            ("==", left, right) => left == right,
            ("!=", left, right) => left != right,
            ("<=", Value::Number(left), Value::Number(right)) => left <= right,
            (">=", Value::Number(left), Value::Number(right)) => left >= right,
            ("<", Value::Number(left), Value::Number(right)) => left < right,
            (">", Value::Number(left), Value::Number(right)) => left > right,
            _ => return None,
        }))
    }

    fn sum(&mut self) -> Option<Value> {
        let mut value = self.product()?;
        while let Some(sign) = ["+", "-"].into_iter().find(|sign| self.takes(sign)) {
            let (Value::Number(left), Value::Number(right)) = (value, self.product()?) else {
                return None;
            };
            let is_more = sign == "+";
            let sum = if is_more { left.checked_add(right) } else { left.checked_sub(right) };
            value = Value::Number(sum?);
        }
        Some(value)
    }

    fn product(&mut self) -> Option<Value> {
        let mut value = self.single()?;
        while let Some(sign) = ["*", "/"].into_iter().find(|sign| self.takes(sign)) {
            let (Value::Number(left), Value::Number(right)) = (value, self.single()?) else {
                return None;
            };
            let is_more = sign == "*";
            let product = if is_more { left.checked_mul(right) } else { left.checked_div(right) };
            value = Value::Number(product?);
        }
        Some(value)
    }

    fn single(&mut self) -> Option<Value> {
        if self.takes("!") {
            let Value::Bool(value) = self.single()? else { return None };
            return Some(Value::Bool(!value));
        }
        if self.takes("(") {
            let value = self.either()?;
            return self.takes(")").then_some(value);
        }
        let word = self.words.get(self.at)?.clone();
        self.at += 1;
        let mut value = match word {
            Word::Text(text) => Value::Text(text),
            Word::Number(number) => Value::Number(number),
            Word::Name(name) if name == "glob" => match self.arguments()?.as_slice() {
                [Value::Text(pattern), Value::Text(text)] => Value::Bool(glob(pattern, text)),
                _ => return None,
            },
            Word::Name(name) => self.variable(&name)?,
            Word::Sign(_) => return None,
        };
        while self.takes(".") {
            let Word::Name(name) = self.words.get(self.at)?.clone() else { return None };
            self.at += 1;
            value = match value {
                Value::Disk => self.field(&name)?,
                Value::Symlinks if name == "exists" => self.exists()?,
                Value::Text(text) => {
                    let arguments = self.arguments()?;
                    let [Value::Text(part)] = arguments.as_slice() else { return None };
                    Value::Bool(match name.as_str() {
                        "startsWith" => text.starts_with(part),
                        "endsWith" => text.ends_with(part),
                        "contains" => text.contains(part),
                        _ => return None,
                    })
                }
                _ => return None,
            };
        }
        Some(value)
    }

    fn arguments(&mut self) -> Option<Vec<Value>> {
        if !self.takes("(") {
            return None;
        }
        let mut all = vec![];
        while !self.takes(")") {
            all.push(self.either()?);
            self.takes(",");
        }
        Some(all)
    }

    /// `(NAME, EXPRESSION)`: whether it holds for one of the links. The expression is read once for each.
    fn exists(&mut self) -> Option<Value> {
        let Some(Word::Name(name)) = self.words.get(self.at + 1).cloned() else { return None };
        if !self.takes("(") {
            return None;
        }
        self.at += 1;
        if !self.takes(",") {
            return None;
        }
        let (start, mut holds) = (self.at, false);
        for link in self.candidate.disk.symlinks() {
            self.at = start;
            self.bound.push((name.clone(), link));
            let value = self.either();
            self.bound.pop();
            let Value::Bool(value) = value? else { return None };
            holds |= value;
        }
        self.takes(")").then_some(Value::Bool(holds))
    }

    fn variable(&self, name: &str) -> Option<Value> {
        if let Some((_, link)) = self.bound.iter().rev().find(|(bound, _)| bound == name) {
            return Some(Value::Text(link.clone()));
        }
        match name {
            "true" | "false" => Some(Value::Bool(name == "true")),
            "system_disk" => Some(Value::Bool(self.candidate.is_system_disk)),
            "disk" => Some(Value::Disk),
            name => unit(name).map(Value::Number),
        }
    }

    fn field(&self, name: &str) -> Option<Value> {
        let disk = self.candidate.disk;
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        match name {
            "size" => Some(Value::Number(disk.size)),
            "dev_path" => text(&disk.device),
            "bus_path" => text(&disk.bus_path()),
            "model" => text(disk.model()),
            "modalias" => text(disk.modalias()),
            "transport" => text(disk.transport()),
            "rotational" => Some(Value::Bool(disk.is_rotational())),
            "readonly" | "cdrom" => Some(Value::Bool(disk.is_cdrom)),
            "sector_size" | "io_size" => Some(Value::Number(512)),
            "symlinks" => Some(Value::Symlinks),
            "serial" => text(disk.shown_serial()),
            "wwid" => text(&disk.wwid()),
            "uuid" => text(""),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_about_disks_mean_what_they_say() {
        let disk = Disk {
            slot: "scsi1".to_owned(),
            device: "/dev/sdb".to_owned(),
            size: 50 << 30,
            device_id: "drive-scsi1".to_owned(),
            sequence: 3,
            ..Disk::default()
        };
        let candidate = Candidate { disk: &disk, is_system_disk: false };
        for (expression, is_meant) in [
            ("!system_disk", true),
            ("system_disk", false),
            ("disk.dev_path == '/dev/sdb'", true),
            ("disk.dev_path == \"/dev/sda\" || disk.size >= 50u * GiB", true),
            ("disk.size > 100u * GB", false),
            ("disk.transport == 'virtio' && !(disk.rotational == false)", true),
            ("disk.transport == 'nvme'", false),
            ("glob('QEMU HARD*', disk.model)", true),
            ("disk.dev_path.startsWith('/dev/vd')", false),
            ("'/dev/disk/by-id/x' in disk.symlinks", false),
            ("'/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1' in disk.symlinks", true),
            ("'/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi2' in disk.symlinks", false),
            ("disk.symlinks.exists(s, s.contains('nvme'))", false),
            ("disk.symlinks.exists(s, s.endsWith('drive-scsi1')) && !system_disk", true),
            ("disk.serial == '' && disk.wwid == ''", true),
            // Beyond what is understood here.
            ("disk.symlinks.map(s, s).size() > 9", true),
        ] {
            assert_eq!(matches(expression, &candidate), is_meant, "{expression}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("10GB"), Some(10_000_000_000));
        assert_eq!(size("1.5 GiB"), Some(3 << 29));
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("much"), None);
        assert!(glob("a*c?", "abbcd") && !glob("a*c", "abd"));
    }
}
