//! Flows from end to end: closed forms, published laws, and what must hold whatever the network does.

use crate::testing::{Pipe, Trial};
use crate::{Algorithm, Buffer, Connection, Kind, Options, Segment};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

fn reno() -> Options {
    Options { algorithm: Algorithm::NewReno, ..Options::default() }
}

fn goodput_bit_per_s(options: Options, pipe: Pipe, seconds: u64) -> (f64, Trial) {
    let mut trial = Trial::new([options; 2], pipe);
    trial.run(u64::MAX / 4, S);
    let before = trial.ends[1].received_bytes();
    trial.run(u64::MAX / 4, (seconds + 1) * S);
    ((trial.ends[1].received_bytes() - before) as f64 * 8.0 / seconds as f64, trial)
}

#[test]
fn a_flow_fills_a_link_with_1448_bytes_of_payload_in_1538_of_wire() {
    for options in [reno(), Options::default(), Options { sack: false, ..reno() }] {
        let (rate, trial) = goodput_bit_per_s(options, Pipe::default(), 20);
        let most = 1e8 * 1448.0 / 1538.0;
        assert!(rate <= most * 1.0001 && rate > most * 0.99, "{rate} {:?}", options.algorithm);
        assert!(trial.drops > 0, "its window must have met the queue's end");
    }
}

#[test]
fn slow_start_doubles_every_round_trip() {
    // 100 ms there and back at 10 Gbit/s: 10, 20, 40 ... packets per round.
    let pipe =
        Pipe { rate_bit_per_s: 10_000_000_000, delay_ns: 50 * MS, limit_packets: 100_000, ..Pipe::default() };
    let options = Options { delayed_ack: false, receive_buffer: Buffer::Fixed(1 << 30), ..reno() };
    for rounds in 1..6u32 {
        let packets = 10 * ((1u64 << rounds) - 1);
        let mut trial = Trial::new([options; 2], pipe);
        assert!(trial.run(packets * 1448, 2 * S));
        let whole = trial.now_ns as f64 / (100.0 * MS as f64);
        assert!(
            (whole - (f64::from(rounds) + 0.5)).abs() < 0.05,
            "{packets} packets took {whole} round trips"
        );
    }
}

#[test]
fn newrenos_sawtooth_swings_between_half_the_window_and_the_whole() {
    // 20 ms, 50 Mbit/s: 81 packets of bandwidth-delay product, as many of queue.
    let pipe = Pipe { rate_bit_per_s: 50_000_000, delay_ns: 10 * MS, limit_packets: 81, ..Pipe::default() };
    let (rate, trial) = goodput_bit_per_s(reno(), pipe, 60);
    assert!(rate > 0.97 * 5e7 * 1448.0 / 1538.0, "{rate}");
    let late: Vec<(u64, u32)> = trial.windows.iter().copied().filter(|(at, _)| *at > 20 * S).collect();
    let (mut area, mut time) = (0.0, 0.0);
    for pair in late.windows(2) {
        area += f64::from(pair[0].1) * (pair[1].0 - pair[0].0) as f64;
        time += (pair[1].0 - pair[0].0) as f64;
    }
    let top = f64::from(late.iter().map(|(_, window)| *window).max().unwrap());
    assert!((150.0..175.0).contains(&top), "{top}");
    assert!((area / time / top - 0.75).abs() < 0.04, "mean {} of {top}", area / time);
}

#[test]
fn random_loss_gives_the_rate_of_mathis() {
    // rate = MSS/RTT * sqrt(3/2) / sqrt(p), acknowledging every packet.
    for loss in [0.001, 0.004] {
        let pipe = Pipe {
            rate_bit_per_s: 10_000_000_000,
            delay_ns: 20 * MS,
            limit_packets: 100_000,
            loss,
            ..Pipe::default()
        };
        let options = Options { delayed_ack: false, ..reno() };
        let (rate, _) = goodput_bit_per_s(options, pipe, 300);
        let due = 1448.0 * 8.0 / 0.04 * (1.5 / loss).sqrt();
        assert!((0.75..1.15).contains(&(rate / due)), "loss {loss}: {rate} of {due}");
    }
}

#[test]
fn a_full_queue_adds_its_length_to_the_round_trip() {
    let (_, trial) = goodput_bit_per_s(reno(), Pipe { limit_packets: 100, ..Pipe::default() }, 20);
    let srtt_ms = trial.ends[0].smoothed_ns().unwrap() as f64 / 1e6;
    // 100 packets of 123 us are 12.3 ms; the sawtooth lies between half of it and all.
    assert!((5.5..13.0).contains(&srtt_ms), "{srtt_ms}");
}

