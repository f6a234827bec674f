//! What stands in a capsule for the few functions of libc that a walk calls: code of ours, the same on every machine.
//!
//! libc chooses the code behind such a name for the processor that it starts on, and each libc is another. Each shim does what its function
//! does for the walk that was captured, with nothing but its arguments, the thread pointer and the page behind the one it stands on.

use core::arch::global_asm;

use crate::capsule::PageBytes;
use crate::format::limits::PAGE;

/// Keys of `pthread_getspecific` of which the page behind the shims has the values, a word each.
pub(crate) const KEYS: u32 = 512;

global_asm!(
    ".pushsection .text.walkfuzz_shims, \"ax\", @progbits",
    ".balign 16",
    ".hidden walkfuzz_shim_begin",
    ".globl walkfuzz_shim_begin",
    "walkfuzz_shim_begin:",
    // The value that the captured thread had.
    ".hidden walkfuzz_shim_getspecific",
    ".globl walkfuzz_shim_getspecific",
    "walkfuzz_shim_getspecific:",
    "xor eax, eax",
    "cmp edi, {keys}",
    "jae 2f",
    "lea rdx, [rip]",
    "or rdx, 0xfff",
    "mov edi, edi",
    "mov rax, [rdx + rdi * 8 + 1]",
    "2:",
    "ret",
    ".balign 16",
    // The thread's vector of blocks: as the ABI has it, for a block that exists.
    ".hidden walkfuzz_shim_tls_get_addr",
    ".globl walkfuzz_shim_tls_get_addr",
    "walkfuzz_shim_tls_get_addr:",
    "mov rax, fs:[8]",
    "mov rdx, [rdi]",
    "shl rdx, 4",
    "mov rax, [rax + rdx]",
    "add rax, [rdi + 8]",
    "ret",
    ".balign 16",
    // memcpy, too.
    ".hidden walkfuzz_shim_memmove",
    ".globl walkfuzz_shim_memmove",
    "walkfuzz_shim_memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rcx - 1]",
    "lea rsi, [rsi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".balign 16",
    ".hidden walkfuzz_shim_memset",
    ".globl walkfuzz_shim_memset",
    "walkfuzz_shim_memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".balign 16",
    ".hidden walkfuzz_shim_memcmp",
    ".globl walkfuzz_shim_memcmp",
    "walkfuzz_shim_memcmp:",
    "xor eax, eax",
    "2:",
    "test rdx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "inc rdi",
    "inc rsi",
    "dec rdx",
    "sub eax, ecx",
    "je 2b",
    "3:",
    "ret",
    ".balign 16",
    ".hidden walkfuzz_shim_strlen",
    ".globl walkfuzz_shim_strlen",
    "walkfuzz_shim_strlen:",
    "mov rax, -1",
    "2:",
    "inc rax",
    "cmp byte ptr [rdi + rax], 0",
    "jne 2b",
    "ret",
    ".balign 16",
    ".hidden walkfuzz_shim_strcmp",
    ".globl walkfuzz_shim_strcmp",
    "walkfuzz_shim_strcmp:",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "inc rdi",
    "inc rsi",
    "sub eax, ecx",
    "jne 3f",
    "test ecx, ecx",
    "jne walkfuzz_shim_strcmp",
    "3:",
    "ret",
    ".hidden walkfuzz_shim_end",
    ".globl walkfuzz_shim_end",
    "walkfuzz_shim_end:",
    ".popsection",
    keys = const KEYS,
);

unsafe extern "C" {
    #[link_name = "walkfuzz_shim_begin"]
    static BEGIN: u8;
    #[link_name = "walkfuzz_shim_end"]
    static END: u8;
    #[link_name = "walkfuzz_shim_getspecific"]
    static GETSPECIFIC: u8;
    #[link_name = "walkfuzz_shim_tls_get_addr"]
    static TLS_GET_ADDR: u8;
    #[link_name = "walkfuzz_shim_memmove"]
    static MEMMOVE: u8;
    #[link_name = "walkfuzz_shim_memset"]
    static MEMSET: u8;
    #[link_name = "walkfuzz_shim_memcmp"]
    static MEMCMP: u8;
    #[link_name = "walkfuzz_shim_strlen"]
    static STRLEN: u8;
    #[link_name = "walkfuzz_shim_strcmp"]
    static STRCMP: u8;

    fn __tls_get_addr(index: *const u64) -> *mut libc::c_void;
}

/// A function of libc's that has a shim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shim {
    /// Its name.
    pub(crate) name: &'static str,
    /// Where it is in this process: the code that libc chose.
    pub(crate) function: u64,
    /// Where its shim is on the page of shims.
    pub(crate) offset: u64,
}

/// All shims, and the page that they stand on.
pub(crate) fn shims() -> (Vec<Shim>, PageBytes) {
    let begin = &raw const BEGIN;
    let at = |symbol: *const u8| symbol as u64 - begin as u64;
    let shims = [
        (
            "pthread_getspecific",
            libc::pthread_getspecific as *const () as u64,
            at(&raw const GETSPECIFIC),
        ),
        (
            "__tls_get_addr",
            __tls_get_addr as *const () as u64,
            at(&raw const TLS_GET_ADDR),
        ),
        (
            "memcpy",
            libc::memcpy as *const () as u64,
            at(&raw const MEMMOVE),
        ),
        (
            "memmove",
            libc::memmove as *const () as u64,
            at(&raw const MEMMOVE),
        ),
        (
            "memset",
            libc::memset as *const () as u64,
            at(&raw const MEMSET),
        ),
        (
            "memcmp",
            libc::memcmp as *const () as u64,
            at(&raw const MEMCMP),
        ),
        (
            "strlen",
            libc::strlen as *const () as u64,
            at(&raw const STRLEN),
        ),
        (
            "strcmp",
            libc::strcmp as *const () as u64,
            at(&raw const STRCMP),
        ),
    ];
    let shims = shims.map(|(name, function, offset)| Shim {
        name,
        function,
        offset,
    });
    // SAFETY: the code between the two symbols, which is never written.
    let code = unsafe { core::slice::from_raw_parts(begin, at(&raw const END) as usize) };
    let mut page = [super::BREAKPOINT; PAGE as usize];
    for (target, byte) in page.iter_mut().zip(code) {
        *target = *byte;
    }
    (shims.to_vec(), page)
}

/// The page behind them: what `pthread_getspecific` says on the calling thread.
pub(crate) fn thread_values() -> PageBytes {
    let mut page = [0; PAGE as usize];
    for (key, word) in (0..KEYS).zip(page.as_chunks_mut::<8>().0) {
        // SAFETY: any number may be asked for; one that is no key has no value.
        let value = unsafe { libc::pthread_getspecific(key) };
        *word = (value as u64).to_le_bytes();
    }
    page
}
