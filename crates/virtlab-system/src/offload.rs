//! Offloads and interrupt coalescing of an interface through the ethtool ioctl: works without root in a namespace of
//! one's own.

use anyhow::{Context, bail};
use std::os::fd::RawFd;

/// Feature, the command that reads it, the command that sets it (linux/ethtool.h).
const FEATURES: [(&str, u32, u32); 6] = [
    ("rx", 0x14, 0x15),
    ("tx", 0x16, 0x17),
    ("sg", 0x18, 0x19),
    ("tso", 0x1e, 0x1f),
    ("gso", 0x23, 0x24),
    ("gro", 0x2b, 0x2c),
];
const GET_COALESCE: u32 = 0x0e;
const GET_STRING_COUNTS: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_ALL_FEATURES: u32 = 0x3a;
const STRINGS_OF_FEATURES: u32 = 4;
const STRING_BYTES: usize = 32;
/// More than the kernel has (about 70).
const MOST_FEATURES: usize = 256;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Names of all features.
pub fn names() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().map(|(name, _, _)| *name)
}

/// `struct ethtool_coalesce`: how long, and over how many frames, interrupts are held back.
#[repr(C)]
#[derive(Default)]
struct Coalesce {
    command: u32,
    receive_us: u32,
    receive_frames: u32,
    _receive_in_interrupt: [u32; 2],
    send_us: u32,
    send_frames: u32,
    _rest: [u32; 16],
}

fn ioctl<T>(fd: RawFd, link: &str, value: &mut T) -> anyhow::Result<()> {
    // SAFETY: ifreq is plain old data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if link.len() >= request.ifr_name.len() {
        bail!("'{link}' is too long for an interface name");
    }
    for (to, from) in request.ifr_name.iter_mut().zip(link.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]); // signed on some processors
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the name ends with NUL, and the data is a structure of its ethtool command and lives during the call.
    let code = unsafe { libc::ioctl(fd, SIOCETHTOOL as _, &raw mut request) };
    nix::errno::Errno::result(code)?;
    Ok(())
}

fn commands(feature: &str) -> anyhow::Result<(u32, u32)> {
    FEATURES
        .iter()
        .find(|(name, _, _)| *name == feature)
        .map(|(_, get, set)| (*get, *set))
        .with_context(|| format!("there is no offload '{feature}'"))
}

/// Whether a feature is on. `fd` is any socket of the interface's namespace.
///
/// # Errors
/// When the feature or the interface is unknown.
pub fn read(fd: RawFd, link: &str, feature: &str) -> anyhow::Result<bool> {
    let mut value = Value { command: commands(feature)?.0, data: 0 };
    ioctl(fd, link, &mut value).with_context(|| format!("cannot read offload '{feature}' of '{link}'"))?;
    Ok(value.data != 0)
}

/// Interrupt coalescing as the driver has it: microseconds and frames, receiving then sending; `None` where it has
/// none.
pub fn coalescing(fd: RawFd, link: &str) -> Option<[u32; 4]> {
    let mut found = Coalesce { command: GET_COALESCE, ..Coalesce::default() };
    ioctl(fd, link, &mut found).ok()?;
    Some([found.receive_us, found.receive_frames, found.send_us, found.send_frames])
}

/// `struct ethtool_sset_info` of one set.
#[repr(C)]
struct StringCount {
    command: u32,
    _reserved: u32,
    mask: u64,
    count: u32,
}

/// `struct ethtool_gstrings`.
#[repr(C)]
struct Strings {
    command: u32,
    set: u32,
    count: u32,
    strings: [[u8; STRING_BYTES]; MOST_FEATURES],
}

/// `struct ethtool_gfeatures`, per 32 features: available, requested, active, never changed.
#[repr(C)]
struct AllFeatures {
    command: u32,
    blocks: u32,
    features: [[u32; 4]; MOST_FEATURES / 32],
}

/// Whether any feature, by its name in the kernel (`tx-udp-segmentation`), is active; `None` when this kernel does not
/// know it.
///
/// # Errors
/// When the interface is unknown.
pub fn feature(fd: RawFd, link: &str, name: &str) -> anyhow::Result<Option<bool>> {
    let reading = || format!("cannot read offload '{name}' of '{link}'");
    let mut count =
        StringCount { command: GET_STRING_COUNTS, _reserved: 0, mask: 1 << STRINGS_OF_FEATURES, count: 0 };
    ioctl(fd, link, &mut count).with_context(reading)?;
    if count.count as usize > MOST_FEATURES {
        bail!("{} offloads of '{link}', and {MOST_FEATURES} were foreseen", count.count);
    }
    let mut known = Box::new(Strings {
        command: GET_STRINGS,
        set: STRINGS_OF_FEATURES,
        count: count.count,
        strings: [[0; STRING_BYTES]; MOST_FEATURES],
    });
    ioctl(fd, link, &mut *known).with_context(reading)?;
    let called =
        |string: &[u8; STRING_BYTES]| string.split(|byte| *byte == 0).next() == Some(name.as_bytes());
    let Some(at) = known.strings.iter().position(called) else { return Ok(None) };
    let mut all = AllFeatures {
        command: GET_ALL_FEATURES,
        blocks: count.count.div_ceil(32),
        features: [[0; 4]; MOST_FEATURES / 32],
    };
    ioctl(fd, link, &mut all).with_context(reading)?;
    let [_, _, active, _] = all.features[at / 32];
    Ok(Some(active & 1 << (at % 32) != 0))
}

/// Turns a feature on or off.
///
/// # Errors
/// When the interface refuses.
pub fn set(fd: RawFd, link: &str, feature: &str, on: bool) -> anyhow::Result<()> {
    let mut value = Value { command: commands(feature)?.1, data: u32::from(on) };
    ioctl(fd, link, &mut value).with_context(|| {
        format!("cannot turn offload '{feature}' of '{link}' {}", if on { "on" } else { "off" })
    })
}
