//! The server's side of NBD (Network Block Device), as bytes in and bytes out: fixed newstyle negotiation of one export
//! without a name, then requests with simple replies.
//!
//! Source: the NBD protocol, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. Not offered are
//! structured replies, trimming, forced unit access and old negotiation. The client is a guest's QEMU: its bytes are
//! hostile. What is no request of the protocol ends the connection; what the disk does not take is answered with an
//! error.

use virtlab_disk::{Kind, Refused, Request};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const HAVE_OPTION: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = (1 << 31) + 1;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

const HAS_FLAGS: u16 = 1;
const SEND_FLUSH: u16 = 1 << 2;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

const EINVAL: u32 = 22;
/// A write ends beyond the disk.
pub const ENOSPC: u32 = 28;
/// The disk has failed.
pub const EIO: u32 = 5;

/// Of one option or one request.
const MOST_OPTION_BYTES: u32 = 64 << 10;
/// Of what one request reads or writes.
pub const MOST_REQUEST_BYTES: u32 = 32 << 20;
const HEAD_BYTES: usize = 28;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// Something of the disk, with what is written.
    Request {
        /// The client's name of it.
        handle: u64,
        /// What of the disk.
        request: Request,
        /// What is written.
        written: Vec<u8>,
    },
    /// What no disk takes, with the error that is its answer.
    Impossible {
        /// The client's name of it.
        handle: u64,
        /// Its answer.
        error: u32,
    },
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client took leave.
    Left,
    /// It does not speak the protocol.
    Garbled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Flags,
    Options,
    Requests,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    size_bytes: u64,
    flushes: bool,
    stage: Stage,
    inbox: Vec<u8>,
    /// To be sent.
    pub outbox: Vec<u8>,
}

impl Connection {
    /// To a disk of that size; whether flushes are wanted of its client.
    pub fn new(size_bytes: u64, flushes: bool) -> Self {
        let mut outbox = Vec::new();
        outbox.extend(MAGIC.to_be_bytes());
        outbox.extend(HAVE_OPTION.to_be_bytes());
        outbox.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Self { size_bytes, flushes, stage: Stage::Flags, inbox: Vec::new(), outbox }
    }

    /// Takes bytes of the client in.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// The next request that is whole; `None` until there is one.
    ///
    /// # Errors
    /// When the connection ends.
    pub fn next_asked(&mut self) -> Result<Option<Asked>, End> {
        loop {
            let goes_on = match self.stage {
                Stage::Flags => self.take_flags()?,
                Stage::Options => self.take_option()?,
                Stage::Requests => return self.take_request(),
            };
            if !goes_on {
                return Ok(None);
            }
        }
    }

    /// Answers a request with an error, or with what was read.
    pub fn answer(&mut self, handle: u64, answer: Result<&[u8], u32>) {
        self.outbox.extend(REPLY.to_be_bytes());
        self.outbox.extend(answer.err().unwrap_or(0).to_be_bytes());
        self.outbox.extend(handle.to_be_bytes());
        self.outbox.extend_from_slice(answer.unwrap_or_default());
    }

    fn take_flags(&mut self) -> Result<bool, End> {
        let Some(flags) = self.u32_at(0) else { return Ok(false) };
        self.inbox.drain(..4);
        if flags & u32::from(FIXED_NEWSTYLE) == 0 || flags & u32::from(NO_ZEROES) == 0 {
            return Err(End::Garbled);
        }
        self.stage = Stage::Options;
        Ok(true)
    }

    fn take_option(&mut self) -> Result<bool, End> {
        let Some(length) = self.u32_at(12) else { return Ok(false) };
        if self.u64_at(0) != Some(HAVE_OPTION) || length > MOST_OPTION_BYTES {
            return Err(End::Garbled);
        }
        let (whole, option) = (16 + length as usize, self.u32_at(8).unwrap_or_default());
        if self.inbox.len() < whole {
            return Ok(false);
        }
        self.inbox.drain(..whole);
        match option {
            OPTION_GO => {
                let flags = HAS_FLAGS | if self.flushes { SEND_FLUSH } else { 0 };
                let export =
                    [&INFO_EXPORT.to_be_bytes()[..], &self.size_bytes.to_be_bytes(), &flags.to_be_bytes()];
                self.reply_option(option, REPLY_INFO, &export.concat());
                let sizes = [512u32, 4096, MOST_REQUEST_BYTES].map(u32::to_be_bytes).concat();
                self.reply_option(option, REPLY_INFO, &[&INFO_BLOCK_SIZE.to_be_bytes()[..], &sizes].concat());
                self.reply_option(option, REPLY_ACK, &[]);
                self.stage = Stage::Requests;
            }
            OPTION_ABORT => {
                self.reply_option(option, REPLY_ACK, &[]);
                return Err(End::Left);
            }
            _ => self.reply_option(option, REPLY_UNSUPPORTED, &[]),
        }
        Ok(true)
    }

