//! Plays a world as `virtlab.simulator.lower` writes it, for a profiler, and for a comparison of all that came of it:
//! `cargo run --profile shipped -p virtlab-sim --example world -- FILE [TRIES]`.
//!
//! What came of it is told as one number, without how many events there were: two forms of the simulator that give
//! equal results may have others. `OUTCOME=PATH` has all of it written there, to see where two differ.

use virtlab_sim::{Input, World};

/// Nanoseconds that this thread has had a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |own, byte| (own ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let text = std::fs::read_to_string(given.next().ok_or("which file?")?)?;
    let tries = given.next().map_or(Ok(1), |text| text.parse())?;
    for _ in 0..tries {
        let input: Input = serde_json::from_str(&text)?;
        let mut world = World::new(input).map_err(|found| format!("{found:?}"))?;
        let begun_ns = cpu_ns();
        while !world.play(500_000) {}
        let cpu_s = (cpu_ns() - begun_ns) as f64 / 1e9;
        let mut found = world.outcome();
        let events = std::mem::take(&mut found.events);
        if let Ok(path) = std::env::var("OUTCOME") {
            std::fs::write(path, format!("{found:#?}"))?;
        }
        let digest = format!("{:016x}", digest(&format!("{found:?}")));
        println!("{}", serde_json::json!({"cpu_s": cpu_s, "events": events, "digest": digest}));
    }
    Ok(())
}
