//! A discipline's options as Linux lays them out in `TCA_OPTIONS`: one table per discipline or class, read in both
//! directions.
//!
//! The kernel takes a fixed structure (the *head*), attributes that hold one number or a structure each, or both. A
//! table lists the numbers: the name that a Plan has for one, the attribute that it is in (0: the head), the byte
//! at which it begins there, and its form, which is the kernel's unit for it. Layouts: linux/pkt_sched.h.

use crate::BuildError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A scheduler tick, in which bursts and short times go over the wire (`PSCHED_SHIFT`, include/net/pkt_sched.h).
const TICK_NS: u128 = 64;
const MICROSECOND: u64 = 1000;
/// `TC_LINKLAYER_ETHERNET`: with it the kernel computes from rate and overhead, without rate tables.
pub(crate) const LINK_LAYER_ETHERNET: u8 = 1;
/// Bands of the sixteen priorities by default (tc-prio(8)).
const PRIORITY_MAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// Yes or no.
    Flag(bool),
    /// A whole number in the unit of the option's name.
    Whole(u64),
    /// A share.
    Ratio(f64),
    /// A service curve: bit/s, ns, bit/s.
    Curve([u64; 3]),
}

/// Options by name.
pub type Settings = BTreeMap<String, Setting>;

/// How a number goes over the wire; words have 32 bits.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A byte that is always this.
    Byte(u8),
    /// A word that is always this.
    Constant(u32),
    /// 16 bits.
    Half,
    /// A word that counts so many of the name's unit.
    Word(u64),
    /// A word, 0 or 1.
    Flag,
    /// 64 bits.
    Long,
    /// A time: a word of ticks.
    Ticks,
    /// A burst: a word of the ticks that it lasts at the rate of this name.
    Burst(&'static str),
    /// A rate: a word of bytes per second, and this attribute of 64 bits where a word is too small. 0 leaves its
    /// attribute out.
    Rate(u16),
    /// A share of the largest word.
    Share,
    /// A service curve: bytes per second, microseconds, bytes per second.
    Curve,
    /// One band for all sixteen priorities; absent: Linux's own map.
    Bands,
}

/// One number of a table.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    name: &'static str,
    attribute: u16,
    at: usize,
    form: Form,
    required: bool,
}

/// A number that may be absent: in an attribute that is then left out, or 0 in a structure.
pub(crate) const fn cell(name: &'static str, attribute: u16, at: usize, form: Form) -> Cell {
    Cell { name, attribute, at, form, required: false }
}

/// A number that must be given.
pub(crate) const fn needed(name: &'static str, attribute: u16, at: usize, form: Form) -> Cell {
    Cell { name, attribute, at, form, required: true }
}

/// A number that is never given.
pub(crate) const fn fixed(attribute: u16, at: usize, form: Form) -> Cell {
    Cell { name: "", attribute, at, form, required: false }
}

/// A word of a number, alone in its attribute.
pub(crate) const fn word(name: &'static str, attribute: u16) -> Cell {
    cell(name, attribute, 0, Form::Word(1))
}

/// A word of a time in microseconds, alone in its attribute.
pub(crate) const fn micros(name: &'static str, attribute: u16) -> Cell {
    cell(name, attribute, 0, Form::Word(MICROSECOND))
}

fn whole(settings: &Settings, name: &str) -> Result<Option<u64>, BuildError> {
    match settings.get(name) {
        None => Ok(None),
        Some(Setting::Whole(value)) => Ok(Some(*value)),
        Some(Setting::Flag(value)) => Ok(Some(u64::from(*value))),
        Some(_) => Err(BuildError::new(name, "is a whole number")),
    }
}

fn fitting(name: &str, value: u64, most: u64) -> Result<u64, BuildError> {
    if value <= most {
        Ok(value)
    } else {
        Err(BuildError::new(name, format!("{value} is more than the kernel counts")))
    }
}

fn word_of(value: u128) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes()
}

