//! Figures, each beside its floor, for people (Markdown) and for machines.

use std::fmt;

use serde_json::{Value, json};

use crate::measured::samples::Samples;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    Seconds,
    PerSecond,
    MegabytesPerSecond,
    Bytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::PerSecond => "1/s",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::Bytes => "B",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 1e-3 => format!("{:.0} µs", value * 1e6),
            Unit::Seconds => format!("{:.2} ms", value * 1e3),
            Unit::PerSecond => format!("{value:.0} /s"),
            Unit::MegabytesPerSecond => format!("{value:.0} MB/s"),
            Unit::Bytes => format!("{:.2} MB", value / 1e6),
        }
    }
}

/// What the ratio of a figure to its floor must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Bound::AtMost(most) => ratio <= most,
            Bound::AtLeast(least) => ratio >= least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "≤ {most:.2}"),
            Bound::AtLeast(least) => write!(f, "≥ {least:.2}"),
        }
    }
}

#[derive(Debug)]
struct Floor {
    is: &'static str,
    value: f64,
}

#[derive(Debug)]
pub struct Row {
    name: String,
    unit: Unit,
    value: f64,
    floor: Option<Floor>,
    bound: Option<Bound>,
}

impl Row {
    pub fn new(name: &str, unit: Unit, value: f64) -> Row {
        Row { name: name.to_owned(), unit, value, floor: None, bound: None }
    }

    pub fn latency(name: &str, samples: &Samples) -> Row {
        Row::new(name, Unit::Seconds, samples.median())
    }

    pub fn memory(name: &str, bytes: u64) -> Row {
        Row::new(name, Unit::Bytes, bytes as f64)
    }

    pub fn beside(self, is: &'static str, samples: &Samples) -> Row {
        self.beside_value(is, samples.median())
    }

    pub fn beside_value(mut self, is: &'static str, value: f64) -> Row {
        self.floor = Some(Floor { is, value });
        self
    }

    pub fn within(mut self, bound: Bound) -> Row {
        self.bound = Some(bound);
        self
    }

    fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().map(|floor| self.value / floor.value)
    }

    fn holds(&self) -> Option<bool> {
        Some(self.bound?.holds(self.ratio()?))
    }

    fn to_markdown(&self) -> String {
        let floor = self.floor.as_ref();
        let cells = [
            self.name.clone(),
            self.unit.show(self.value),
            floor.map(|floor| self.unit.show(floor.value)).unwrap_or_default(),
            floor.map(|floor| floor.is.to_owned()).unwrap_or_default(),
            self.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            self.bound.map(|bound| bound.to_string()).unwrap_or_default(),
            match self.holds() {
                Some(true) => "holds".to_owned(),
                Some(false) => "BROKEN".to_owned(),
                None => String::new(),
            },
        ];
        format!("| {} |", cells.join(" | "))
    }

    fn to_json(&self) -> Value {
        json!({
            "figure": self.name,
            "unit": self.unit.name(),
            "value": self.value,
            "floor": self.floor.as_ref().map(|floor| floor.value),
            "floor_is": self.floor.as_ref().map(|floor| floor.is),
            "ratio": self.ratio(),
            "at_most": match self.bound { Some(Bound::AtMost(most)) => Some(most), _ => None },
            "at_least": match self.bound { Some(Bound::AtLeast(least)) => Some(least), _ => None },
            "holds": self.holds(),
        })
    }
}

#[derive(Debug)]
pub struct Table {
    rows: Vec<Row>,
    load_before: String,
}

impl Table {
    pub fn begin() -> Table {
        Table { rows: Vec::new(), load_before: load() }
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.holds() != Some(false))
    }

    pub fn to_markdown(&self) -> String {
        let mut lines = vec![
            "| Figure | trl | Floor | which is | Ratio | Bound | |".to_owned(),
            "| --- | ---: | ---: | --- | ---: | --- | --- |".to_owned(),
        ];
        lines.extend(self.rows.iter().map(Row::to_markdown));
        lines.push(format!("\n{} cores; load {} before, {} after", cores(), self.load_before, load()));
        lines.join("\n")
    }

    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({
            "figures": rows,
            "holds": self.holds(),
            "cores": cores(),
            "load_before": self.load_before,
            "load_after": load(),
        })
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The load of the last minute: what else the machine was doing.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
