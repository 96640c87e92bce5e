//! A filter of system calls (seccomp) that keeps a process and its children away from the kernel's keyrings.
//!
//! Keys belong to a user, and no namespace hides them: a command that runs as its caller could read the caller's. The
//! three calls are refused with EPERM. A program of another architecture numbers its calls otherwise, so it is killed.

use anyhow::Context;
use nix::errno::Errno;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64
/// Calls of x32 programs on x86-64 have this bit, and numbers of their own.
const FIRST_OF_X32: u32 = 0x4000_0000;

const REFUSED: [libc::c_long; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

// struct seccomp_data: the number of the call, then the architecture.
const NUMBER: u32 = 0;
const OF_ARCHITECTURE: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn instruction(code: u16, k: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: if_false, k }
}

/// Refuses the calls for good, in this process and all that it starts. `no_new_privs` must have been set.
///
/// # Errors
/// When the kernel has no such filters.
pub fn forbid() -> anyhow::Result<()> {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = vec![
        instruction(LOAD, OF_ARCHITECTURE, 0, 0),
        instruction(IF_EQUAL, ARCHITECTURE, 1, 0),
        instruction(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        instruction(LOAD, NUMBER, 0, 0),
        instruction(IF_AT_LEAST, FIRST_OF_X32, 0, 1),
        instruction(RETURN, refuse, 0, 0),
    ];
    for call in REFUSED {
        program.push(instruction(IF_EQUAL, u32::try_from(call)?, 0, 1));
        program.push(instruction(RETURN, refuse, 0, 0));
    }
    program.push(instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    let filter = libc::sock_fprog { len: u16::try_from(program.len())?, filter: program.as_mut_ptr() };
    // SAFETY: the program lives during the call, which copies it.
    let code =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter, 0, 0) };
    Errno::result(code).context("no filter of system calls")?;
    Ok(())
}
