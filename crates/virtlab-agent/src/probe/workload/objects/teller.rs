//! What a node tells on its output of copies that were lost: the testbed adds up what all nodes tell, as the simulator
//! looks at all of them.
//!
//! A line is `copies: ` with the node's clock in ns; the copies that it had to make since it began, those that it has
//! made, and their bytes; whether it knows what it lacks itself, whether it still gets that back, and whether it still
//! makes copies for others (1 or 0); and the places of the nodes that it suspects, between commas, or `-`.

use std::io::Write;
use virtlab_store::{Node, Progress};
use virtlab_system::clock;

const PREFIX: &str = "copies: ";
/// It tells so many steps of a recovery at most, or each copy.
const STEPS: u64 = 100;

/// What was told last.
#[derive(Default)]
pub struct Teller {
    back: bool,
    progress: Progress,
    /// All that follows the numbers of copies.
    state: String,
}

impl Teller {
    /// Of a node that begins, or comes `back`.
    pub fn new(back: bool) -> Self {
        Self { back, ..Self::default() }
    }

    /// Whether the node was lost before.
    pub const fn is_back(&self) -> bool {
        self.back
    }

    /// Tells what is new of a node, if it is worth a line.
    pub fn look(&mut self, node: &Node) {
        if let Some(line) = self.news(node.progress(), state(node)) {
            // Who waits for it may be gone.
            let _ = writeln!(std::io::stdout(), "{PREFIX}{} {line}", clock::monotonic().0);
        }
    }

    fn news(&mut self, progress: Progress, state: String) -> Option<String> {
        let made = progress.made - self.progress.made.min(progress.made);
        let is_step = made > 0
            && (self.progress.made == 0
                || progress.made == progress.missing
                || made >= (progress.missing / STEPS).max(1));
        if state == self.state && progress.missing == self.progress.missing && !is_step {
            return None;
        }
        (self.progress, self.state) = (progress, state);
        let Progress { missing, made, bytes } = progress;
        Some(format!("{missing} {made} {bytes} {}", self.state))
    }
}

fn state(node: &Node) -> String {
    let suspected: Vec<String> = node.suspected().map(|peer| peer.0.to_string()).collect();
    let [knows, recovers, spreads] = [node.knows(), node.is_recovering(), node.is_spreading()].map(u8::from);
    let suspected = if suspected.is_empty() { "-".to_owned() } else { suspected.join(",") };
    format!("{knows} {recovers} {spreads} {suspected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_in_a_hundred_steps_its_first_copy_and_its_last() {
        let mut teller = Teller::new(true);
        let at = |made| Progress { missing: 1000, made, bytes: 10 * made };
        let mut told = Vec::new();
        for made in 0..=1000 {
            told.extend(teller.news(at(made), "1 1 0 -".to_owned()).map(|_| made));
        }
        assert_eq!(told[..3], [0, 1, 11], "what is missing, the first copy, and each hundredth");
        assert_eq!((told.len(), told.last()), (102, Some(&1000)));
        assert_eq!(teller.news(at(1000), "1 1 0 -".to_owned()), None, "nothing is new");
        assert_eq!(teller.news(at(1000), "1 0 0 2".to_owned()).as_deref(), Some("1000 1000 10000 1 0 0 2"));
    }
}
