/*
 * Right walkers, and the ways to get one wrong: one of the MUTANT_... below makes the mutant, none makes a right one, which walkfuzz must find
 * nothing in. `crates/harness/tests/live/plugins.rs` runs each and says how many walks it took to find it.
 *
 * Two right walkers are spoiled. With AROUND_AGCT, AsyncGetCallTrace, called with the context as it is. Without it, one that follows frame
 * pointers, as plugins/c-frame-pointers does, and lets the kernel read the stack, so that nothing makes it fault.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "walkfuzz_walker.h"

#if defined(MUTANT_OFF_BY_ONE_INLINED) || defined(MUTANT_WRONG_BCI) || defined(MUTANT_SKIPS_AT_STUB) || \
    defined(MUTANT_AFTER_RECOVERY)
#define AROUND_AGCT
#endif

/* Not every mutant needs everything. */
#define SHARED __attribute__((unused)) static
/* A mutation stands in a function of its own, whose name a finding must show. */
#define MUTATION __attribute__((noinline)) static

enum { NO_FRAME = 0, OUTSIDE_CODE = -1 };

static uintptr_t code_low, code_high;

SHARED int is_code(uintptr_t pc) {
    return code_low <= pc && pc < code_high;
}

struct registers {
    uintptr_t sp, fp, pc;
};

SHARED struct registers registers_of(const void *ucontext) {
    const mcontext_t *context = &((const ucontext_t *)ucontext)->uc_mcontext;
#if defined(__x86_64__)
    struct registers registers = {(uintptr_t)context->gregs[REG_RSP], (uintptr_t)context->gregs[REG_RBP],
                                  (uintptr_t)context->gregs[REG_RIP]};
#elif defined(__aarch64__)
    struct registers registers = {context->sp, context->regs[29], context->pc};
#else
#error "x86_64 or aarch64"
#endif
    return registers;
}

#if defined(AROUND_AGCT)

struct agct_trace {
    void *env;
    int32_t num_frames;
    struct walkfuzz_frame *frames;
};

static void (*agct)(struct agct_trace *, int32_t, void *);

static int32_t right(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    struct agct_trace trace = {thread->env, 0, frames};
    agct(&trace, depth, ucontext);
    return trace.num_frames;
}

#if defined(MUTANT_WRONG_BCI)
/* The bytecode behind the one that runs. */
MUTATION int32_t mutated(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    int32_t count = right(thread, ucontext, depth, frames);
    if (count > 0 && frames[0].bci >= 0)
        frames[0].bci += 3;
    return count;
}
#elif defined(MUTANT_OFF_BY_ONE_INLINED)
/* Believes that two methods share one compiled frame, and forgets the outer one: of every walk. Which frames share one is written in the compiler's
 * scopes, which a library that has AsyncGetCallTrace's answer alone does not see. The mistake in the frames is that of a walker that miscounts where
 * they do. */
MUTATION int32_t mutated(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    int32_t count = right(thread, ucontext, depth, frames);
    if (count > 2) {
        memmove(frames + 1, frames + 2, sizeof *frames * (size_t)(count - 2));
        count--;
    }
    return count;
}
#elif defined(MUTANT_SKIPS_AT_STUB)
/* Where a return address lies on top of the stack, as in a stub and at a method's first instruction, it goes to the caller, and once more. It takes
 * every word in the code cache's bounds for a return address: what is a stub the code cache's blobs say, which nobody shows a library. */
MUTATION int32_t mutated(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    int32_t count = right(thread, ucontext, depth, frames);
    uintptr_t top = 0;
    struct iovec here = {&top, sizeof top};
    struct iovec there = {(void *)registers_of(ucontext).sp, sizeof top};
    process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (count > 1 && is_code(top)) {
        memmove(frames, frames + 1, sizeof *frames * (size_t)(count - 1));
        count--;
    }
    return count;
}
#elif defined(MUTANT_AFTER_RECOVERY)
/* What a walk that faulted has left here is used by the next one. */
static volatile int under_way, left_over;

MUTATION int32_t mutated(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    if (under_way)
        left_over = 1;
    under_way = 1;
    /* At a wild sp it faults here, before anything is mended. */
    (void)*(const volatile uintptr_t *)registers_of(ucontext).sp;
    int32_t count = right(thread, ucontext, depth, frames);
    under_way = 0;
    if (left_over && count > 0 && frames[0].bci >= 0)
        frames[0].bci += 1;
    return count;
}
#else
#define mutated right
#endif

#else

static pid_t self;

struct record {
    uintptr_t fp, pc;
};