impl Cell {
    /// Its bytes; `None` where it was not given and nothing stands for it.
    fn bytes(&self, settings: &Settings) -> Result<Option<Vec<u8>>, BuildError> {
        let most_word = u64::from(u32::MAX);
        let number = match self.form {
            Form::Byte(value) => return Ok(Some(vec![value])),
            Form::Constant(value) => return Ok(Some(value.to_ne_bytes().to_vec())),
            Form::Share => {
                let ratio = match settings.get(self.name) {
                    None => return Ok(None),
                    Some(Setting::Ratio(ratio)) => *ratio,
                    Some(Setting::Whole(whole @ (0 | 1))) => *whole as f64,
                    Some(_) => f64::NAN,
                };
                if !(0.0..=1.0).contains(&ratio) {
                    return Err(BuildError::new(self.name, "is a share, 0 to 1"));
                }
                return Ok(Some(((ratio * f64::from(u32::MAX)).round() as u32).to_ne_bytes().to_vec()));
            }
            Form::Curve => {
                let [m1, d, m2] = match settings.get(self.name) {
                    None => return Ok(None),
                    Some(Setting::Curve(curve)) => *curve,
                    Some(_) => return Err(BuildError::new(self.name, "is a service curve of three numbers")),
                };
                let words = [m1 / 8, d / MICROSECOND, m2 / 8];
                return Ok(Some(words.into_iter().flat_map(|word| word_of(u128::from(word))).collect()));
            }
            Form::Bands => {
                let band =
                    whole(settings, self.name)?.map(|band| fitting(self.name, band, 15)).transpose()?;
                return Ok(Some(band.map_or(PRIORITY_MAP, |band| [band as u8; 16]).to_vec()));
            }
            _ => whole(settings, self.name)?,
        };
        let Some(value) = number else { return Ok(None) };
        Ok(Some(match self.form {
            Form::Half => (fitting(self.name, value, u64::from(u16::MAX))? as u16).to_ne_bytes().to_vec(),
            Form::Word(unit) => (fitting(self.name, value / unit, most_word)? as u32).to_ne_bytes().to_vec(),
            Form::Flag => (fitting(self.name, value, 1)? as u32).to_ne_bytes().to_vec(),
            Form::Ticks => word_of(u128::from(value) / TICK_NS).to_vec(),
            Form::Rate(_) => word_of(u128::from(value / 8)).to_vec(),
            Form::Burst(rate) => {
                let rate = whole(settings, rate)?.unwrap_or(0).max(1);
                word_of(u128::from(value) * 8_000_000_000 / u128::from(rate) / TICK_NS).to_vec()
            }
            _ => value.to_ne_bytes().to_vec(),
        }))
    }

    /// What it says of itself in `bytes`; `None` where it is not there.
    fn read(&self, bytes: &[u8], read: &Settings) -> Option<Setting> {
        let bytes = bytes.get(self.at..)?;
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(match self.form {
            Form::Byte(_) | Form::Constant(_) => return None,
            Form::Half => Setting::Whole(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?).into()),
            Form::Word(unit) => Setting::Whole(u64::from(word(0)?) * unit),
            Form::Flag => Setting::Whole(word(0)?.into()),
            Form::Long => Setting::Whole(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)),
            Form::Ticks => Setting::Whole(u64::from(word(0)?) * TICK_NS as u64),
            Form::Rate(_) => Setting::Whole(u64::from(word(0)?) * 8),
            Form::Burst(rate) => {
                let Some(Setting::Whole(rate)) = read.get(rate) else { return None };
                let counted = u128::from(word(0)?) * TICK_NS * u128::from(rate / 8);
                Setting::Whole(counted.div_ceil(1_000_000_000) as u64)
            }
            Form::Share => match word(0)? {
                0 => return None,
                share => Setting::Ratio(f64::from(share) / f64::from(u32::MAX)),
            },
            Form::Curve => Setting::Curve([
                u64::from(word(0)?) * 8,
                u64::from(word(4)?) * MICROSECOND,
                u64::from(word(8)?) * 8,
            ]),
            Form::Bands => {
                let [band, rest @ ..] = bytes.get(..16)? else { return None };
                if rest.iter().any(|other| other != band) {
                    return None;
                }
                Setting::Whole((*band).into())
            }
        })
    }
}

