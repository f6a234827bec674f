/* A walker in many wrong versions, and one that walks nothing and is right. Each is chosen by a definition on the compiler's command line. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "walkfuzz_walker.h"

#ifndef ABI
#define ABI WALKFUZZ_WALKER_ABI
#endif
#ifndef NAME
#define NAME "right"
#endif
#ifndef VERSION
#define VERSION "2.5"
#endif
#ifndef GENERATION
#define GENERATION NULL
#endif
#ifndef METHOD
#define METHOD WALKFUZZ_METHOD_ID
#endif
#ifndef SIZE
#define SIZE sizeof(struct walkfuzz_walker)
#endif

/* The compiler would leave out memory that nobody uses, and knows that nothing is at address 8. */
static void *volatile memory;
static int *volatile nowhere = (int *)8;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int32_t init(const struct walkfuzz_facts *facts) {
    facts->log("here I am");
    memory = malloc(100);
    free(memory);
#if defined(CRASH_IN_INIT)
    *nowhere = 1;
#elif defined(ABORT_IN_INIT)
    abort();
#elif defined(EXIT_IN_INIT)
    exit(3);
#elif defined(HANG_IN_INIT)
    for (;;)
        pause();
#elif defined(UNWILLING)
    return 7;
#endif
    /* What the test says: each field stands where both sides think. */
    if (facts->abi != WALKFUZZ_WALKER_ABI || facts->size != sizeof *facts)
        return -1;
    if (strcmp(facts->jvm_version, "17.0.15+6") != 0 || facts->feature != 17)
        return -2;
    if (strcmp(facts->libjvm_path, "/nowhere/libjvm.so") != 0 || facts->libjvm_base != 0x700000000000)
        return -3;
    if (facts->async_get_call_trace != (void *)0x10 || facts->java_vm != (void *)0x20 || facts->jvmti != (void *)0x30)
        return -4;
    if (facts->code_cache_low != 0x1000 || facts->code_cache_high != 0x2000)
        return -5;
    return 0;
}

/* What it does is chosen by the depth. */
__attribute__((unused)) static int32_t walk(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    (void)ucontext;
    frames[0].bci = thread->tid;
    frames[0].method = thread->env;
    switch (depth) {
    case 10:
        memory = malloc((size_t)depth);
        free(memory);
        return 1;
    case 11:
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        return 1;
    case 12:
        pthread_mutex_lock(&mutex);
        return 1;
    case 13:
        return depth + 1;
    case 14:
        frames[depth].bci = 1;
        return 1;
    case 15:
        return -4;
    default:
        return 1;
    }
}

static int32_t walk_from_frame(const struct walkfuzz_thread *thread, uintptr_t sp, uintptr_t fp, uintptr_t pc, int32_t depth,
                               struct walkfuzz_frame *frames) {
    (void)thread;
    (void)depth;
    frames[0].bci = (int32_t)sp;
    frames[0].method = (void *)fp;
    frames[1].method = (void *)pc;
    return 2;
}

#if defined(REMOTE)
static int32_t walk_remote(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames) {
    (void)depth;
    for (int frame = 0; frame < 3; frame++)
        frames[frame].method = frame == 1 ? thread->env : ucontext;
    return 3;
}
#endif

static const struct walkfuzz_code codes[] = {
    {0, "nothing"},
    {-4, "four below"},
#if defined(TWO_NAMES)
    {-4, "four below, again"},
#elif defined(POSITIVE_CODE)
    {1, "one frame"},
#endif
    {0, NULL},
};

static const struct walkfuzz_walker walker = {
    .abi = ABI,
    .size = SIZE,
    .name = NAME,
    .version = VERSION,
    .generation = GENERATION,
    .codes = codes,
    .init = init,
#if !defined(NO_WALK)
    .walk = walk,
#endif
    .walk_from_frame = walk_from_frame,
    .method = METHOD,
#if defined(REMOTE)
    .walk_remote = walk_remote,
#endif
};

#if defined(CRASH_WHEN_LOADED)
__attribute__((constructor)) static void crash(void) {
    *nowhere = 1;
}
#endif

#if defined(NO_ENTRY)
const struct walkfuzz_walker *another_name(void);
const struct walkfuzz_walker *another_name(void) {
    return &walker;
}
#else
const struct walkfuzz_walker *walkfuzz_walker(void) {
#if defined(NULL_WALKER)
    (void)walker;
    return NULL;
#else
    return &walker;
#endif
}
#endif
