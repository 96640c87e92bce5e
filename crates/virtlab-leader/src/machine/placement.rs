//! On which processors the kernel lets the processes of guests run, thread by thread.
//!
//! A process belongs to a guest when the leader started it there, or one that does had started it.

use crate::machine::usage::{each_process, mask};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Threads of a namespace that may run on the same processors, and what one of them is called.
struct Alike<'a> {
    namespace: &'a str,
    cpus: Vec<usize>,
    threads: u64,
    name: String,
}

/// For each namespace and set of processors: how many threads may run there, and what one of them is called.
pub fn placed(children: &[(String, Pid)]) -> Vec<Value> {
    let mut found: Vec<Alike> = Vec::new();
    for (namespace, first) in children {
        each_process(&[*first], &mut |_, threads| {
            for thread in threads {
                let Some(cpus) = mask(Pid::from_raw(thread.number)) else { continue };
                match found.iter_mut().find(|each| each.namespace == namespace && each.cpus == cpus) {
                    Some(alike) => alike.threads += 1,
                    None => {
                        let name = thread.read("comm").trim().to_owned();
                        found.push(Alike { namespace, cpus, threads: 1, name });
                    }
                }
            }
        });
    }
    found.into_iter().map(|each| json!([each.namespace, each.cpus, each.threads, each.name])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_of_this_process_are_placed_where_it_may_run() {
        let own = mask(Pid::this()).unwrap();
        let found = placed(&[("guest:a".to_owned(), Pid::this())]);
        assert!(found.iter().any(|each| each[0] == "guest:a" && each[1] == json!(own)));
    }

    #[test]
    fn a_process_that_is_gone_is_nowhere() {
        assert!(placed(&[("guest:a".to_owned(), Pid::from_raw(i32::MAX))]).is_empty());
    }
}
