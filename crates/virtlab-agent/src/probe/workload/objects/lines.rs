//! What two peers say to each other: TCP connections that stay, and datagrams for lookups by multicast.
//!
//! Who has something to say to a node or proxy connects, if there is no connection yet; a client is answered on its
//! own. What is under way on a connection that breaks is lost, which the machines expect.

use super::codec::{self, Content, HEAD_BYTES, Word};
use crate::probe::socket::{self, Inbox, RawAddress, Trouble, trouble};
use crate::probe::workload::tcp;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use virtlab_load::parameters::Buffers;
use virtlab_store::{Message, Peer};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Read at once.
const PIECE_BYTES: usize = 128 << 10;
/// Room that is made at once for what a peer says that it will say.
const ROOM_BYTES: usize = 1 << 20;
/// Content up to this leaves with its head, in one call.
const TOGETHER_BYTES: usize = 64 << 10;
/// Octets that wait for a peer that reads nothing: beyond them the next message gives the connection up.
const WAITING_MOST_BYTES: usize = 256 << 20;
/// The longest wait: others look whether they are to end.
const LOOK: Nanos = Nanos(100_000_000);
/// Connections at one time: two of each peer that a message can name, since an older one may be over unseen.
const LINES_MOST: usize = 2 * codec::PEERS_MOST;

/// Addresses of which it is said that they are refused: anybody can make up more.
const REFUSED_MOST: usize = 16;

/// Where the peers of a store are.
pub struct Places {
    /// This one.
    pub me: Peer,
    /// Its own address.
    pub local: IpAddr,
    /// Of the nodes and proxies, in their order.
    pub peers: Vec<SocketAddr>,
    /// To which questions for all nodes go, where lookups are by multicast, and whether this one hears them.
    pub group: Option<(SocketAddr, bool)>,
}

/// From where each peer speaks, so that no guest can speak for another: nodes and proxies from the addresses that are
/// known of them, a client from the one from which it spoke first.
#[derive(Default)]
pub(super) struct Known {
    peers: Vec<IpAddr>,
    clients: BTreeMap<Peer, IpAddr>,
    /// From where somebody spoke for another.
    refused: BTreeSet<IpAddr>,
    /// Those whose addresses have refused the last connection to them.
    away: BTreeSet<Peer>,
}

impl Known {
    /// Of nodes and proxies at these addresses.
    pub(super) fn new(peers: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { peers: peers.into_iter().map(|one| one.to_canonical()).collect(), ..Self::default() }
    }

    /// Whether what came from an address can be of a peer; the output names each address once from which it can not.
    fn fits(&mut self, peer: Peer, from: IpAddr) -> bool {
        let from = from.to_canonical();
        let known = self.peers.get(peer.0 as usize).copied();
        let known = known.unwrap_or_else(|| *self.clients.entry(peer).or_insert(from));
        if let Some(line) = (known != from).then(|| self.refusal(peer, from, known)).flatten() {
            say_of_peers(&line);
        }
        known == from
    }

    /// What is to be said of an address from which a message is refused, if it was not said before.
    fn refusal(&mut self, peer: Peer, from: IpAddr, known: IpAddr) -> Option<String> {
        let is_new = self.refused.len() < REFUSED_MOST && self.refused.insert(from);
        let number = peer.0;
        is_new.then(|| format!("messages from {from} are refused: peer {number} speaks from {known}"))
    }
}

/// What a peer has said.
pub struct Heard {
    pub from: Peer,
    pub word: Word,
    /// When its first octets were read.
    pub began: Nanos,
}

