//! Backlog and drops of queue disciplines, over route netlink (RTM_GETQDISC).

use crate::probe::socket;
use anyhow::Context;
use std::os::fd::{AsRawFd, OwnedFd};

const HEADER_BYTES: usize = 16;
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TC_H_ROOT: u32 = 0xFFFF_FFFF;

/// The root queue discipline of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Interface index.
    pub interface: i32,
    /// `noqueue`, `htb`, ...
    pub kind: String,
    /// Sent so far.
    pub bytes: u64,
    /// Sent so far.
    pub packets: u64,
    /// Waiting now.
    pub backlog_packets: u64,
    /// Waiting now.
    pub backlog_bytes: u64,
    /// Dropped so far.
    pub drops: u64,
}

/// Root queue disciplines of this guest.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn roots() -> anyhow::Result<Vec<Root>> {
    let fd = socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
        .context("cannot open route netlink")?;
    let mut request = [0u8; HEADER_BYTES + TCMSG_BYTES];
    request[0..4].copy_from_slice(&((HEADER_BYTES + TCMSG_BYTES) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETQDISC.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    socket::send(std::os::fd::AsFd::as_fd(&fd), &request, None)
        .context("cannot ask for queue disciplines")?;
    let mut roots = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let length = receive(&fd, &mut buffer).context("cannot read queue disciplines")?;
        if !take(&buffer[..length], &mut roots)? {
            return Ok(roots);
        }
    }
}

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> std::io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let length = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    socket::check(length as i64).map(|length| length as usize)
}

/// Takes the messages of one datagram; false when the dump is over.
fn take(mut bytes: &[u8], roots: &mut Vec<Root>) -> anyhow::Result<bool> {
    while bytes.len() >= HEADER_BYTES {
        let length = (word(bytes, 0) as usize).clamp(HEADER_BYTES, bytes.len());
        match i32::from(half(bytes, 4)) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => {
                let code = word(&bytes[..length], HEADER_BYTES) as i32;
                anyhow::bail!("the kernel refuses: {}", std::io::Error::from_raw_os_error(-code));
            }
            _ => roots.extend(root_of(&bytes[HEADER_BYTES..length])),
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(true)
}

fn root_of(message: &[u8]) -> Option<Root> {
    let attributes = message.get(TCMSG_BYTES..)?;
    if word(message, 12) != TC_H_ROOT {
        return None;
    }
    let mut root = Root { interface: word(message, 4) as i32, ..Root::default() };
    for (kind, value) in Attributes(attributes) {
        match kind {
            TCA_KIND => root.kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            TCA_STATS2 => {
                for (kind, value) in Attributes(value) {
                    match kind {
                        TCA_STATS_BASIC => {
                            root.bytes = u64::from(word(value, 0)) | u64::from(word(value, 4)) << 32;
                            root.packets = u64::from(word(value, 8));
                        }
                        TCA_STATS_QUEUE => {
                            root.backlog_packets = u64::from(word(value, 0));
                            root.backlog_bytes = u64::from(word(value, 4));
                            root.drops = u64::from(word(value, 8));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(root)
}

/// Type and value of each netlink attribute.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(half(self.0, 0));
        if self.0.len() < 4 || length < 4 || length > self.0.len() {
            return None;
        }
        let item = (half(self.0, 2) & 0x3FFF, &self.0[4..length]);
        self.0 = &self.0[length.next_multiple_of(4).min(self.0.len())..];
        Some(item)
    }
}

/// The 32-bit number at an offset, 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// The 16-bit number at an offset, 0 beyond the end.
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|half| half.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_has_a_root_without_a_queue_or_no_root() {
        let roots = roots().unwrap();
        assert!(
            roots.iter().filter(|root| root.interface == 1).all(|root| root.kind == "noqueue"),
            "{roots:?}"
        );
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = take(&bytes, &mut Vec::new());
            let _ = root_of(&bytes);
        }
    }
}