fn append(out: &mut Vec<u8>, attribute: u16, value: &[u8]) {
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend((value.len() as u16 + 4).to_ne_bytes());
    out.extend(attribute.to_ne_bytes());
    out.extend(value);
}

/// The value of `TCA_OPTIONS` that says these settings; empty where there is nothing to say.
///
/// # Errors
/// [`BuildError`] naming the option that is unknown, missing or impossible.
pub fn encode(kind: &str, cells: &[Cell], settings: &Settings) -> Result<Vec<u8>, BuildError> {
    if let Some(name) = settings.keys().find(|name| !cells.iter().any(|cell| cell.name == **name)) {
        return Err(BuildError::new(name, format!("the kernel's {kind} has no such option")));
    }
    let mut parts: Vec<(u16, bool, Vec<u8>)> = Vec::new();
    let (mut wide, mut without_rate) = (Vec::new(), Vec::new());
    for cell in cells {
        if cell.required && !settings.contains_key(cell.name) {
            return Err(BuildError::new(cell.name, "is missing"));
        }
        let place = parts.iter().position(|(attribute, ..)| *attribute == cell.attribute);
        let place = place.unwrap_or_else(|| {
            parts.push((cell.attribute, cell.attribute == 0, Vec::new()));
            parts.len() - 1
        });
        let (_, wanted, part) = &mut parts[place];
        if let Some(bytes) = cell.bytes(settings)? {
            *wanted |= !cell.name.is_empty();
            part.resize(part.len().max(cell.at + bytes.len()), 0);
            part[cell.at..cell.at + bytes.len()].copy_from_slice(&bytes);
        }
        if let Form::Rate(attribute) = cell.form {
            match whole(settings, cell.name)?.unwrap_or(0) / 8 {
                0 => without_rate.push(cell.attribute),
                rate if rate > u64::from(u32::MAX) => wide.push((attribute, rate)),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    for (attribute, wanted, part) in parts {
        match attribute {
            _ if !wanted || without_rate.contains(&attribute) => {}
            0 => out.extend(part),
            _ => append(&mut out, attribute, &part),
        }
    }
    for (attribute, rate) in wide {
        append(&mut out, attribute, &rate.to_ne_bytes());
    }
    Ok(out)
}

/// What the kernel tells in `TCA_OPTIONS`.
#[must_use]
pub fn decode(cells: &[Cell], options: &[u8]) -> Settings {
    let heads = cells.iter().filter(|cell| cell.attribute == 0);
    let head = heads.map(|cell| cell.at + 4).max().unwrap_or(0).min(options.len());
    let mut attributes: BTreeMap<u16, &[u8]> = BTreeMap::from([(0, options)]);
    let mut rest = &options[head..];
    while let Some(length) = rest.get(..2).map(|two| usize::from(u16::from_ne_bytes([two[0], two[1]]))) {
        let (Some(kind), Some(value)) = (rest.get(2..4), rest.get(4..length)) else { break };
        // Two bits of an attribute's kind are flags.
        attributes.entry(u16::from_ne_bytes([kind[0], kind[1]]) & 0x3fff).or_insert(value);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    let mut read = Settings::new();
    // Bursts are told in ticks of rates, so rates come first.
    for bursts in [false, true] {
        for cell in cells.iter().filter(|cell| matches!(cell.form, Form::Burst(_)) == bursts) {
            let found = attributes.get(&cell.attribute).and_then(|bytes| cell.read(bytes, &read));
            if let Some(setting) = found {
                read.insert(cell.name.to_owned(), setting);
            }
            if let Form::Rate(wide) = cell.form
                && let Some(rate) = attributes.get(&wide).and_then(|bytes| (*bytes).try_into().ok())
            {
                read.insert(cell.name.to_owned(), Setting::Whole(u64::from_ne_bytes(rate) * 8));
            }
        }
    }
    read
}
