//! What kernels say of themselves over IPv6: frames of every interface that comes up, which are not requested and
//! which occupy links.
//!
//! An interface joins the multicast group of its link-local address and reports that (MLDv2, RFC 3810: twice,
//! within a second); asks after up to a second whether another has the address (RFC 4862, 5.4: one solicitation,
//! with a nonce as of RFC 7527); and, when a further second has brought no answer, reports its groups twice again,
//! now from its address, and asks for routers (RFC 4861, 6.3.7), after 4 s again and then after twice as long each
//! time (RFC 7559, with RFC 3315's random tenth). Interfaces of a router ask for none, and report the groups of all
//! routers, too. A Linux bridge joins the group of all snoopers (RFC 4286) beside, and reports that twice. All
//! interfaces come up at the beginning of a run; those of a guest that is reset fall silent, and come up again with
//! it. Addresses that an interface is given are not asked after: the testbed gives them as known to be no other's
//! (`IFA_F_NODAD`).
//!
//! An interface is each vNIC, the port of its virtual switch, which speaks to the guest alone, each uplink, which
//! speaks to the link alone, and a Linux bridge's own, which speaks through all of its ports. Everything goes to
//! groups, so switches flood it; who hears it counts it, and does nothing, as there are no routers that would
//! answer and no address is taken twice. Source: Linux `net/ipv6/{addrconf,mcast,ndisc}.c`, with its defaults.

use crate::input::{Input, On, Way};
use crate::ip::{Cargo, Message};
use crate::network::frames::{NOISE, Outgoing};
use std::collections::VecDeque;
use virtlab_fabric::{Mac, PortId, flow_hash};
use virtlab_load::random::Stream;

