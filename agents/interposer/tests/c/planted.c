/* A small profiler: an agent with a SIGPROF handler of its own, driven by ITIMER_PROF. By -D it is honest or one of several bad ones:
 *   HONEST    walks frame pointers, as long as they are near: above a handler lie the kernel's frame and the thread's
 *   WILD      reads what sp points to, unchecked
 *   ENDLESS   never comes back from an sp that is not aligned
 *   GUARDED   reads what sp points to, unchecked, and skips the load in a SIGSEGV and SIGBUS handler of its own
 *   LOCKED    as WILD, under a lock that it then never gives back: later signals find it taken, and do nothing
 *   SLOW      computes for a tenth of a second and then reads where nothing is, if sp is not aligned
 * Told "refuse", it does not begin.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PC(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RIP])
#define SP(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RSP])
#define FP(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RBP])
#else
#define PC(u) ((uintptr_t)(u)->uc_mcontext.pc)
#define SP(u) ((uintptr_t)(u)->uc_mcontext.sp)
#define FP(u) ((uintptr_t)(u)->uc_mcontext.regs[29])
#endif

struct state { volatile int lock; volatile uint64_t sum, skipped, walked; };
static struct state *state;
#ifdef GUARDED
static struct sigaction before;
static volatile int protected;
static __thread sigjmp_buf *volatile way_out __attribute__((tls_model("initial-exec")));
#endif

__attribute__((noinline)) void planted_wild_read(uintptr_t sp) { state->sum += *(volatile uint64_t *)sp; }

#ifdef GUARDED
static void on_segv(int signo, siginfo_t *info, void *uc) {
    if (way_out) siglongjmp(*way_out, 1);
    before.sa_sigaction(signo, info, uc);
}

/* Behind the JVM's handler, which comes after agents were loaded. */
static void *stand_before_jvm(void *unused) {
    while (sigaction(SIGSEGV, NULL, &before) != 0 || before.sa_handler == SIG_DFL) usleep(10000);
    struct sigaction act = before;
    act.sa_sigaction = on_segv;
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
    protected = 1;
    return unused;
}
#endif

static void on_prof(int signo, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    uintptr_t sp = SP(uc);
#if defined(HONEST)
    uintptr_t here = (uintptr_t)&sp, fp = FP(uc);
    for (int depth = 0; depth < 64; depth++) {
        if (fp % 8 != 0 || fp <= here || fp - here > 2048) break;
        state->sum += ((volatile uint64_t *)fp)[1];
        uintptr_t next = *(volatile uintptr_t *)fp;
        if (next <= fp) break;
        fp = next;
    }
#elif defined(ENDLESS)
    if (sp % 8 != 0) for (;;) state->sum++;
#elif defined(SLOW)
    if (sp % 8 != 0) {
        struct timespec began, now;
        clock_gettime(CLOCK_MONOTONIC, &began);
        do clock_gettime(CLOCK_MONOTONIC, &now);
        while ((now.tv_sec - began.tv_sec) * 1000000000L + now.tv_nsec - began.tv_nsec < 100000000L);
        planted_wild_read(8);
    }
#elif defined(GUARDED)
    if (!protected) return;
    sigjmp_buf out;
    if (sigsetjmp(out, 0) == 0) {
        way_out = &out;
        planted_wild_read(sp);
    } else {
        state->skipped++;
    }
    way_out = 0;
#elif defined(LOCKED)
    if (__sync_lock_test_and_set(&state->lock, 1)) return;
    planted_wild_read(sp);
    state->lock = 0;
#else
    planted_wild_read(sp);
#endif
    state->walked++;
}

int Agent_OnLoad(void *vm, char *options, void *reserved) {
    if (options && strcmp(options, "refuse") == 0) return 3;
    state = calloc(1, sizeof *state);
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_sigaction = on_prof;
    act.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &act, NULL);
#ifdef GUARDED
    pthread_t thread;
    pthread_create(&thread, NULL, stand_before_jvm, NULL);
#endif
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &every, NULL);
    return 0;
}
