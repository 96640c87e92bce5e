//! Any bytes from the other side of a line: they are counted or refused, the line never panics and never stalls.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| virtlab_wire::fuzzing::lines(bytes));
