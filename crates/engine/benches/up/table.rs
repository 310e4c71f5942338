//! Prints rows as they are added, and counts the limits that were exceeded.

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) missed: usize,
}

impl Table {
    pub(crate) fn head() -> Self {
        println!("{:<52} {:>10} {:>10} {:>8}  bar", "", "this", "against", "ratio");
        Self::default()
    }

    pub(crate) fn row(&mut self, what: &str, this: f64, against: f64, most: Option<f64>) {
        let ratio = this / against;
        let verdict = most.map_or_else(String::new, |most| {
            let is_met = ratio <= most;
            self.missed += usize::from(!is_met);
            format!("at most {most:.2}: {}", if is_met { "ok" } else { "MISSED" })
        });
        println!("{what:<52} {this:>10.2} {against:>10.2} {ratio:>8.2}  {verdict}");
    }
}

pub(crate) fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}
