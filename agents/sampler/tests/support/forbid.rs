//! System calls that code under test must not make.

/// Kills the process at any other system call.
pub(crate) fn forbid_all_but(calls: &[libc::c_long]) {
    let step = |code: u32, k: u32, jt: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    let mut program = [step(0, 0, 0); 8];
    program[0] = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    for (at, call) in calls.iter().enumerate() {
        let jump = (calls.len() - at) as u8;
        program[at + 1] = step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            *call as u32,
            jump,
        );
    }
    let end = calls.len() + 1;
    program[end] = step(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_KILL_PROCESS,
        0,
    );
    program[end + 1] = step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0);
    let filter = libc::sock_fprog {
        len: end as u16 + 2,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the calls. Without seccomp (an emulator) allocations are counted all the same.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        );
    }
}
