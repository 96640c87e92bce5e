//! Any bytes from a peer of a store: a node, a proxy and a client take them, or end the line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    virtlab_agent::fuzzing::messages(bytes);
});
