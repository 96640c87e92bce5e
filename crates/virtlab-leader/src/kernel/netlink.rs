//! Raw netlink: requests built attribute by attribute, sent in chunks, each answered by its sequence number.
//!
//! A chunk of about a hundred requests goes to the kernel in one system call; the kernel works through it before the
//! call returns and queues one acknowledgement per request. Building a world costs then little more than the kernel's
//! own work. Layouts: rtnetlink(7), linux/netlink.h.

use anyhow::{Context, bail};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Requests per system call; their acknowledgements must fit the socket's receive buffer.
const CHUNK: usize = 100;
const HEADER_BYTES: usize = 16;
const NETLINK_CAP_ACK: i32 = 10;
const NETLINK_EXT_ACK: i32 = 11;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Bits of an attribute's kind that are flags (nested, byte order).
const KIND_MASK: u16 = 0x3fff;

/// One netlink message in the making.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of `kind` that the kernel acknowledges, with `flags` added.
    pub fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    /// Appends a fixed structure.
    pub fn put(mut self, bytes: &[u8]) -> Self {
        self.append(bytes);
        self
    }

    /// Appends an attribute.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.append_attribute(kind, value);
        self
    }

    /// Appends an attribute that holds text, with its NUL.
    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// Appends an attribute that holds a 32-bit number.
    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends an attribute whose value `inside` writes.
    pub fn nested(mut self, kind: u16, inside: impl FnOnce(Self) -> Self) -> Self {
        self.append(&[]);
        let start = self.bytes.len();
        self.append_raw(&[0, 0]);
        self.append_raw(&kind.to_ne_bytes());
        self = inside(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// What follows the message's header, padded.
    #[cfg(test)]
    pub fn body(mut self) -> Vec<u8> {
        self.seal(0)[HEADER_BYTES..].to_vec()
    }

    fn append_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Starts on a multiple of four, as every attribute and structure does.
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.append_raw(bytes);
    }

    fn append_attribute(&mut self, kind: u16, value: &[u8]) {
        self.append(&((value.len() + 4) as u16).to_ne_bytes());
        self.append_raw(&kind.to_ne_bytes());
        self.append_raw(value);
    }

    /// Fills in length and sequence number; the bytes end on a multiple of four.
    fn seal(&mut self, sequence: u32) -> &[u8] {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }
}

/// What the kernel said of a request it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelError {
    /// The error number.
    pub errno: i32,
    /// The kernel's own sentence where it gave one, with the error's name.
    pub text: String,
}

impl KernelError {
    /// From an error number and the kernel's sentence.
    pub fn new(errno: i32, sentence: Option<String>) -> Self {
        let name = nix::errno::Errno::from_raw(errno).desc();
        Self {
            errno,
            text: sentence.map_or_else(|| name.to_owned(), |sentence| format!("{sentence} ({name})")),
        }
    }
}

/// The attributes in `bytes`: kind without flag bits, and value.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & KIND_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Two bytes as a number.
pub fn half(value: &[u8], at: usize) -> u16 {
    value.get(at..at + 2).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
}