#[test]
fn one_lost_segment_is_mended_in_a_round_trip_without_a_time_out() {
    for (options, lost) in
        [(reno(), vec![40]), (Options { sack: false, ..reno() }, vec![40]), (reno(), vec![40, 42, 44, 46])]
    {
        let mut trial = Trial::new([options; 2], Pipe { delay_ns: 10 * MS, ..Pipe::default() });
        trial.lose = lost.clone();
        assert!(trial.run(200 * 1448, 10 * S));
        assert_eq!(trial.ends[0].retransmits(), lost.len() as u64);
        assert!(trial.now_ns < 200 * MS, "{}", trial.now_ns);
    }
}

#[test]
fn a_lost_tail_is_probed_before_the_time_out() {
    let mut trial = Trial::new([reno(); 2], Pipe { delay_ns: 10 * MS, ..Pipe::default() });
    trial.lose = vec![9, 10];
    assert!(trial.run(10 * 1448, 10 * S));
    // Handshake and first flight 40 ms, a probe after two round trips, whose answer tells of the other one.
    assert!(trial.now_ns < 130 * MS, "{}", trial.now_ns);
    assert_eq!(trial.ends[0].retransmits(), 2);
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut trial = Trial::new([reno(); 2], Pipe { loss: 1.0, ..Pipe::default() });
    assert!(!trial.run(1000, 10 * S));
    assert_eq!(trial.drops, 4, "at 0, 1, 3 and 7 s");
}

#[test]
fn a_fixed_window_allows_a_window_per_round_trip() {
    let options = Options { receive_buffer: Buffer::Fixed(32 << 10), ..reno() };
    let (rate, trial) = goodput_bit_per_s(options, Pipe { delay_ns: 10 * MS, ..Pipe::default() }, 10);
    let due = f64::from(32 << 10) * 8.0 / 0.0203;
    assert!((0.85..1.01).contains(&(rate / due)), "{rate} of {due}");
    assert_eq!(trial.drops, 0);
}

#[test]
fn marks_hold_the_queue_short_without_a_loss() {
    let options = Options { ecn: true, ..reno() };
    let pipe = Pipe { delay_ns: 2 * MS, limit_packets: 1000, mark_above: 40, ..Pipe::default() };
    let (rate, trial) = goodput_bit_per_s(options, pipe, 10);
    assert!(trial.marks > 0);
    assert_eq!((trial.drops, trial.ends[0].retransmits()), (0, 0));
    assert!(rate > 0.95 * 1e8 * 1448.0 / 1538.0, "{rate}");
    assert!(trial.ends[0].smoothed_ns().unwrap() < 12 * MS);
}

#[test]
fn nothing_is_sent_faster_than_the_pace() {
    let options = Options { pacing: true, ..reno() };
    let (rate, _) = goodput_bit_per_s(options, Pipe { delay_ns: 5 * MS, ..Pipe::default() }, 5);
    assert!(rate > 0.9 * 1e8 * 1448.0 / 1538.0, "{rate}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn whatever_the_network_does_every_byte_comes_once_and_in_order(
        loss in 0.0f64..0.2, duplication in 0.0f64..0.2, reordering in 0.0f64..0.5, seed: u64,
        cubic: bool, sack: bool, timestamps: bool, ecn: bool, packets in 1u64..300, odd in 0u64..1448,
        limit_packets in 3usize..60,
    ) {
        let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::NewReno };
        let options = Options { algorithm, sack, timestamps, ecn, ..Options::default() };
        let pipe = Pipe { loss, duplication, reordering, seed, limit_packets, mark_above: 5, ..Pipe::default() };
        let bytes = packets * 1448 + odd;
        let play = || {
            let mut trial = Trial::new([options; 2], pipe);
            let over = trial.run(bytes, 40_000 * S);
            (over, trial.now_ns, trial.events, trial.ends[1].received_bytes(), trial.ends[0].retransmits())
        };
        let first = play();
        // Ten lost SYNs in a row end a connection attempt; nothing else may.
        prop_assert!(first.0, "{:?}", first);
        prop_assert_eq!(first.3, bytes);
        prop_assert_eq!(first, play(), "equal input, equal output");
    }
}