/// A line of the output, if somebody takes it.
fn say_of_peers(line: &str) {
    // Who waits for it may be gone, and no stranger ends who serves.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A connection.
pub(super) struct Line {
    fd: OwnedFd,
    /// The address at its other end.
    at: IpAddr,
    peer: Option<Peer>,
    out: VecDeque<(Content, usize)>,
    /// Octets of these that are not written yet.
    waiting: usize,
    head: [u8; HEAD_BYTES],
    have: usize,
    /// When the first octets of the head were read.
    began: Nanos,
    rest: Vec<u8>,
    wanted: usize,
    /// Its other end refuses it.
    refused: bool,
}

impl Line {
    pub(super) fn new(fd: OwnedFd, at: IpAddr, peer: Option<Peer>) -> Self {
        let (out, rest) = (VecDeque::new(), Vec::new());
        Self {
            fd,
            at,
            peer,
            out,
            waiting: 0,
            head: [0; HEAD_BYTES],
            have: 0,
            began: Nanos(0),
            rest,
            wanted: 0,
            refused: false,
        }
    }

    fn put(&mut self, content: Content) {
        self.waiting += content.octets().len();
        self.out.push_back((content, 0));
    }

    /// Writes what the kernel takes; false when the connection is over.
    fn write(&mut self) -> bool {
        while let Some((content, done)) = self.out.front_mut() {
            match tcp::write_with(&self.fd, &content.octets()[*done..], 0) {
                Ok(count) => {
                    *done += count;
                    self.waiting -= count;
                }
                Err(error) => return self.stays(&error),
            }
            if *done == content.octets().len() {
                self.out.pop_front();
            }
        }
        true
    }

    /// Whether an error leaves it open.
    fn stays(&mut self, error: &std::io::Error) -> bool {
        self.refused |= error.kind() == ErrorKind::ConnectionRefused;
        trouble(error) == Trouble::Again
    }

    /// Takes what was read at an instant; false when that is no message, or of no peer that speaks from there.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        mut octets: &[u8],
        known: &mut Known,
        heard: &mut VecDeque<Heard>,
    ) -> bool {
        while !octets.is_empty() {
            if self.have == 0 {
                self.began = now;
            }
            if self.have < HEAD_BYTES {
                let count = octets.len().min(HEAD_BYTES - self.have);
                self.head[self.have..self.have + count].copy_from_slice(&octets[..count]);
                self.have += count;
                octets = &octets[count..];
                if self.have < HEAD_BYTES {
                    return true;
                }
                let Some(wanted) = codec::follows(&self.head) else { return false };
                self.wanted = wanted;
                self.rest = Vec::with_capacity(wanted.min(ROOM_BYTES));
            }
            let count = octets.len().min(self.wanted - self.rest.len());
            self.rest.extend_from_slice(&octets[..count]);
            octets = &octets[count..];
            if self.rest.len() == self.wanted {
                let Some((from, word)) = codec::decode(&self.head, std::mem::take(&mut self.rest)) else {
                    return false;
                };
                if self.peer.is_none() && known.fits(from, self.at) {
                    self.peer = Some(from);
                }
                if self.peer != Some(from) {
                    return false;
                }
                heard.push_back(Heard { from, word, began: self.began });
                self.have = 0;
            }
        }
        true
    }
}

/// Questions to all nodes, and their answers.
struct Group {
    fd: OwnedFd,
    to: RawAddress,
    inbox: Inbox,
    /// From where each peer has asked.
    askers: BTreeMap<Peer, SocketAddr>,
}

