//! Any bytes on a control stream: frames come out or are passed over, the decoder never panics and never stalls.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| virtlab_wire::fuzzing::frames(bytes));
