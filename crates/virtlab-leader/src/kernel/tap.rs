//! A virtual machine's port: a tap interface that lives as long as its descriptor, which the leader holds and
//! passes on.
//!
//! The interface belongs to the network namespace that the descriptor was opened in; no holder of the descriptor
//! needs to are there. Layout: linux/if_tun.h.

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const DEVICE: &str = "/dev/net/tun";
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETIFINDEX: libc::c_ulong = 0x4004_54da;

/// Frames that a tap keeps at most for who does not read them, several times over.
const MOST_KEPT: u32 = 10_000;

/// Drops the frames that came while nothing read them: who is born with a tap hears none from before.
pub fn forget(tap: &OwnedFd) {
    let mut head = [0; 64];
    for _ in 0..MOST_KEPT {
        let mut polled = [PollFd::new(tap.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::ZERO) != Ok(1) {
            return;
        }
        let _ = unistd::read(tap, &mut head); // the rest of the frame is dropped with it
    }
}

/// Makes a tap in the network namespace that the caller is in. With `offloads` every frame is preceded by a header
/// that says what its receiver still has to do (checksum, segmentation).
///
/// # Errors
/// When the device cannot be opened, or the kernel refuses the interface.
pub fn open(name: &str, index: i32, offloads: bool) -> anyhow::Result<OwnedFd> {
    let device: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .with_context(|| format!("cannot open {DEVICE}"))?
        .into();
    let wanted = libc::c_uint::try_from(index).context("an interface index is above 0")?;
    // SAFETY: the ioctl reads one unsigned integer, which lives during the call.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFINDEX as _, &raw const wanted) };
    Errno::result(code).context("cannot choose the tap's index")?;
    // SAFETY: ifreq is plain old data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        bail!("'{name}' is too long for an interface name");
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]); // signed on some processors
    }
    let header = if offloads { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as libc::c_short;
    // SAFETY: the request's name ends with NUL, and it lives during the call.
    let code = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    Errno::result(code).context("cannot make a tap")?;
    Ok(device)
}
