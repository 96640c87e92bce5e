//! How threads of a probe are started.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread. What it does is boxed, so the code that starts one is in the binary once.
///
/// # Errors
/// When this process may have no more threads.
pub fn start(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.chars().take(15).collect()).spawn(work)
}