impl Group {
    fn new(local: IpAddr, group: SocketAddr, hears: bool) -> anyhow::Result<Self> {
        let (IpAddr::V4(own), IpAddr::V4(all)) = (local, group.ip()) else {
            anyhow::bail!("lookups by multicast need IPv4");
        };
        let from: SocketAddr =
            if hears { (Ipv4Addr::UNSPECIFIED, group.port()).into() } else { (own, 0).into() };
        let fd = socket::open(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
        let interface = libc::in_addr { s_addr: u32::from_ne_bytes(own.octets()) };
        socket::set_option(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, interface)?;
        socket::set_option(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0i32)?;
        socket::bind(&fd, from).with_context(|| format!("cannot bind UDP {from}"))?;
        if hears {
            let all = libc::in_addr { s_addr: u32::from_ne_bytes(all.octets()) };
            let wanted = libc::ip_mreq { imr_multiaddr: all, imr_interface: interface };
            socket::set_option(&fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, wanted)
                .with_context(|| format!("cannot join {group}"))?;
        }
        Ok(Self { fd, to: group.into(), inbox: Inbox::new(), askers: BTreeMap::new() })
    }

    /// What came, of peers that speak from there.
    fn take(&mut self, known: &mut Known, heard: &mut VecDeque<Heard>) {
        let now = clock::raw();
        while let Ok(datagram) = self.inbox.receive(self.fd.as_fd(), libc::MSG_DONTWAIT) {
            let Some((head, rest)) = datagram.bytes.split_first_chunk::<HEAD_BYTES>() else { continue };
            let Some((peer, word)) = codec::decode(head, rest.to_vec()) else { continue };
            if let Some(from) = datagram.from().filter(|from| known.fits(peer, from.ip())) {
                self.askers.insert(peer, from);
                heard.push_back(Heard { from: peer, word, began: now });
            }
        }
    }
}

/// Of one peer.
pub struct Lines {
    places: Places,
    known: Known,
    listener: Option<tcp::Listener>,
    /// When connections are accepted again, after one could not be.
    welcome_from: Nanos,
    lines: BTreeMap<u64, Line>,
    by_peer: BTreeMap<Peer, u64>,
    number: u64,
    group: Option<Group>,
    heard: VecDeque<Heard>,
    inbox: Vec<u8>,
    /// Signals that do not end a wait.
    blocked: SigSet,
    /// By client, what was said for it: messages, octets, and those of lookups.
    said: BTreeMap<Peer, [u64; 4]>,
}

impl Lines {
    /// Of a peer that can be connected to through `listener`, if it can.
    ///
    /// # Errors
    /// When datagrams cannot be had.
    pub fn new(places: Places, listener: Option<tcp::Listener>) -> anyhow::Result<Self> {
        let group = match places.group {
            Some((group, hears)) => Some(Group::new(places.local, group, hears)?),
            None => None,
        };
        Ok(Self {
            known: Known::new(places.peers.iter().map(SocketAddr::ip)),
            places,
            listener,
            welcome_from: Nanos(0),
            lines: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            number: 0,
            group,
            heard: VecDeque::new(),
            inbox: vec![0; PIECE_BYTES],
            blocked: SigSet::empty(),
            said: BTreeMap::new(),
        })
    }

    /// Leaves signals of its process to other threads, as far as this one does.
    ///
    /// # Errors
    /// When it cannot be told which these are.
    pub fn leave_signals(&mut self) -> anyhow::Result<()> {
        self.blocked = SigSet::thread_get_mask().context("cannot read a thread's signals")?;
        Ok(())
    }

    /// Who this is.
    pub fn me(&self) -> Peer {
        self.places.me
    }

    /// What was said for a client: messages, octets, and those of lookups.
    pub fn said_for(&self, client: Peer) -> [u64; 4] {
        self.said.get(&client).copied().unwrap_or_default()
    }

    /// Whether its address has refused the last connection to it.
    pub fn is_away(&self, peer: Peer) -> bool {
        self.known.away.contains(&peer)
    }

    /// Writes what waits for peers until they have taken all of it, or nothing for so long. What they say is not heard.
    ///
    /// # Errors
    /// As `wait`.
    pub fn drain(&mut self, patience: Nanos) -> anyhow::Result<()> {
        let (mut least, mut until) = (usize::MAX, Nanos(0));
        loop {
            let waiting = self.lines.values().map(|line| line.waiting).sum();
            let now = clock::raw();
            if waiting < least {
                (least, until) = (waiting, now + patience);
            }
            if waiting == 0 || until <= now {
                return Ok(());
            }
            self.wait(Some(until), &[])?;
            self.heard.clear();
        }
    }