SHARED int read_checked(uintptr_t address, void *to, size_t bytes) {
    struct iovec here = {to, bytes};
    struct iovec there = {(void *)address, bytes};
    return process_vm_readv(self, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

#if defined(MUTANT_UNCHECKED_FP)
/* Believes that fp is a frame pointer. */
MUTATION int read_unchecked_fp(uintptr_t fp, struct record *record) {
    *record = *(const volatile struct record *)fp;
    return 1;
}
#define read_record read_unchecked_fp
#else
static int read_record(uintptr_t fp, struct record *record) {
    return read_checked(fp, record, sizeof *record);
}
#endif

#if defined(MUTANT_BEYOND_STACK)
#define PAGE 4096u
#define FARTHEST (4096u * PAGE)

/* Looks through the rest of the stack for a word that looks like a frame pointer of Java code, its end included. */
MUTATION uintptr_t scan_beyond_stack(uintptr_t sp) {
    uintptr_t end = (sp | (PAGE - 1)) + 1;
    char byte;
    while (end - sp < FARTHEST && read_checked(end, &byte, 1))
        end += PAGE;
    if (end - sp >= FARTHEST || !read_checked(sp, &byte, 1))
        return 0;
    uintptr_t last = 0;
    for (uintptr_t at = sp & ~(uintptr_t)7; at <= end; at += sizeof at)
        if (is_code(*(const volatile uintptr_t *)at))
            last = at;
    return last;
}
#endif

#if defined(MUTANT_STALE_SP)
static uintptr_t stale;

/* Takes what the walk before believed to be its sp. */
MUTATION uintptr_t read_stale_sp(void) {
    return stale ? *(const volatile uintptr_t *)stale : 0;
}
#endif

#if defined(MUTANT_CYCLE)
#define NEAR 65536u

/* Looks through the stack for a word that is a frame pointer. Where there is none, it begins again. */
MUTATION uintptr_t search_in_a_cycle(uintptr_t sp) {
    uintptr_t at = sp;
    for (;;) {
        struct record record;
        uintptr_t fp;
        if (at - sp >= NEAR || !read_checked(at, &fp, sizeof fp)) {
            at = sp;
            continue;
        }
        if (fp > at && fp - at < NEAR && read_record(fp, &record) && is_code(record.pc))
            return fp;
        at += sizeof at;
    }
}
#endif

#if defined(MUTANT_ALLOCATES)
/* The compiler would leave out memory that nobody uses. */
static void *volatile room;
#endif

#if defined(MUTANT_LEAVES_LOCK)
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static long outside;
#endif

static int32_t mutated(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    const struct registers begin = registers_of(ucontext);
    uintptr_t fp = begin.fp, pc = begin.pc, lowest = begin.sp;
    int32_t count = 0;
    (void)thread;
#if defined(MUTANT_STALE_SP)
    (void)read_stale_sp();
    stale = begin.sp;
#endif
    if (!is_code(pc)) {
#if defined(MUTANT_LEAVES_LOCK)
        pthread_mutex_lock(&counting);
        outside++;
#endif
        return OUTSIDE_CODE;
    }
    while (count < depth && is_code(pc)) {
        struct record record;
        frames[count].bci = -3;
        frames[count].method = (void *)pc;
        count++;
        if (fp < lowest || fp % sizeof(uintptr_t) != 0 || !read_record(fp, &record)) {
#if defined(MUTANT_BEYOND_STACK)
            if (count == 1)
                (void)scan_beyond_stack(begin.sp);
#elif defined(MUTANT_CYCLE)
            if (count == 1) {
                fp = search_in_a_cycle(begin.sp);
                continue;
            }
#endif
            break;
        }
        lowest = fp + sizeof record;
        pc = record.pc;
        fp = record.fp;
    }
#if defined(MUTANT_ALLOCATES)
    if (count > 4) {
        room = malloc(sizeof *frames * (size_t)count);
        memcpy(room, frames, sizeof *frames * (size_t)count);
        free(room);
    }
#elif defined(MUTANT_MORE_THAN_DEPTH)
    /* One more for the frame that there was no room for. */
    if (count == depth && is_code(pc))
        return count + 1;
#elif defined(MUTANT_BEHIND_FRAMES)
    /* Ends the frames with an empty one, where there is room and where there is none. */
    frames[count].bci = 0;
    frames[count].method = NULL;
#endif
    return count;
}

#endif

static int32_t init(const struct walkfuzz_facts *facts) {
    code_low = facts->code_cache_low;
    code_high = facts->code_cache_high;
#if defined(AROUND_AGCT)
    *(void **)&agct = facts->async_get_call_trace;
#else
    self = getpid();
#endif
    return code_low < code_high ? 0 : 1;
}

#if !defined(AROUND_AGCT)
static const struct walkfuzz_code codes[] = {
    {NO_FRAME, "no frame"},
    {OUTSIDE_CODE, "outside the code cache"},
    {0, NULL},
};
#endif

static const struct walkfuzz_walker walker = {
    .abi = WALKFUZZ_WALKER_ABI,
    .size = sizeof(struct walkfuzz_walker),
    .name = "mutant",
#if defined(AROUND_AGCT)
    .generation = "agct",
#else
    .codes = codes,
    .method = WALKFUZZ_METHOD_PC,
#endif
    .init = init,
    .walk = mutated,
};

const struct walkfuzz_walker *walkfuzz_walker(void) {
    return &walker;
}