    fn reply_option(&mut self, option: u32, kind: u32, body: &[u8]) {
        self.outbox.extend(OPTION_REPLY.to_be_bytes());
        self.outbox.extend(option.to_be_bytes());
        self.outbox.extend(kind.to_be_bytes());
        self.outbox.extend((body.len() as u32).to_be_bytes());
        self.outbox.extend_from_slice(body);
    }

    fn take_request(&mut self) -> Result<Option<Asked>, End> {
        if self.inbox.len() < HEAD_BYTES {
            return Ok(None);
        }
        let head = (self.u32_at(0), self.u32_at(4), self.u64_at(8), self.u64_at(16), self.u32_at(24));
        let (Some(REQUEST), Some(command), Some(handle), Some(offset), Some(bytes)) = head else {
            return Err(End::Garbled);
        };
        let (flags, command) = ((command >> 16) as u16, command as u16);
        let brought = if command == WRITE { bytes as usize } else { 0 };
        if brought > MOST_REQUEST_BYTES as usize {
            return Err(End::Garbled);
        }
        if self.inbox.len() < HEAD_BYTES + brought {
            return Ok(None);
        }
        let written: Vec<u8> = self.inbox[HEAD_BYTES..HEAD_BYTES + brought].to_vec();
        self.inbox.drain(..HEAD_BYTES + brought);
        let kind = match command {
            READ => Kind::Read,
            WRITE => Kind::Write,
            FLUSH => Kind::Flush,
            DISCONNECT => return Err(End::Left),
            _ => return Ok(Some(Asked::Impossible { handle, error: EINVAL })),
        };
        let request = match kind {
            Kind::Flush => Request::flush(),
            _ => Request { kind, offset, bytes: u64::from(bytes) },
        };
        let error = match request.check(self.size_bytes) {
            Err(Refused::Beyond) if kind == Kind::Write => Some(ENOSPC),
            Err(_) => Some(EINVAL),
            Ok(()) => (flags != 0 || bytes > MOST_REQUEST_BYTES).then_some(EINVAL),
        };
        Ok(Some(match error {
            Some(error) => Asked::Impossible { handle, error },
            None => Asked::Request { handle, request, written },
        }))
    }

