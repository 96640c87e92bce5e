//! What the machine under a leader is: kernel, processors, and what it reads time from. What it does not tell is
//! absent.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;

const CPUS: &str = "/sys/devices/system/cpu";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// All of it, for the client that greets the leader.
pub fn facts() -> Value {
    let mut told = Map::new();
    let mut tell = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            told.insert(key.to_owned(), json!(value));
        }
    };
    tell("kernel", read("/proc/sys/kernel/osrelease"));
    tell("kernel_build", read("/proc/sys/kernel/version"));
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    tell("cpu", model(&processors));
    tell("clocksource", read(CLOCK));
    let governors: BTreeSet<String> = fs::read_dir(CPUS)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read(&format!("{}/cpufreq/scaling_governor", entry.path().display())))
        .collect();
    tell("cpufreq_governor", Some(governors.into_iter().collect::<Vec<_>>().join(", ")));
    told.insert("cpus".to_owned(), json!(online(&fs::read_to_string("/proc/stat").unwrap_or_default())));
    Value::Object(told)
}

/// The first processor's model: `model name` on most architectures, else the parts of an ARM processor's number.
fn model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("implementer {implementer}, part {part}"))
    })
}

/// Processors that are in use: a line `cpuN` each in /proc/stat.
fn online(stat: &str) -> usize {
    stat.lines().take_while(|line| line.starts_with("cpu")).count().saturating_sub(1)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_as_its_architecture_does() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n").as_deref(), Some("A CPU @ 2 GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(arm).as_deref(), Some("implementer 0x41, part 0xd0c"));
        assert_eq!(model(""), None);
    }

    #[test]
    fn processors_are_counted_without_their_sum() {
        assert_eq!(online("cpu  1 2\ncpu0 1 2\ncpu1 0 0\nintr 9\ncpu9 x\n"), 2);
        assert_eq!(online(""), 0);
    }

    #[test]
    fn this_machine_tells_its_kernel_and_how_many_processors_it_has() {
        let told = facts();
        assert!(
            told["kernel"].as_str().is_some_and(|kernel| kernel.starts_with(|c: char| c.is_ascii_digit()))
        );
        assert!(told["cpus"].as_u64().is_some_and(|cpus| cpus >= 1));
    }
}
