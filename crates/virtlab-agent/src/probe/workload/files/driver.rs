//! Whatever does operations on objects one at a time, waiting for each: a thread has one. A directory is one; what is asked
//! by requests that a thread waits for can be another.

use virtlab_store::{Ending, Pick};
use virtlab_wire::Nanos;

/// An operation that was done by a driver.
pub struct Performed {
    pub ending: Ending,
    /// Of one that failed: why.
    pub why: &'static str,
    /// When it began, and when its last system call ended: making and comparing content is outside.
    pub sent: Nanos,
    pub finished: Nanos,
}

/// Does one operation at a time, on one thread, and compares the content that it reads.
pub trait Driver: Send {
    /// # Errors
    /// When no further operation makes sense, as where there is no room.
    fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed>;
}
