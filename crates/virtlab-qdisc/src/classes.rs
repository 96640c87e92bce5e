//! Disciplines with classes from a Plan: a tree by name, each class with parameters by their tc names.
//!
//! The number of a class, [`crate::Packet::class`], is its place in the order of names. HTB and HFSC have trees; strict
//! priority (`prio`) and deficit round robin (`drr`) have one level.

use crate::build::{BuildError, Reader, declared};
use crate::{Parameter, Qdisc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassLayout {
    /// The class above it; absent: none.
    #[serde(default)]
    pub parent: Option<String>,
    /// Packets that may wait in it; absent: 1000.
    #[serde(default)]
    pub limit_packets: Option<u64>,
    /// Its own parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
}

/// Packets that wait in a class that says nothing, as tc has it.
pub(crate) const CLASS_PACKETS: u64 = 1000;

type Classes = BTreeMap<String, ClassLayout>;

/// Classes without children, with their numbers.
#[must_use]
pub fn leaves(classes: &Classes) -> Vec<(&str, u32)> {
    let above: Vec<&str> = classes.values().filter_map(|class| class.parent.as_deref()).collect();
    let numbered = classes.keys().zip(0..).map(|(name, number)| (name.as_str(), number));
    numbered.filter(|(name, _)| !above.contains(name)).collect()
}

/// Names with parents before their children.
fn downwards(classes: &Classes) -> Result<Vec<&str>, BuildError> {
    let mut ordered: Vec<&str> = Vec::new();
    while ordered.len() < classes.len() {
        let before = ordered.len();
        for (name, class) in classes {
            let ready = class.parent.as_deref().is_none_or(|parent| ordered.contains(&parent));
            if ready && !ordered.contains(&name.as_str()) {
                ordered.push(name);
            }
        }
        if ordered.len() == before {
            let stuck = classes.keys().find(|name| !ordered.contains(&name.as_str()));
            let name = stuck.map_or("", String::as_str);
            return Err(BuildError::new(&format!("classes.{name}.parent"), "leads to no top of the tree"));
        }
    }
    Ok(ordered)
}

/// One class as its discipline makes it.
pub(crate) struct ClassGiven<'a> {
    /// Its number.
    pub id: u32,
    /// Index of its parent among the classes, which come after their parents.
    pub parent: Option<usize>,
    pub limit_packets: u64,
    pub reader: Reader<'a>,
}

/// The classes of a discipline.
pub(crate) struct Tree<'a> {
    kind: &'a str,
    classes: &'a Classes,
    ordered: Vec<&'a str>,
}

impl Tree<'_> {
    /// What `make` makes of each class, parents before their children; a mistake names its class.
    pub(crate) fn each<T>(
        &self,
        make: impl Fn(&ClassGiven<'_>) -> Result<T, BuildError>,
    ) -> Result<Vec<T>, BuildError> {
        let one = |name: &&str| {
            let class = &self.classes[*name];
            let above = class.parent.as_deref();
            let given = ClassGiven {
                id: self.classes.keys().position(|known| known == *name).unwrap_or(0) as u32,
                parent: above.and_then(|above| self.ordered.iter().position(|known| *known == above)),
                limit_packets: class.limit_packets.unwrap_or(CLASS_PACKETS),
                reader: Reader::new(&class.parameters),
            };
            let made = make(&given).and_then(|made| given.reader.nothing_left(self.kind).map(|()| made));
            made.map_err(|error| error.of_class(name))
        };
        self.ordered.iter().map(one).collect()
    }
}

/// The discipline of this name with these classes.
///
/// # Errors
/// [`BuildError`] naming the class and key that is unknown, missing or impossible.
pub fn build_classes(kind: &str, classes: &Classes) -> Result<Box<dyn Qdisc>, BuildError> {
    let found = declared(kind).and_then(|each| each.classed.map(|classed| (each, classed)));
    let Some((declaration, classed)) = found else {
        return Err(BuildError::new("classes", format!("{kind} has no classes")));
    };
    let ordered = downwards(classes)?;
    if let Some((name, _)) = classes.iter().find(|(_, class)| class.parent.is_some() && !declaration.tree) {
        let mistake = BuildError::new("parent", format!("{kind} has one level of classes"));
        return Err(mistake.of_class(name));
    }
    classed(&Tree { kind, classes, ordered })
}
