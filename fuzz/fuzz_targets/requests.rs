//! Any bytes as what an agent is asked: each role does what it understands wholly, and refuses the rest in words.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| virtlab_agent::fuzzing::requests(bytes));
