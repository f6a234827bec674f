/*
 * A small walker that no context can make fault: follows the chain of frame pointers from the interrupted registers, as long as it leads through
 * the code cache. Interpreted frames, native wrappers and compiled code that keeps frame pointers are found; other code ends the chain early.
 *
 *     cc -shared -fPIC -O2 -I crates/walkers/include -o libframe_pointers.so plugins/c-frame-pointers/frame_pointers.c
 *
 * It gives a pc where AsyncGetCallTrace gives a method id. It believes no address: the kernel reads the stack for it, and says no instead of
 * faulting. That costs some 200 ns a frame; a walker in a hurry knows the bounds of each thread's stack instead.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "walkfuzz_walker.h"

enum { OUTSIDE_CODE = -1, NO_FRAME = 0 };

static uintptr_t code_low, code_high;
static pid_t self;

static int is_code(uintptr_t pc) {
    return code_low <= pc && pc < code_high;
}

/* Where a frame pointer points: the caller's frame pointer, and the return address. */
struct record {
    uintptr_t fp;
    uintptr_t pc;
};

static int read_record(uintptr_t address, struct record *record) {
    struct iovec here = {record, sizeof *record};
    struct iovec there = {(void *)address, sizeof *record};
    return process_vm_readv(self, &here, 1, &there, 1, 0) == (ssize_t)sizeof *record;
}

static int32_t init(const struct walkfuzz_facts *facts) {
    if (facts->code_cache_low >= facts->code_cache_high) {
        facts->log("this JVM has no code cache");
        return 1;
    }
    struct record record, probe = {1, 2};
    self = getpid();
    if (!read_record((uintptr_t)&probe, &record) || record.pc != probe.pc) {
        facts->log("the kernel does not let this process read its own memory by process_vm_readv");
        return 2;
    }
    code_low = facts->code_cache_low;
    code_high = facts->code_cache_high;
    return 0;
}

static int32_t follow(uintptr_t sp, uintptr_t fp, uintptr_t pc, int32_t depth, struct walkfuzz_frame *frames) {
    uintptr_t lowest = sp;
    int32_t count = 0;
    if (!is_code(pc))
        return OUTSIDE_CODE;
    while (count < depth && is_code(pc)) {
        struct record record;
        frames[count].bci = -3;
        frames[count].method = (void *)pc;
        count++;
        /* Callers' records stand above their callees': so the walk comes to an end. */
        if (fp < lowest || fp % sizeof(uintptr_t) != 0 || !read_record(fp, &record))
            break;
        lowest = fp + sizeof record;
        pc = record.pc;
        fp = record.fp;
    }
    return count;
}

static int32_t walk(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    (void)thread;
    const mcontext_t *registers = &((const ucontext_t *)ucontext)->uc_mcontext;
#if defined(__x86_64__)
    return follow((uintptr_t)registers->gregs[REG_RSP], (uintptr_t)registers->gregs[REG_RBP],
                  (uintptr_t)registers->gregs[REG_RIP], depth, frames);
#elif defined(__aarch64__)
    return follow(registers->sp, registers->regs[29], registers->pc, depth, frames);
#else
#error "x86_64 or aarch64"
#endif
}

static int32_t walk_from_frame(const struct walkfuzz_thread *thread, uintptr_t sp, uintptr_t fp, uintptr_t pc, int32_t depth,
                               struct walkfuzz_frame *frames) {
    (void)thread;
    return follow(sp, fp, pc, depth, frames);
}

/* From another thread it is the same: the process's memory is everybody's. */
static int32_t walk_remote(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    return walk(thread, ucontext, depth, frames);
}

static const struct walkfuzz_code codes[] = {
    {NO_FRAME, "no frame"},
    {OUTSIDE_CODE, "outside the code cache"},
    {0, NULL},
};

static const struct walkfuzz_walker walker = {
    .abi = WALKFUZZ_WALKER_ABI,
    .size = sizeof(struct walkfuzz_walker),
    .name = "c-frame-pointers",
    .version = "1",
    .codes = codes,
    .init = init,
    .walk = walk,
    .walk_from_frame = walk_from_frame,
    .method = WALKFUZZ_METHOD_PC,
    .walk_remote = walk_remote,
};

const struct walkfuzz_walker *walkfuzz_walker(void) {
    return &walker;
}