    fn u32_at(&self, place: usize) -> Option<u32> {
        self.inbox.get(place..place + 4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn u64_at(&self, place: usize) -> Option<u64> {
        self.inbox.get(place..place + 8)?.try_into().ok().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn negotiated() -> Connection {
        let mut connection = Connection::new(1 << 20, true);
        connection.feed(&3u32.to_be_bytes());
        connection.feed(&option(8, &[]));
        connection.feed(&option(OPTION_GO, &[0, 0, 0, 0, 0, 0]));
        assert_eq!(connection.next_asked(), Ok(None));
        connection
    }

    fn option(option: u32, body: &[u8]) -> Vec<u8> {
        let head =
            [&HAVE_OPTION.to_be_bytes()[..], &option.to_be_bytes(), &(body.len() as u32).to_be_bytes()];
        [&head.concat()[..], body].concat()
    }

    fn request(flags: u16, command: u16, offset: u64, bytes: u32, more: &[u8]) -> Vec<u8> {
        let head = [
            &REQUEST.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &command.to_be_bytes(),
            &7u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &bytes.to_be_bytes(),
        ];
        [&head.concat()[..], more].concat()
    }

    #[test]
    fn a_client_learns_the_size_and_that_flushes_are_wanted() {
        let connection = negotiated();
        let said = &connection.outbox;
        assert_eq!(&said[..8], b"NBDMAGIC");
        let info =
            said.windows(12).find(|each| each[..2] == [0, 0] && each[2..10] == (1u64 << 20).to_be_bytes());
        assert_eq!(info.unwrap()[10..], [0, 5]);
        let unsupported = REPLY_UNSUPPORTED.to_be_bytes();
        assert!(said.windows(4).any(|each| each == unsupported), "structured replies");
    }

    #[test]
    fn requests_may_come_in_pieces() {
        let mut connection = negotiated();
        let whole = request(0, WRITE, 512, 512, &[9; 512]);
        for byte in &whole[..whole.len() - 1] {
            connection.feed(&[*byte]);
            assert_eq!(connection.next_asked(), Ok(None));
        }
        connection.feed(&[9]);
        let wanted = Request { kind: Kind::Write, offset: 512, bytes: 512 };
        assert_eq!(
            connection.next_asked(),
            Ok(Some(Asked::Request { handle: 7, request: wanted, written: vec![9; 512] }))
        );
    }

    #[test]
    fn what_no_disk_takes_is_an_error_and_the_connection_goes_on() {
        let mut connection = negotiated();
        let impossible = [
            (request(0, READ, 1 << 20, 512, &[]), EINVAL),
            (request(0, READ, u64::MAX, 512, &[]), EINVAL),
            (request(0, READ, 0, 0, &[]), EINVAL),
            (request(0, READ, 0, u32::MAX, &[]), EINVAL),
            (request(0, READ, 3, 512, &[]), EINVAL),
            (request(0, WRITE, 1 << 20, 512, &[0; 512]), ENOSPC),
            (request(1, WRITE, 0, 512, &[0; 512]), EINVAL),
            (request(0, 4, 0, 512, &[]), EINVAL),
            (request(0, 99, 0, 512, &[]), EINVAL),
        ];
        for (bytes, error) in impossible {
            connection.feed(&bytes);
            assert_eq!(connection.next_asked(), Ok(Some(Asked::Impossible { handle: 7, error })));
        }
        connection.feed(&request(0, FLUSH, 0, 0, &[]));
        assert!(matches!(connection.next_asked(), Ok(Some(Asked::Request { .. }))));
        connection.feed(&request(0, DISCONNECT, 0, 0, &[]));
        assert_eq!(connection.next_asked(), Err(End::Left));
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        let mut connection = negotiated();
        connection.feed(&request(0, WRITE, 0, MOST_REQUEST_BYTES + 1, &[]));
        assert_eq!(connection.next_asked(), Err(End::Garbled));
        let mut connection = negotiated();
        connection.feed(&[0; HEAD_BYTES]);
        assert_eq!(connection.next_asked(), Err(End::Garbled));
        let mut connection = Connection::new(512, false);
        connection.feed(&0u32.to_be_bytes());
        assert_eq!(connection.next_asked(), Err(End::Garbled));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_take_what_is_no_part_of_the_disk(
            negotiates in any::<bool>(),
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        ) {
            let mut connection = if negotiates { negotiated() } else { Connection::new(1 << 20, false) };
            'all: for chunk in chunks {
                connection.feed(&chunk);
                loop {
                    match connection.next_asked() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'all,
                    }
                }
            }
        }

        #[test]
        fn any_request_is_taken_or_answered_with_an_error(
            flags in 0u16..4, command in 0u16..9, offset in any::<u64>(), near in 0u64..(2 << 20), far in any::<bool>(),
            bytes in 0u32..(1 << 16),
        ) {
            let mut connection = negotiated();
            let offset = if far { offset } else { near };
            let more = vec![0; if command == WRITE { bytes as usize } else { 0 }];
            connection.feed(&request(flags, command, offset, bytes, &more));
            match connection.next_asked() {
                Ok(Some(Asked::Request { request, written, .. })) => {
                    prop_assert_eq!(request.check(1 << 20), Ok(()));
                    prop_assert!(request.kind != Kind::Write || written.len() as u64 == request.bytes);
                }
                Ok(Some(Asked::Impossible { error, .. })) => prop_assert!(error == EINVAL || error == ENOSPC),
                Err(End::Left) => prop_assert_eq!(command, DISCONNECT),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
