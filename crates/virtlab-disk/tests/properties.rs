//! What holds for every disk and all requests.

use proptest::prelude::*;
use virtlab_disk::{Disk, Kind, Model, Request};
use virtlab_wire::Nanos;

const SIZE: u64 = 1 << 20;

fn models() -> impl Strategy<Value = Model> {
    (prop::option::of(1u64..10_000_000_000), 0u64..50_000_000, 0u64..SIZE).prop_map(
        |(rate, latency, cache)| Model {
            size_bytes: SIZE,
            rate_byte_per_s: rate,
            latency_ns: latency,
            write_cache_bytes: cache,
        },
    )
}

fn requests() -> impl Strategy<Value = Vec<(u64, Request)>> {
    let request = (0u8..3, 0u64..2048, 1u64..256).prop_map(|(kind, sector, sectors)| match kind {
        0 => Request { kind: Kind::Read, offset: sector * 512, bytes: sectors * 512 },
        1 => Request { kind: Kind::Write, offset: sector * 512, bytes: sectors * 512 },
        _ => Request::flush(),
    });
    prop::collection::vec((0u64..5_000_000, request), 0..200)
}

proptest! {
    #[test]
    fn every_request_that_is_taken_completes_once_not_before_it_came_and_in_order(
        model in models(), requests in requests(), step in 1u64..20_000_000,
    ) {
        let mut disk = Disk::new(model);
        let (mut now, mut taken, mut given, mut last) = (Nanos::ZERO, 0u64, Vec::new(), Nanos::ZERO);
        let mut drained = Nanos::ZERO;
        for (number, (gap, request)) in requests.into_iter().enumerate() {
            now += Nanos(gap);
            while drained + Nanos(step) <= now {
                drained += Nanos(step);
                given.extend(std::iter::from_fn(|| disk.complete(drained)));
            }
            if let Ok(at) = disk.submit(now, number as u64, request) {
                prop_assert!(at >= now);
                taken += 1;
                prop_assert!(disk.next_event().unwrap() <= at);
            } else {
                prop_assert!(request.offset + request.bytes > SIZE);
            }
        }
        while let Some(at) = disk.next_event() {
            prop_assert!(at >= last);
            last = at;
            if at > Nanos::ZERO {
                prop_assert_eq!(disk.complete(Nanos(at.0 - 1)), None, "not before it is complete");
            }
            given.extend(disk.complete(at));
        }
        prop_assert_eq!(given.len() as u64, taken);
        let mut ids: Vec<u64> = given.iter().map(|one| one.id).collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len() as u64, taken, "each once");
        let usage = disk.usage(last.max(now));
        let each = [usage.reads, usage.writes, usage.flushes];
        prop_assert_eq!(each.iter().map(|one| one.operations).sum::<u64>(), taken);
        let bytes = given.iter().map(|one| one.request.bytes).sum::<u64>();
        prop_assert_eq!(each.iter().map(|one| one.bytes).sum::<u64>(), bytes);
        for one in each {
            prop_assert!(one.busy <= usage.busy && one.busy <= one.time);
        }
        prop_assert!(usage.busy <= Nanos(each.iter().map(|one| one.busy.0).sum()));
    }

    #[test]
    fn the_medium_never_takes_more_than_its_rate(model in models(), requests in requests()) {
        let Some(rate) = model.rate_byte_per_s else { return Ok(()) };
        let mut disk = Disk::new(model);
        let (mut now, mut bytes, mut flushed) = (Nanos::ZERO, 0, Nanos::ZERO);
        for (number, (gap, request)) in requests.into_iter().enumerate() {
            now += Nanos(gap);
            if disk.submit(now, number as u64, request).is_ok() {
                bytes += request.bytes;
            }
            flushed = flushed.max(disk.submit(now, number as u64, Request::flush()).unwrap());
        }
        let mut last = flushed;
        while let Some(at) = disk.next_event() {
            last = last.max(at);
            disk.complete(at);
        }
        // All is on the medium by then.
        prop_assert!(u128::from(last.0) * u128::from(rate) >= u128::from(bytes) * 1_000_000_000);
    }

    #[test]
    fn a_larger_cache_makes_no_write_later(model in models(), requests in requests()) {
        let mut small = Disk::new(Model { write_cache_bytes: 0, ..model });
        let mut large = Disk::new(model);
        let mut now = Nanos::ZERO;
        for (number, (gap, request)) in requests.into_iter().enumerate() {
            now += Nanos(gap);
            let both = [&mut small, &mut large].map(|disk| disk.submit(now, number as u64, request));
            if let [Ok(without), Ok(with)] = both && request.kind == Kind::Write {
                prop_assert!(with <= without);
            }
        }
    }
}
