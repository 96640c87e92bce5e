"""Period and budget of a virtual machine with hard deadlines inside; thin over Rust."""