    /// What was heard next.
    pub fn heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// Says something to one peer, with the content of its object.
    pub fn say(&mut self, to: Peer, message: &Message, content: Option<&Content>) {
        let head = codec::encode(self.places.me, message);
        let follows = head.len() - codec::HEAD_BYTES + content.map_or(0, |content| content.octets().len());
        if head.first_chunk().and_then(codec::follows) != Some(follows) {
            return; // Its content is gone: what came next would be taken for it.
        }
        self.count(message);
        if let (Some(group), Message::Found(..)) = (&self.group, message) {
            if let Some(&asker) = group.askers.get(&to) {
                // Lost as any datagram may be: then it is asked again.
                let _ = socket::send(group.fd.as_fd(), &head, Some(&asker.into()));
            }
            return;
        }
        self.send(to, head, content);
    }

    /// Asks all nodes.
    pub fn ask_all(&mut self, message: &Message) {
        self.count(message);
        let head = codec::encode(self.places.me, message);
        if let Some(group) = &self.group {
            let _ = socket::send(group.fd.as_fd(), &head, Some(&group.to));
        }
    }

    /// Sends octets to one peer, on the connection that there is, or on a new one.
    pub fn send(&mut self, to: Peer, mut head: Vec<u8>, content: Option<&Content>) {
        let Some(number) = self.line_to(to) else { return };
        let Some(line) = self.lines.get_mut(&number) else { return };
        if line.waiting > WAITING_MOST_BYTES {
            self.end(number);
            return;
        }
        match content.filter(|content| !content.octets().is_empty()) {
            Some(content) if content.octets().len() > TOGETHER_BYTES => {
                line.put(Content::of(head));
                line.put(content.clone());
            }
            other => {
                head.extend_from_slice(other.map_or(&[][..], Content::octets));
                line.put(Content::of(head));
            }
        }
        if !line.write() {
            self.end(number);
        }
    }

    fn line_to(&mut self, to: Peer) -> Option<u64> {
        if let Some(&number) = self.by_peer.get(&to) {
            return Some(number);
        }
        let place = *self.places.peers.get(to.0 as usize)?;
        self.known.away.remove(&to);
        let fd = tcp::dial(SocketAddr::new(self.places.local, 0), place, Buffers::default()).ok()?;
        let number = self.add(Line::new(fd, place.ip(), Some(to)));
        self.by_peer.insert(to, number);
        Some(number)
    }

    fn add(&mut self, line: Line) -> u64 {
        self.number += 1;
        self.lines.insert(self.number, line);
        self.number
    }

    fn end(&mut self, number: u64) {
        if let Some(Line { refused: true, peer: Some(peer), .. }) = self.lines.remove(&number) {
            self.known.away.insert(peer);
        }
        self.by_peer.retain(|_, one| *one != number);
    }

