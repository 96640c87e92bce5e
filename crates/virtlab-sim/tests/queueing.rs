//! Mean waits at one FIFO line against Pollaczek and Khinchine: W = lambda E[S^2] / (2 (1 - rho)), exponential
//! arrivals.
//!
//! Service is what a frame occupies the line for. Means of long batches of one run are nearly independent; their spread
//! gives the interval, four standard errors wide, so a right simulator fails once in ten thousand seeds, and seeds are
//! fixed.

use virtlab_fabric::{Fabric, Frame, Layout, Mac};
use virtlab_load::random::Stream;
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{GAP_BYTES, serialisation, wire_bytes};

const RATE_BIT_PER_S: u64 = 100_000_000;
const BATCHES: usize = 40;
const BATCH: usize = 10_000;

/// Plays frames at utilisation `rho`: the mean wait of each batch in ns, and the formula's with the moments drawn.
fn played(rho: f64, seed: u64, mut size: impl FnMut(&mut Stream) -> u32) -> (Vec<f64>, f64) {
    let layout: Layout = serde_json::from_value(serde_json::json!({
        "ports": ["a", "b"],
        "links": {"l": {"ends": ["a", "b"], "rate_bit_per_s": RATE_BIT_PER_S,
            "queue": {"ab": {"limit_packets": 1_000_000}, "ba": {}}}},
    }))
    .unwrap();
    let mut fabric: Fabric<u64> = Fabric::new(&layout).unwrap();
    fabric.foretell();
    let mut foretold = Vec::new();
    let port = fabric.port("a").unwrap();
    let (mut gaps, mut sizes) = (Stream::new(seed, "gaps"), Stream::new(seed, "sizes"));
    let count = BATCHES * BATCH;
    let bytes: Vec<u32> = (0..count).map(|_| size(&mut sizes)).collect();
    let service = |bytes: u32| serialisation(wire_bytes(bytes), RATE_BIT_PER_S).0 as f64;
    let moment = |power: i32| bytes.iter().map(|each| service(*each).powi(power)).sum::<f64>() / count as f64;
    let (first, second) = (moment(1), moment(2));
    let lambda = rho / first;
    let (mut at, mut batches) = (0.0, vec![0.0; BATCHES]);
    for (n, &each) in bytes.iter().enumerate() {
        at += gaps.exponential(1.0 / lambda);
        let now = Nanos(at as u64);
        fabric.advance(now, &mut Vec::new());
        let frame = Frame {
            bytes: each,
            source: Mac([2; 6]),
            destination: Mac([4; 6]),
            flow: 0,
            ecn: Ecn::NotCapable,
            headers: None,
            payload: n as u64,
        };
        fabric.arrive(port, frame, now);
        fabric.foretold(&mut foretold);
        let left = foretold.pop().expect("known as it joins");
        fabric.forget(&left);
        let sent = serialisation(wire_bytes(each) - GAP_BYTES, RATE_BIT_PER_S);
        batches[n / BATCH] += (left.at.0 - now.0 - sent.0) as f64 / BATCH as f64;
    }
    (batches, lambda * second / (2.0 * (1.0 - rho)))
}

fn check(name: &str, rho: f64, size: impl FnMut(&mut Stream) -> u32) {
    let (batches, expected) = played(rho, 7, size);
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{name} at {rho}: {mean} ns, not {expected}, +- {error}");
    assert!(error < 0.05 * expected, "{name} at {rho}: {error} ns of {expected} says too little");
}

#[test]
fn fixed_sizes_wait_as_in_m_d_1() {
    for rho in [0.3, 0.5, 0.8] {
        check("M/D/1", rho, |_| 1514);
    }
}

#[test]
fn exponential_sizes_wait_as_in_m_m_1() {
    // So long that neither the shortest frame nor whole bytes matter beside the mean.
    for rho in [0.3, 0.5, 0.8] {
        check("M/M/1", rho, |stream| stream.exponential(100_000.0) as u32 + 14);
    }
}

#[test]
fn sizes_of_two_kinds_wait_as_in_m_g_1() {
    for rho in [0.3, 0.5, 0.8] {
        check("M/G/1", rho, |stream| if stream.uniform() < 0.6 { 60 } else { 1514 });
    }
}
