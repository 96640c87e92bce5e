//! Any bytes as a block: decoded within its bounds, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| virtlab_wire::fuzzing::blocks(bytes));