    /// Sleeps until something came, something can be written, one of the others is ready, or an instant; which others
    /// are.
    ///
    /// # Errors
    /// As poll(2), and when no connection can be accepted any more.
    pub fn wait(&mut self, until: Option<Nanos>, others: &[BorrowedFd<'_>]) -> anyhow::Result<Vec<bool>> {
        let now = clock::raw();
        let left = until.map_or(LOOK, |until| until.since(now).min(LOOK));
        let welcomes = self.welcome_from <= now;
        let numbers: Vec<u64> = self.lines.keys().copied().collect();
        let mut polled: Vec<PollFd<'_>> =
            others.iter().map(|other| PollFd::new(*other, PollFlags::POLLIN)).collect();
        polled.extend(self.lines.values().map(|line| {
            let wanted =
                if line.out.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT };
            PollFd::new(line.fd.as_fd(), wanted)
        }));
        polled.extend(self.group.iter().map(|group| PollFd::new(group.fd.as_fd(), PollFlags::POLLIN)));
        polled.extend(
            self.listener.iter().filter(|_| welcomes).map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)),
        );
        match ppoll(&mut polled, Some(TimeSpec::new(0, left.0 as i64)), Some(self.blocked)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for peers"),
        }
        let mut ready: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(true)).collect();
        let rest = ready.split_off(others.len());
        for (number, _) in numbers.iter().zip(&rest).filter(|(_, ready)| **ready) {
            if !self.serve(*number) {
                self.end(*number);
            }
        }
        let mut rest = rest[numbers.len()..].iter();
        if self.group.is_some() && rest.next() == Some(&true) {
            let Self { group, known, heard, .. } = self;
            group.iter_mut().for_each(|group| group.take(known, heard));
        }
        if rest.next() == Some(&true) {
            self.welcome()?;
        }
        Ok(ready)
    }

    /// Reads and writes what can be; false when the connection is over.
    fn serve(&mut self, number: u64) -> bool {
        let Self { lines, by_peer, known, heard, inbox, .. } = self;
        let Some(line) = lines.get_mut(&number) else { return false };
        if !line.write() {
            return false;
        }
        // Once: what is left is ready again after other lines had their turn.
        match tcp::read(&line.fd, inbox, 0) {
            Ok(0) => false,
            Ok(count) => {
                let fits = line.take(clock::raw(), &inbox[..count], known, heard);
                // Answers go where the peer spoke last: an older connection may be over without our having seen it.
                if let Some(peer) = line.peer {
                    by_peer.insert(peer, number);
                }
                fits
            }
            Err(error) => line.stays(&error),
        }
    }

    /// Accepts connections. Where one cannot be, for want of descriptors, say, the others stay, and the next are
    /// accepted a little later.
    fn welcome(&mut self) -> anyhow::Result<()> {
        while let Some(listener) = &self.listener {
            match tcp::accept_one(listener, libc::SOCK_NONBLOCK) {
                Ok(Some(fd)) => {
                    if let (Ok(()), Ok(from)) = (tcp::set_no_delay(&fd), socket::peer_address(&fd))
                        && self.has_room()
                    {
                        self.add(Line::new(fd, from.ip(), None));
                    }
                }
                Ok(None) => {}
                Err(error) if trouble(&error) == Trouble::Again => break,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL)) => {
                    return Err(error).context("cannot accept a connection");
                }
                Err(error) => {
                    if self.welcome_from == Nanos(0) {
                        say_of_peers(&format!("cannot accept a connection: {error}; it is tried again"));
                    }
                    self.welcome_from = clock::raw() + LOOK;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether one more connection may be; the oldest on which no peer has spoken ends for it.
    fn has_room(&mut self) -> bool {
        if self.lines.len() >= LINES_MOST {
            let silent = self.lines.iter().find(|(_, line)| line.peer.is_none()).map(|(number, _)| *number);
            silent.inspect(|number| self.end(*number));
        }
        self.lines.len() < LINES_MOST
    }

    /// Counts a message for the client of its operation.
    fn count(&mut self, message: &Message) {
        let Some(attempt) = message.attempt() else { return };
        let bytes = message.bytes();
        let [messages, all, lookups, lookup_bytes] = self.said.entry(attempt.client).or_default();
        (*messages, *all) = (*messages + 1, *all + bytes);
        if message.seeks() {
            (*lookups, *lookup_bytes) = (*lookups + 1, *lookup_bytes + bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use virtlab_store::{Attempt, Key, Outcome};

    const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

    /// What one peer hears of what another says from an address; whether its connection stays.
    fn heard(known: &mut Known, from: IpAddr, peer: u32) -> (usize, bool) {
        let attempt = Attempt { client: Peer(peer), operation: 1, number: 0 };
        let octets = codec::encode(Peer(peer), &Message::Led(attempt, Key(1), Outcome::Missing));
        let null = std::fs::File::open("/dev/null").unwrap();
        let (mut line, mut heard) = (Line::new(null.into(), from, None), VecDeque::new());
        let stays = line.take(Nanos(0), &octets, known, &mut heard);
        (heard.len(), stays)
    }

    #[test]
    fn a_message_began_when_its_first_octets_were_read() {
        let attempt = Attempt { client: Peer(1), operation: 1, number: 0 };
        let message = codec::encode(Peer(1), &Message::Led(attempt, Key(1), Outcome::Missing));
        let octets = [message.clone(), message].concat();
        let null = std::fs::File::open("/dev/null").unwrap();
        let (mut line, mut heard) = (Line::new(null.into(), FAR, None), VecDeque::new());
        let mut known = Known::new([NEAR]);
        let cuts = [1, HEAD_BYTES, octets.len() / 2 + 1, octets.len()];
        let mut from = 0;
        for (at, to) in (10..).zip(cuts) {
            assert!(line.take(Nanos(at), &octets[from..to], &mut known, &mut heard));
            from = to;
        }
        let began: Vec<u64> = heard.iter().map(|heard| heard.began.0).collect();
        assert_eq!(began, [10, 12], "the first by its first octet, the second where that ended");
    }

    #[test]
    fn no_guest_speaks_for_another() {
        let mut known = Known::new([NEAR]);
        assert_eq!(heard(&mut known, NEAR, 0), (1, true), "the node itself");
        assert_eq!(heard(&mut known, FAR, 0), (0, false), "another as the node");
        assert_eq!(heard(&mut known, FAR, 1), (1, true), "a client");
        assert_eq!(heard(&mut known, NEAR, 1), (0, false), "the node as that client");
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert_eq!(heard(&mut known, mapped, 0), (1, true), "a socket of both versions says its address so");
        assert!(known.refused.iter().eq([&NEAR, &FAR]), "of both the output tells");
    }

    #[test]
    fn the_output_names_each_address_once_that_speaks_for_another() {
        let mut known = Known::new([NEAR]);
        let said = known.refusal(Peer(0), FAR, NEAR);
        assert_eq!(
            said.as_deref(),
            Some("messages from 127.0.0.9 are refused: peer 0 speaks from 127.0.0.1")
        );
        assert_eq!(known.refusal(Peer(0), FAR, NEAR), None, "it was said");
        let others = (0..255).map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let lines = others.filter_map(|from| known.refusal(Peer(0), from, NEAR)).count();
        assert_eq!(lines, REFUSED_MOST - 1, "no guest fills a disk with made up addresses");
    }

    #[test]
    fn an_output_that_takes_nothing_ends_nobody() {
        const IS_CHILD: &str = "VIRTLAB_OUTPUT_TAKES_NOTHING";
        if std::env::var_os(IS_CHILD).is_some() {
            assert!(Known::new([NEAR]).fits(Peer(0), NEAR));
            assert!(!Known::new([NEAR]).fits(Peer(0), FAR), "and the output is to tell of it");
            return;
        }
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (_, own) = module_path!().split_once("::").unwrap();
        let own = format!("{own}::an_output_that_takes_nothing_ends_nobody");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        // What a test writes goes to its process only so.
        let child = child.args(["--exact", &own, "--nocapture"]).env(IS_CHILD, "").stderr(full);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn connections_that_say_nothing_make_room_for_others() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
        let listener = tcp::listen_to_all(0, Buffers::default()).unwrap();
        let flags = nix::fcntl::OFlag::O_NONBLOCK;
        nix::fcntl::fcntl(&listener, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
        let port = socket::local_address(&listener).unwrap().port();
        let places = Places { me: Peer(0), local: NEAR, peers: Vec::new(), group: None };
        let mut lines = Lines::new(places, Some(listener)).unwrap();
        let mut others = Vec::new();
        for _ in 0..LINES_MOST + 8 {
            others.push(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
            lines.wait(None, &[]).unwrap();
        }
        assert_eq!(lines.lines.len(), LINES_MOST);
    }
}
