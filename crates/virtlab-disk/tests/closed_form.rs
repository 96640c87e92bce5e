//! What a disk takes, where that can be computed by hand or has a closed form.

use virtlab_disk::{Completion, Disk, Kind, Model, Refused, Request, whole_sectors};
use virtlab_wire::Nanos;

const MS: u64 = 1_000_000;
/// 2 MB/s, so that 4096 B hold the medium for 2.048 ms.
const RATE: u64 = 2_000_000;
const HOLDS: u64 = 2_048_000;

fn disk(rate: Option<u64>, latency_ns: u64, write_cache_bytes: u64) -> Disk {
    let model = Model { size_bytes: 1 << 20, rate_byte_per_s: rate, latency_ns, write_cache_bytes };
    Disk::new(model)
}

fn write(bytes: u64) -> Request {
    Request { kind: Kind::Write, offset: 0, bytes }
}

fn read(bytes: u64) -> Request {
    Request { kind: Kind::Read, offset: 0, bytes }
}

fn all(disk: &mut Disk) -> Vec<Completion> {
    std::iter::from_fn(|| disk.complete(Nanos::MAX)).collect()
}

#[test]
fn a_request_holds_the_medium_for_its_bytes_and_is_done_a_latency_later() {
    let mut disk = disk(Some(RATE), 3 * MS, 0);
    assert_eq!(disk.submit(Nanos(0), 1, write(4096)), Ok(Nanos(HOLDS + 3 * MS)));
    assert_eq!(disk.submit(Nanos(0), 2, read(4096)), Ok(Nanos(2 * HOLDS + 3 * MS)));
    let usage = {
        all(&mut disk);
        disk.usage(Nanos(20 * MS))
    };
    assert_eq!(
        (usage.writes.operations, usage.writes.bytes, usage.writes.time),
        (1, 4096, Nanos(HOLDS + 3 * MS))
    );
    assert_eq!(usage.reads.time, Nanos(2 * HOLDS + 3 * MS));
    assert_eq!(usage.busy, Nanos(2 * HOLDS + 3 * MS));
}

#[test]
fn latency_is_a_pipeline_so_it_costs_no_throughput() {
    let mut disk = disk(Some(RATE), 50 * MS, 0);
    for id in 0..100 {
        disk.submit(Nanos(0), id, write(4096)).unwrap();
    }
    let last = all(&mut disk).pop().unwrap();
    assert_eq!(last.at, Nanos(100 * HOLDS + 50 * MS), "one latency, not a hundred");
}

#[test]
fn a_cache_absorbs_until_it_is_full_then_writes_run_at_the_rate() {
    let mut disk = disk(Some(RATE), 5 * MS, 4 * 4096);
    let times: Vec<u64> = (0..8).map(|id| disk.submit(Nanos(0), id, write(4096)).unwrap().0).collect();
    assert_eq!(times, [0, 0, 0, 0, HOLDS, 2 * HOLDS, 3 * HOLDS, 4 * HOLDS]);
    assert_eq!(
        disk.submit(Nanos(0), 9, Request::flush()),
        Ok(Nanos(8 * HOLDS + 5 * MS)),
        "all eight are kept"
    );
    // The medium has what was cached to take first.
    assert_eq!(disk.submit(Nanos(0), 10, read(4096)), Ok(Nanos(9 * HOLDS + 5 * MS)));
}

#[test]
fn a_cache_that_had_time_to_drain_absorbs_again() {
    let mut disk = disk(Some(RATE), 0, 4096);
    assert_eq!(disk.submit(Nanos(0), 1, write(4096)), Ok(Nanos(0)));
    assert_eq!(disk.submit(Nanos(HOLDS), 2, write(4096)), Ok(Nanos(HOLDS)));
    assert_eq!(disk.submit(Nanos(HOLDS + 1), 3, write(4096)), Ok(Nanos(2 * HOLDS)));
}

#[test]
fn a_write_of_more_than_the_cache_goes_through() {
    let mut disk = disk(Some(RATE), MS, 4096);
    assert_eq!(disk.submit(Nanos(0), 1, write(8192)), Ok(Nanos(2 * HOLDS + MS)));
    assert_eq!(disk.submit(Nanos(0), 2, Request::flush()), Ok(Nanos(0)), "nothing was cached");
}

#[test]
fn a_flush_waits_for_the_cache_alone() {
    let mut disk = disk(Some(RATE), MS, 1 << 20);
    disk.submit(Nanos(0), 1, write(4096)).unwrap();
    disk.submit(Nanos(0), 2, read(4096)).unwrap();
    assert_eq!(disk.submit(Nanos(7), 3, Request::flush()), Ok(Nanos(HOLDS + MS)));
    assert_eq!(disk.submit(Nanos(HOLDS + MS + 1), 4, Request::flush()), Ok(Nanos(HOLDS + MS + 1)));
}

#[test]
fn without_a_rate_only_the_latency_is_left() {
    let mut disk = disk(None, 2 * MS, 0);
    for id in 0..10 {
        assert_eq!(disk.submit(Nanos(id), id, write(1 << 20)), Ok(Nanos(id + 2 * MS)));
    }
}

#[test]
fn what_is_no_part_of_the_disk_is_refused_and_changes_nothing() {
    let mut disk = disk(Some(RATE), 0, 0);
    let at = |offset, bytes| Request { kind: Kind::Read, offset, bytes };
    assert_eq!(disk.submit(Nanos(0), 1, at((1 << 20) - 512, 1024)), Err(Refused::Beyond));
    assert_eq!(disk.submit(Nanos(0), 1, at(u64::MAX - 511, 512)), Err(Refused::Beyond));
    assert_eq!(disk.submit(Nanos(0), 1, at(0, 0)), Err(Refused::Sectors));
    assert_eq!(disk.submit(Nanos(0), 1, at(100, 512)), Err(Refused::Sectors));
    assert_eq!(disk.submit(Nanos(0), 1, at(512, 100)), Err(Refused::Sectors));
    assert_eq!((disk.next_event(), disk.depth()), (None, 0));
    assert_eq!(disk.submit(Nanos(0), 1, at(0, 4096)), Ok(Nanos(HOLDS)));
    assert_eq!([0, 1, 512, 513].map(whole_sectors), [0, 512, 512, 1024]);
}

/// Gaps of a Poisson process, by the inverse of its distribution, from a full-period generator (Knuth's MMIX).
fn exponential(state: &mut u64, mean: f64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let uniform = ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln() * mean
}

/// Pollaczek-Khinchine for constant service S at utilisation rho: the mean wait is rho S / (2 (1 - rho)).
#[test]
fn poisson_writes_of_one_size_wait_as_in_an_m_d_1_queue() {
    for utilisation in [0.3, 0.6, 0.8] {
        let mut disk = disk(Some(RATE), 2 * MS, 0);
        let (mut state, mut now, mut waited) = (1, 0.0, 0.0);
        let count = 400_000;
        for id in 0..count {
            now += exponential(&mut state, HOLDS as f64 / utilisation);
            let came = Nanos(now as u64);
            let at = disk.submit(came, id, write(4096)).unwrap();
            waited += (at.0 - came.0 - HOLDS - 2 * MS) as f64;
            while disk.complete(came).is_some() {}
        }
        let closed = utilisation * HOLDS as f64 / (2.0 * (1.0 - utilisation));
        let ratio = waited / count as f64 / closed;
        assert!((ratio - 1.0).abs() < 0.03, "at {utilisation}: {ratio}");
        all(&mut disk);
        let busy = disk.usage(Nanos::MAX).writes;
        assert_eq!(busy.bytes, count * 4096);
    }
}
