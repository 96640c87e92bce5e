//! What a node tells on its output of copies that were lost: the testbed adds up what all nodes tell, as the simulator
//! looks at all of them.
//!
//! A line is `copies: ` with the node's clock in ns; the copies that it had to make since it began, those that it has
//! made, and their bytes; whether it knows what it lacks itself, whether it still gets that back, and whether it still
//! makes copies for others (1 or 0); and the places of the nodes that it suspects, between commas, or `-`.
//!
//! While clients write what a silent node ought to hold, each of their writes is news. The output of a service has an
//! end, so beyond many lines it tells only now and then where it is.

use std::io::Write;
use virtlab_store::{Node, Progress};
use virtlab_system::clock;
use virtlab_wire::Nanos;

const PREFIX: &str = "copies: ";
/// It tells so many steps of a recovery at most, or each copy.
const STEPS: u64 = 100;
/// So many lines go at once, and then one each time that the pause has passed: 16 MiB are enough for some hours.
const AT_ONCE: u32 = 500;
const PAUSE: Nanos = Nanos(100_000_000);

/// What was told last.
#[derive(Default)]
pub struct Teller {
    back: bool,
    progress: Progress,
    /// All that follows the numbers of copies.
    state: String,
    /// Lines that went at once, and when the first of the pauses after them ends.
    lines: u32,
    paused: Nanos,
    /// Whether there is news that waits for the end of a pause.
    waits: bool,
}

impl Teller {
    /// Of a node that begins, or comes `back`.
    pub fn new(back: bool) -> Self {
        Self { back, ..Self::default() }
    }

    /// When it has something to tell that waits.
    pub fn next_event(&self) -> Option<Nanos> {
        self.waits.then_some(self.paused)
    }

    /// Whether the node was lost before.
    pub const fn is_back(&self) -> bool {
        self.back
    }

    /// Tells what is new of a node, if it is worth a line.
    pub fn look(&mut self, now: Nanos, node: &Node) {
        if let Some(line) = self.news(now, node.progress(), state(node)) {
            // Who waits for it may be gone.
            let _ = writeln!(std::io::stdout(), "{PREFIX}{} {line}", clock::monotonic().0);
        }
    }

    fn news(&mut self, now: Nanos, progress: Progress, state: String) -> Option<String> {
        self.waits = false;
        let made = progress.made - self.progress.made.min(progress.made);
        let is_step = made > 0
            && (self.progress.made == 0
                || progress.made == progress.missing
                || made >= (progress.missing / STEPS).max(1));
        if state == self.state && progress.missing == self.progress.missing && !is_step {
            return None;
        }
        if self.lines >= AT_ONCE {
            if now < self.paused {
                self.waits = true;
                return None;
            }
            self.paused = now + PAUSE;
        }
        self.lines = (self.lines + 1).min(AT_ONCE);
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
            told.extend(teller.news(Nanos(0), at(made), "1 1 0 -".to_owned()).map(|_| made));
        }
        assert_eq!(told[..3], [0, 1, 11], "what is missing, the first copy, and each hundredth");
        assert_eq!((told.len(), told.last()), (102, Some(&1000)));
        assert_eq!(teller.news(Nanos(0), at(1000), "1 1 0 -".to_owned()), None, "nothing is new");
        let last = teller.news(Nanos(0), at(1000), "1 0 0 2".to_owned());
        assert_eq!(last.as_deref(), Some("1000 1000 10000 1 0 0 2"));
    }

    #[test]
    fn beyond_many_lines_it_tells_now_and_then_and_at_last_where_it_is() {
        let mut teller = Teller::new(false);
        let (mut now, mut told, mut last) = (Nanos(0), 0, None);
        let state = |made| format!("1 0 {} 2", made % 2);
        for made in 0..10_000 {
            // A write each millisecond.
            now = Nanos(made * 1_000_000);
            let progress = Progress { missing: made, made, bytes: made };
            if let Some(line) = teller.news(now, progress, state(made)) {
                (told, last) = (told + 1, Some(line));
            }
        }
        assert!((590..610).contains(&told), "500 at once, then ten a second: {told}");
        let due = teller.next_event().expect("the last ones wait");
        assert!(due > now && due <= now + PAUSE);
        let progress = Progress { missing: 9999, made: 9999, bytes: 9999 };
        let line = teller.news(due, progress, state(9999));
        assert_eq!((line.as_deref(), teller.next_event()), (Some("9999 9999 9999 1 0 1 2"), None));
        assert_ne!(line, last);
    }
}
