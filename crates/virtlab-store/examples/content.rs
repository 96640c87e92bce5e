//! How fast the agent makes and compares the content of objects that describes itself, in bytes per second of one
//! processor, from and to its caches. It prints the rates of making and of comparing:
//! `cargo run --profile shipped -p virtlab-store --example content -- BYTES ROUNDS`.
#![expect(clippy::disallowed_methods, reason = "the crate asks no clock; what measures it does")]

#[path = "../../virtlab-agent/src/probe/workload/content.rs"]
#[expect(dead_code, reason = "what makes a content anew is the agent's")]
mod content;

use std::hint::black_box;
use std::time::Instant;
use virtlab_store::Key;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let bytes: usize = arguments.next().map_or(Ok(10_000), |one| one.parse())?;
    let rounds: u64 = arguments.next().map_or(Ok(1_000_000), |one| one.parse())?;
    let mut octets = vec![0; bytes];
    let per_s = |begun: Instant| (bytes as u64 * rounds) as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    for round in 0..rounds {
        content::fill(black_box(Key(round)), round, black_box(&mut octets));
    }
    let made = per_s(begun);
    content::fill(Key(1), 1, &mut octets);
    let begun = Instant::now();
    for _ in 0..rounds {
        assert!(content::is_content(black_box(Key(1)), 1, black_box(&octets)));
    }
    println!("{made:.0} {:.0}", per_s(begun));
    Ok(())
}
