//! The yardstick as a process of its own, so that its peak memory is the core's:
//! `cargo run --release -p virtlab-sim --example star -- HOSTS poisson|constant SECONDS`.

use virtlab_sim::star::{figures, star};

/// Nanoseconds that this thread has had a processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn peak_rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default() * 1024
}

fn main() {
    let mut given = std::env::args().skip(1);
    let hosts = given.next().and_then(|text| text.parse().ok()).unwrap_or(32);
    let poisson = given.next().is_none_or(|text| text == "poisson");
    let seconds: f64 = given.next().and_then(|text| text.parse().ok()).unwrap_or(10.0);
    let mut world = match star(hosts, poisson, (seconds * 1e9) as u64, 1) {
        Ok(world) => world,
        Err(found) => return eprintln!("{found:?}"),
    };
    let begun = cpu_ns();
    world.play(u64::MAX);
    let cpu_s = (cpu_ns() - begun) as f64 / 1e9;
    let found = figures(world);
    let quantile = |ratio| found.delays.quantile(ratio).map_or(0, |at| at.0);
    println!(
        "{}",
        serde_json::json!({
            "packets": found.packets, "undelivered": found.undelivered, "events": found.events, "cpu_s": cpu_s,
            "packets_per_cpu_s": (found.packets as f64 / cpu_s).round(), "peak_rss_bytes": peak_rss_bytes(),
            "delay_ns": {
                "min": found.delay_range_ns.0, "p50": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99),
                "p999": quantile(0.999), "max": found.delay_range_ns.1,
            },
        })
    );
}