const SECOND_NS: f64 = 1e9;
/// Headers: Ethernet, IPv6, router alert, report and each of its groups, solicitations, an option.
const IPV6_BYTES: u32 = 14 + 40;
const ALERT_BYTES: u32 = 8;
const REPORT_BYTES: u32 = 8;
const GROUP_BYTES: u32 = 20;
const PROBE_BYTES: u32 = 24;
const ASKING_BYTES: u32 = 8;
const OPTION_BYTES: u32 = 8;
/// Linux's router_solicitation_interval and router_solicitation_max_interval.
const INTERVAL_NS: f64 = 4e9;
const MOST_INTERVAL_NS: f64 = 3600e9;
const REPORTS_TO: Mac = Mac([0x33, 0x33, 0, 0, 0, 0x16]);
const ROUTERS: Mac = Mac([0x33, 0x33, 0, 0, 0, 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Report,
    Probe,
    Ask,
}

/// Where an interface's frames go.
#[derive(Clone, Copy, Debug)]
pub enum Voice {
    /// Out of a vNIC.
    Nic(usize),
    /// To a vNIC, from its virtual switch's port.
    Behind(usize),
    /// Out of all ports of a virtual switch.
    Bridge(usize),
    /// Into a link.
    Uplink(PortId),
}

struct Speaker {
    voice: Voice,
    mac: Mac,
    groups: u32,
    /// For routers.
    asks: bool,
    words: VecDeque<(u64, Word)>,
    draws: Stream,
    interval_ns: f64,
}

/// Interfaces that speak.
#[derive(Default)]
pub struct Noise {
    speakers: Vec<Speaker>,
}

impl Speaker {
    fn new(voice: Voice, mac: Mac, groups: u32, asks: bool, draws: Stream) -> Self {
        let mut own = Self { voice, mac, groups, asks, words: VecDeque::new(), draws, interval_ns: 0.0 };
        own.come_up(0);
        own
    }

    /// Has everything to say that an interface says as it comes up, and nothing else.
    fn come_up(&mut self, now_ns: u64) {
        let [again, begin, after, of_snoopers] = [0; 4].map(|_| self.draws.uniform() * SECOND_NS);
        let known = begin + SECOND_NS;
        let mut words =
            vec![(0.0, Word::Report), (again, Word::Report), (begin, Word::Probe), (known, Word::Report)];
        if self.asks {
            words.push((known, Word::Ask));
        }
        words.push((known + after, Word::Report));
        if matches!(self.voice, Voice::Bridge(_)) {
            words.extend([(0.0, Word::Report), (of_snoopers, Word::Report)]);
        }
        words.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.words = words.into_iter().map(|(at, word)| (now_ns + at as u64, word)).collect();
        self.interval_ns = 0.0;
    }

    /// RFC 3315, 14: each interval is about twice the one before, a tenth more or less.
    fn next_interval_ns(&mut self) -> f64 {
        let tenth = 0.2 * self.draws.uniform() - 0.1;
        self.interval_ns = match self.interval_ns {
            0.0 => INTERVAL_NS * (1.0 + tenth),
            before => before * (2.0 + tenth),
        };
        if self.interval_ns > MOST_INTERVAL_NS {
            self.interval_ns = MOST_INTERVAL_NS * (1.0 + tenth);
        }
        self.interval_ns
    }

    fn bytes(&self, word: Word) -> u32 {
        IPV6_BYTES
            + match word {
                Word::Report => ALERT_BYTES + REPORT_BYTES + self.groups * GROUP_BYTES,
                Word::Probe => PROBE_BYTES + OPTION_BYTES,
                Word::Ask => ASKING_BYTES + OPTION_BYTES,
            }
    }
}

impl Noise {
    /// The interfaces of a world whose kernels speak, all of which come up; `port`: of the fabric, by its name.
    pub fn new(input: &Input, port: impl Fn(&str) -> Option<PortId>) -> Self {
        let Some(given) = &input.noise else { return Self::default() };
        let draws = |name: &str| Stream::new(given.seed, &format!("ipv6 noise {name}"));
        let made = |kind: u8, place: usize| Mac([0x02, 0x76, kind, 0, (place >> 8) as u8, place as u8]);
        let mut speakers = Vec::new();
        for (place, vnic) in input.vnics.iter().enumerate() {
            let guest = &input.guests[vnic.guest];
            let mut ends: Vec<[u8; 3]> = vec![[vnic.mac.0[3], vnic.mac.0[4], vnic.mac.0[5]]];
            for address in &guest.addresses {
                if let core::net::IpAddr::V6(address) = address
                    && input.neighbours.get(&core::net::IpAddr::V6(*address)) == Some(&vnic.mac)
                {
                    let [.., high, middle, low] = address.octets();
                    ends.push([high, middle, low]);
                }
            }
            ends.sort_unstable();
            ends.dedup();
            let groups = ends.len() as u32 + if guest.forwards { 2 } else { 0 };
            let draws_own = draws(&vnic.name);
            speakers.push(Speaker::new(Voice::Nic(place), vnic.mac, groups, !guest.forwards, draws_own));
            if matches!(vnic.on, On::Vswitch(_)) {
                let draws_there = draws(&format!("{} port", vnic.name));
                speakers.push(Speaker::new(Voice::Behind(place), made(1, place), 1, true, draws_there));
            }
        }
        for (place, vswitch) in input.vswitches.iter().enumerate() {
            if given.bridges.contains(&place) {
                let draws_own = draws(&format!("vswitch {place}"));
                speakers.push(Speaker::new(Voice::Bridge(place), made(2, place), 1, true, draws_own));
            }
            for plug in &vswitch.ports {
                if let Way::Port(name) = &plug.way
                    && let Some(port) = port(name)
                {
                    let own = draws(&format!("uplink {name}"));
                    speakers.push(Speaker::new(Voice::Uplink(port), made(3, port.0), 1, true, own));
                }
            }
        }
        Self { speakers }
    }

    /// When each interface has something to say first.
    pub fn first(&self) -> impl Iterator<Item = (usize, u64)> {
        let first = |(place, speaker): (usize, &Speaker)| Some((place, speaker.words.front()?.0));
        self.speakers.iter().enumerate().filter_map(first)
    }

    /// The interfaces of some vNICs fall silent, or come up again: then these speak now.
    pub fn silence(&mut self, nics: &[usize], down: bool, now_ns: u64) -> Vec<usize> {
        let mut up = Vec::new();
        for (place, speaker) in self.speakers.iter_mut().enumerate() {
            if !matches!(speaker.voice, Voice::Nic(nic) if nics.contains(&nic)) {
                continue;
            }
            speaker.words.clear();
            if !down {
                speaker.come_up(now_ns);
                up.push(place);
            }
        }
        up
    }

    /// What an interface has to say now: where, the frame, and when it speaks next. Nothing when it has fallen silent
    /// since that was planned.
    pub fn speak(&mut self, place: usize, now_ns: u64) -> Option<(Voice, Outgoing, Option<u64>)> {
        let speaker = &mut self.speakers[place];
        speaker.words.front().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        let (_, word) = speaker.words.pop_front()?;
        if word == Word::Ask {
            let at_ns = now_ns + speaker.next_interval_ns() as u64;
            speaker.words.push_back((at_ns, Word::Ask));
            speaker.words.make_contiguous().sort_unstable_by_key(|(at_ns, _)| *at_ns);
        }
        let next_ns = speaker.words.front().map(|(at_ns, _)| *at_ns);
        let Mac([.., high, middle, low]) = speaker.mac;
        let destination = match word {
            Word::Report => REPORTS_TO,
            Word::Probe => Mac([0x33, 0x33, 0xff, high, middle, low]),
            Word::Ask => ROUTERS,
        };
        let (source, bytes) = (speaker.mac, speaker.bytes(word));
        let message = Message {
            role: NOISE,
            origin: 0,
            reply: false,
            flow: place as u32,
            seq: 0,
            sent_ns: now_ns,
            payload_bytes: bytes,
        };
        let flow = flow_hash(&[&destination.0[..], &source.0, &[0x86, 0xdd]].concat());
        let cargo = Cargo { message, ip: None };
        let out =
            Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false, amid: false };
        Some((speaker.voice, out, next_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(asks: bool) -> Speaker {
        Speaker::new(Voice::Nic(0), Mac([2, 0, 0, 0, 0, 1]), 1, asks, Stream::new(3, "test"))
    }

    #[test]
    fn an_interface_reports_probes_reports_again_and_asks_for_routers() {
        let words = speaker(true).words;
        assert_eq!(words[0], (0, Word::Report));
        let of = |wanted: Word| words.iter().filter(move |(_, word)| *word == wanted).map(|(at, _)| *at);
        let (probe, ask) = (of(Word::Probe).next().unwrap(), of(Word::Ask).next().unwrap());
        assert!(probe < 1_000_000_000 && ask == probe + 1_000_000_000, "{words:?}");
        let reports: Vec<u64> = of(Word::Report).collect();
        assert_eq!(reports.len(), 4);
        assert!(reports[1] < 1_000_000_000 && reports[2] == ask && reports[3] < ask + 1_000_000_000);
        assert!(words.iter().is_sorted_by_key(|(at, _)| *at));
        assert!(
            speaker(false).words.iter().all(|(_, word)| *word != Word::Ask),
            "a router sends no solicitation"
        );
    }

    #[test]
    fn an_interface_that_comes_up_again_says_all_of_it_again() {
        let mut own = speaker(true);
        let said: Vec<Word> = own.words.drain(..).map(|(_, word)| word).collect();
        own.next_interval_ns();
        own.next_interval_ns();
        own.come_up(7_000_000_000);
        let again: Vec<Word> = own.words.iter().map(|(_, word)| *word).collect();
        let count = |words: &[Word], wanted| words.iter().filter(|word| **word == wanted).count();
        for word in [Word::Report, Word::Probe, Word::Ask] {
            assert_eq!(count(&again, word), count(&said, word));
        }
        assert_eq!(own.words[0], (7_000_000_000, Word::Report));
        assert!((3.6e9..=4.4e9).contains(&own.next_interval_ns()), "as if it had never asked");
    }

    #[test]
    fn a_bridge_reports_twice_more() {
        let own = Speaker::new(Voice::Bridge(0), Mac([2, 0, 0, 0, 0, 1]), 1, true, Stream::new(3, "test"));
        assert_eq!(own.words.iter().filter(|(_, word)| *word == Word::Report).count(), 6);
    }

    #[test]
    fn frames_are_as_long_as_linux_sends_them() {
        let own = speaker(true);
        assert_eq!([Word::Report, Word::Probe, Word::Ask].map(|word| own.bytes(word)), [90, 86, 70]);
    }

    #[test]
    fn who_hears_of_no_router_asks_half_as_often_each_time_and_at_last_every_hour() {
        let mut own = speaker(true);
        let intervals: Vec<f64> = (0..20).map(|_| own.next_interval_ns()).collect();
        assert!((3.6e9..=4.4e9).contains(&intervals[0]));
        for pair in intervals.windows(2).take(8) {
            assert!((1.9..=2.1).contains(&(pair[1] / pair[0])), "{pair:?}");
        }
        assert!(intervals[12..].iter().all(|each| (3240e9..=3960e9).contains(each)));
    }
}