/// The number in an attribute of four bytes (0 when it is shorter).
pub fn number32(value: &[u8]) -> u32 {
    value.get(..4).map_or(0, |bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

/// The number in an attribute of eight bytes (0 when it is shorter).
pub fn number64(value: &[u8]) -> u64 {
    value.get(..8).map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// The text in an attribute, without its NUL.
pub fn text(value: &[u8]) -> String {
    CStr::from_bytes_until_nul(value).map_or_else(
        |_| String::from_utf8_lossy(value).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// A route netlink socket of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the network namespace that the caller is in.
    ///
    /// # Errors
    /// When the kernel refuses the socket.
    pub fn open() -> anyhow::Result<Self> {
        let fd =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
                .context("cannot open a netlink socket")?;
        for option in [NETLINK_CAP_ACK, NETLINK_EXT_ACK] {
            set_option(fd.as_raw_fd(), libc::SOL_NETLINK, option, 1)?;
        }
        set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 1 << 20)?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; 64 << 10] })
    }

    /// The descriptor; also takes the device ioctls of its network namespace.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sends all requests in order and returns the kernel's verdict on each.
    ///
    /// # Errors
    /// When the socket fails; a refused request is a verdict, not an error.
    pub fn execute(&mut self, requests: &mut [Request]) -> anyhow::Result<Vec<Result<(), KernelError>>> {
        let mut verdicts = Vec::with_capacity(requests.len());
        for chunk in requests.chunks_mut(CHUNK) {
            let first = self.sequence.wrapping_add(1);
            let mut bytes = Vec::with_capacity(chunk.len() * 128);
            for request in chunk.iter_mut() {
                self.sequence = self.sequence.wrapping_add(1);
                bytes.extend_from_slice(request.seal(self.sequence));
            }
            self.send(&bytes)?;
            let mut answers: Vec<Option<Result<(), KernelError>>> = vec![None; chunk.len()];
            let mut missing = chunk.len();
            while missing > 0 {
                let length = self.receive()?;
                for (header, body) in messages(&self.buffer[..length]) {
                    let at = header.sequence.wrapping_sub(first) as usize;
                    if i32::from(header.kind) == libc::NLMSG_ERROR
                        && let Some(answer) = answers.get_mut(at)
                        && answer.is_none()
                    {
                        *answer = Some(verdict(&header, body));
                        missing -= 1;
                    }
                }
            }
            verdicts.extend(answers.into_iter().map(|answer| answer.expect("every request was answered")));
        }
        Ok(verdicts)
    }

    /// Sends one request.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_one(&mut self, request: Request) -> anyhow::Result<Result<(), KernelError>> {
        Ok(self.execute(&mut [request])?.remove(0))
    }

    /// All messages that answer a dump request: kind and body.
    ///
    /// # Errors
    /// When the socket fails or the kernel refuses the dump.
    pub fn dump(&mut self, kind: u16, header: &[u8]) -> anyhow::Result<Vec<(u16, Vec<u8>)>> {
        let mut request = Request::new(kind, libc::NLM_F_DUMP as u16).put(header);
        // A dump ends with NLMSG_DONE; an acknowledgement beside it would be one message too many.
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        request.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.seal(self.sequence).to_vec();
        self.send(&bytes)?;
        let mut found = Vec::new();
        loop {
            let length = self.receive()?;
            for (header, body) in messages(&self.buffer[..length]) {
                if header.sequence != self.sequence {
                    continue;
                }
                match i32::from(header.kind) {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => match verdict(&header, body) {
                        Ok(()) => return Ok(found),
                        Err(error) => bail!("the kernel refused to list kind {kind}: {}", error.text),
                    },
                    _ => found.push((header.kind, body.to_vec())),
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> anyhow::Result<()> {
        loop {
            match nix::sys::socket::send(self.fd.as_raw_fd(), bytes, nix::sys::socket::MsgFlags::empty()) {
                Ok(n) if n == bytes.len() => return Ok(()),
                Ok(n) => bail!("netlink took {n} of {} bytes", bytes.len()),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot send on a netlink socket"),
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<usize> {
        loop {
            match nix::sys::socket::recv(
                self.fd.as_raw_fd(),
                &mut self.buffer,
                nix::sys::socket::MsgFlags::empty(),
            ) {
                Ok(n) => return Ok(n),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).context("cannot read a netlink socket"),
            }
        }
    }
}

/// Sets a socket option that is one number.
pub fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> anyhow::Result<()> {
    let pointer = std::ptr::from_ref(&value).cast();
    // SAFETY: the option's value is an i32 that lives during the call, and its size is passed along.
    let code = unsafe { libc::setsockopt(fd, level, option, pointer, size_of::<i32>() as u32) };
    nix::errno::Errno::result(code).with_context(|| format!("cannot set socket option {level}/{option}"))?;
    Ok(())
}

struct Header {
    kind: u16,
    flags: u16,
    sequence: u32,
}

fn messages(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = number32(rest.get(..HEADER_BYTES)?) as usize;
        let header = Header {
            kind: u16::from_ne_bytes([rest[4], rest[5]]),
            flags: u16::from_ne_bytes([rest[6], rest[7]]),
            sequence: number32(&rest[8..12]),
        };
        let body = rest.get(HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((header, body))
    })
}

/// Reads an acknowledgement: error number, the request's header (capped), then attributes with the kernel's sentence.
fn verdict(header: &Header, body: &[u8]) -> Result<(), KernelError> {
    let errno = -(number32(body) as i32);
    if errno == 0 {
        return Ok(());
    }
    let mut sentence = None;
    if header.flags & NLM_F_ACK_TLVS != 0 {
        let request = if header.flags & NLM_F_CAPPED != 0 {
            HEADER_BYTES
        } else {
            (body.get(4..8).map_or(0, number32) as usize).next_multiple_of(4)
        };
        let tlvs = body.get(4 + request..).unwrap_or(&[]);
        sentence =
            attributes(tlvs).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG).map(|(_, value)| text(value));
    }
    Err(KernelError::new(errno, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_attribute_holds_its_parts_and_its_length() {
        let mut request = Request::new(16, 0)
            .put(&[0; 16])
            .text(3, "odd length")
            .nested(18, |r| r.text(1, "veth"))
            .u32(4, 7);
        let bytes = request.seal(9).to_vec();
        assert_eq!(number32(&bytes) as usize, bytes.len());
        let found: Vec<_> = attributes(&bytes[32..]).skip(1).collect();
        assert_eq!(found[0].0, 18);
        assert_eq!(attributes(found[0].1).next(), Some((1, b"veth\0".as_slice())));
        assert_eq!(found[1], (4, 7u32.to_ne_bytes().as_slice()));
    }

    #[test]
    fn a_refusal_carries_the_kernels_sentence() {
        let mut body = (-17i32).to_ne_bytes().to_vec();
        body.extend([0; 16]);
        let sentence = b"File is there\0\0\0";
        body.extend(((sentence.len() + 4) as u16).to_ne_bytes());
        body.extend(NLMSGERR_ATTR_MSG.to_ne_bytes());
        body.extend(sentence);
        let header = Header { kind: 2, flags: NLM_F_CAPPED | NLM_F_ACK_TLVS, sequence: 1 };
        let error = verdict(&header, &body).unwrap_err();
        assert_eq!(error.errno, libc::EEXIST);
        assert!(error.text.starts_with("File is there ("), "{}", error.text);
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_walk() {
        assert_eq!(attributes(&[40, 0, 1, 0, 1, 2, 3, 4]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
    }
}
