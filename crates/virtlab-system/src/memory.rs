//! Memory that was needed once, and is not any more.

/// What is free goes back to the kernel, such as what reading a command line took. Every guest has an agent, which else
/// holds it for as long as the guest lives.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it moves nothing, and gives back only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
