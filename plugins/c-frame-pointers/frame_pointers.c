/*
 * The smallest walker worth the name: follows the chain of frame pointers from the interrupted registers, inside the walked thread's
 * stack. Interpreted frames, native wrappers and frames of code that keeps frame pointers are found; others end the chain early.
 *
 *     cc -shared -fPIC -O2 -I crates/walkers/include -o libframe_pointers.so plugins/c-frame-pointers/frame_pointers.c
 *
 * It gives a pc where AsyncGetCallTrace gives a method id. It believes no fp: a record is read only where the stack's mapping ends later, which
 * `init` cannot know for every thread; so it goes up by at most STEP bytes at a time and stays within REACH bytes of sp.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "walkfuzz_walker.h"

enum { OUTSIDE_CODE = -1, NO_FRAME = 0 };

/* One frame is smaller, and a Java thread's stack is at most this far from its sp to its end where the JVM's defaults hold. */
#define STEP (256u << 10)
#define REACH (768u << 10)

static uintptr_t code_low, code_high;

static int32_t init(const struct walkfuzz_facts *facts) {
    if (facts->code_cache_low >= facts->code_cache_high) {
        facts->log("this JVM has no code cache");
        return 1;
    }
    code_low = facts->code_cache_low;
    code_high = facts->code_cache_high;
    return 0;
}

static int is_code(uintptr_t pc) {
    return code_low <= pc && pc < code_high;
}

static int32_t follow(uintptr_t sp, uintptr_t fp, uintptr_t pc, int32_t depth, struct walkfuzz_frame *frames) {
    const uintptr_t limit = sp + REACH;
    uintptr_t lowest = sp;
    int32_t count = 0;
    if (!is_code(pc))
        return OUTSIDE_CODE;
    while (count < depth && is_code(pc)) {
        frames[count].bci = -3;
        frames[count].method = (void *)pc;
        count++;
        /* Callers' records stand above their callees', so that the walk comes to an end. */
        if (fp < lowest || fp - lowest > STEP || fp >= limit || fp % sizeof(uintptr_t) != 0)
            break;
        const uintptr_t *record = (const uintptr_t *)fp;
        lowest = fp + 2 * sizeof(uintptr_t);
        pc = record[1];
        fp = record[0];
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
};

const struct walkfuzz_walker *walkfuzz_walker(void) {
    return &walker;
}