#[test]
fn segments_too_long_for_a_path_that_has_become_known_go_again_in_shorter_ones_and_the_window_stays() {
    let mut trial = Trial::new([Options::default(); 2], Pipe::default());
    trial.run(u64::MAX / 4, S / 2);
    let before = trial.ends[0].window_packets();
    let received = trial.ends[1].received_bytes();
    assert!(trial.ends[0].fit(948) && !trial.ends[0].fit(948));
    trial.ends[1].expect(948);
    trial.longest_bytes = 0;
    assert_eq!(trial.ends[0].window_packets(), before);
    trial.run(u64::MAX / 4, S / 2 + 100 * MS);
    let rate = (trial.ends[1].received_bytes() - received) as f64 * 8.0 / 0.1;
    let most = 1e8 * 948.0 / 1038.0;
    assert!(rate > 0.85 * most && rate <= 1.01 * most, "{rate} of {most}");
    assert_eq!(trial.longest_bytes, 948);
}

proptest! {
    #[test]
    fn a_flow_whose_segments_change_length_again_and_again_delivers_every_byte_once(
        lengths in prop::collection::vec(200u32..1448, 1..6),
        loss in 0.0..0.02,
        seed: u64,
    ) {
        let pipe = Pipe { loss, seed: seed >> 1, ..Pipe::default() };
        let mut trial = Trial::new([Options::default(); 2], pipe);
        let total = 2_000_000;
        for (number, bytes) in lengths.iter().enumerate() {
            trial.run(total, (number as u64 + 1) * 20 * MS);
            trial.ends[0].fit(*bytes);
        }
        prop_assert!(trial.run(total, 120 * S), "{} of {total} B", trial.ends[1].received_bytes());
        prop_assert_eq!(trial.ends[1].received_bytes(), total);
    }
}

/// A client and a server of no distance, after all that either has to send by now; the kinds of the last segments.
fn settled(ends: &mut [Connection; 2], now_ns: u64) -> Vec<Kind> {
    let mut kinds = Vec::new();
    loop {
        let before = kinds.len();
        for side in [0, 1] {
            while let Some(segment) = ends[side].transmit(true, now_ns) {
                kinds.push(segment.kind);
                ends[1 - side].take(&segment, false, now_ns);
            }
        }
        if kinds.len() == before {
            return kinds;
        }
    }
}

fn connected() -> [Connection; 2] {
    let mut ends = [Connection::closed(reno()), Connection::listening(reno())];
    ends[0].connect();
    settled(&mut ends, 0);
    ends
}

#[test]
fn an_end_whose_process_is_gone_sends_what_was_written_and_then_its_end() {
    let mut ends = connected();
    ends[1].write(5000);
    ends[1].close();
    ends[1].close();
    let kinds = settled(&mut ends, MS);
    assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Fin).count(), 1);
    assert_eq!((ends[0].received_bytes(), ends[0].is_over()), (5000, true));
    assert!(ends[1].is_closed() && !ends[1].is_over() && !ends[0].is_closed());
    ends[0].end();
    assert!(ends[0].is_over() && ends[0].next_ns().is_none());
}

#[test]
fn the_end_of_a_stream_does_not_come_before_all_of_it() {
    let mut ends = connected();
    ends[1].write(4000);
    ends[1].close();
    let segments: Vec<Segment> = std::iter::from_fn(|| ends[1].transmit(true, MS)).collect();
    let [first, rest @ ..] = &segments[..] else { panic!("several segments") };
    for segment in rest {
        ends[0].take(segment, false, MS);
    }
    assert_eq!((ends[0].received_bytes(), ends[0].is_over()), (0, false));
    ends[0].take(first, false, MS);
    assert_eq!((ends[0].received_bytes(), ends[0].is_over()), (4000, true));
}

#[test]
fn who_connects_where_no_process_is_gets_a_reset() {
    let mut ends = [Connection::closed(reno()), Connection::listening(reno())];
    ends[1].refuse();
    ends[0].connect();
    assert_eq!(settled(&mut ends, 0), [Kind::Syn, Kind::Reset]);
    assert!(ends[0].is_over() && !ends[0].is_open() && ends[0].next_ns().is_none());
}

#[test]
fn a_handshake_that_was_under_way_is_refused_and_an_open_connection_is_not() {
    let mut ends = [Connection::closed(reno()), Connection::listening(reno())];
    ends[0].connect();
    let syn = ends[0].transmit(true, 0).unwrap();
    ends[1].take(&syn, false, 0);
    ends[1].close();
    assert_eq!(settled(&mut ends, 0), []);
    let again = {
        ends[0].alarm(S);
        ends[0].transmit(true, S).unwrap()
    };
    ends[1].take(&again, false, S);
    assert_eq!(settled(&mut ends, S), [Kind::Reset]);
    assert!(ends[0].is_over());
    let mut ends = connected();
    ends[1].refuse();
    assert!(ends[1].is_open());
}
