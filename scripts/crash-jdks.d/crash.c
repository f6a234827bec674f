// Native ways to crash a JVM, and an asynchronous walker without any protection. See scripts/crash-jdks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jni.h>
#include <jvmti.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

typedef struct { jint bci; jmethodID method; } Frame;
typedef struct { JNIEnv *env; jint count; Frame *frames; } Trace;
typedef void (*Agct)(Trace *, jint, void *);

static JNIEnv *walked_env;
static Agct agct;
static uint64_t state;
static volatile int sink;

static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

// Changes some of pc, sp and fp, as a naive fuzzer would. sp mostly stays near: a wild one faults at once, always in the same
// function.
static void perturb(ucontext_t *context) {
    greg_t *registers = context->uc_mcontext.gregs;
    const uint64_t *stack = (const uint64_t *)registers[REG_RSP];
    greg_t *pc = &registers[REG_RIP], *sp = &registers[REG_RSP], *fp = &registers[REG_RBP];
    switch (next() % 4) {
    case 0: break;
    case 1: *pc += (int64_t)(next() % 64) - 32; break;
    case 2: *pc = stack[next() % 512]; break;
    default: *pc ^= next() & ((1 << (4 + next() % 14)) - 1); break;
    }
    if (next() % 16 == 0) *sp = next() % 4096;
    else if (next() % 2) *sp += 8 * ((int64_t)(next() % 256) - 128);
    switch (next() % 6) {
    case 0: break;
    case 1: *fp = stack[next() % 512]; break;
    case 2: *fp = *sp + 8 * ((int64_t)(next() % 256) - 64); break;
    case 3: *fp += (int64_t)(next() % 64) - 32; break;
    case 4: *fp = registers[next() % 16]; break;
    default: *fp = (greg_t)next(); break;
    }
}

__attribute__((noinline)) static void walk(void *context) {
    static Frame frames[512];
    Trace trace = {walked_env, 0, frames};
    agct(&trace, 512, context);
    sink += trace.count;
}

// A walker of one's own, as profilers have them: follows frame pointers and believes what it reads.
__attribute__((noinline)) void own_walker(void *context) __asm__("_ZN11StackWalker6walkVMEPvP15ASGCT_CallFramei");
void own_walker(void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint64_t *fp = (const uint64_t *)registers[REG_RBP];
    for (int depth = 0; depth < 512; depth++) {
        sink += (int)fp[1];
        fp = (const uint64_t *)fp[0];
    }
}

__attribute__((noinline)) void record_sample(void *context) __asm__("_ZN8Profiler12recordSampleEPvy9EventTypeP5Event");
void record_sample(void *context) {
    ucontext_t changed;
    for (int walks = 0; walks < 64; walks++) {
        changed = *(ucontext_t *)context;
        perturb(&changed);
#ifdef OWN_WALKER
        own_walker(&changed);
#else
        walk(&changed);
#endif
    }
}

__attribute__((noinline)) void signal_handler(int, siginfo_t *, void *) __asm__("_ZN10PerfEvents13signalHandlerEiP9siginfo_tPv");
void signal_handler(int number, siginfo_t *info, void *context) {
    record_sample(context);
    sink += number + info->si_code;
}

static void JNICALL ready(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jclass class) {
    (void)env, (void)thread;
    jint count;
    jmethodID *methods;
    if ((*jvmti)->GetClassMethods(jvmti, class, &count, &methods) == 0) (*jvmti)->Deallocate(jvmti, (void *)methods);
}

// AsyncGetCallTrace refuses to walk without this event.
static void JNICALL loaded(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jclass class) {
    (void)jvmti, (void)env, (void)thread, (void)class;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
    (void)reserved;
    jvmtiEnv *jvmti;
    if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) != 0) return JNI_VERSION_1_6;
    jvmtiEventCallbacks callbacks = {.ClassLoad = loaded, .ClassPrepare = ready};
    (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_CLASS_LOAD, NULL);
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_CLASS_PREPARE, NULL);
    jint count;
    jclass *classes;
    if ((*jvmti)->GetLoadedClasses(jvmti, &count, &classes) == 0)
        for (int at = 0; at < count; at++) ready(jvmti, NULL, NULL, classes[at]);
    return JNI_VERSION_1_6;
}

JNIEXPORT void JNICALL Java_Crash_startWalks(JNIEnv *env, jclass class, jint seed) {
    (void)class;
    state = 88172645463325252ull * (uint64_t)(2 * seed + 1);
    walked_env = env;
    agct = (Agct)dlsym(RTLD_DEFAULT, "AsyncGetCallTrace");
    if (agct == NULL) {
        void *jvm = dlopen("libjvm.so", RTLD_LAZY | RTLD_NOLOAD);
        agct = (Agct)dlsym(jvm, "AsyncGetCallTrace");
    }
    struct sigaction action = {.sa_sigaction = signal_handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec every = {{0, 1000000}, {0, 1000000}};
    timer_settime(timer, 0, &every, NULL);
}

JNIEXPORT void JNICALL Java_Crash_inNative(JNIEnv *env, jclass class, jstring how) {
    (void)class;
    const char *way = (*env)->GetStringUTFChars(env, how, NULL);
    if (strcmp(way, "null") == 0) {
        *(volatile int *)8 = 1;
    } else if (strcmp(way, "jni-null") == 0) {
        // The VM itself follows the wild handle.
        (*env)->GetArrayLength(env, (jarray)(intptr_t)0x18);
    } else if (strcmp(way, "bus") == 0) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("short", 0), 0);
        sink += page[0];
    } else if (strcmp(way, "ill") == 0) {
        __builtin_trap();
    } else if (strcmp(way, "fpe") == 0) {
        volatile int zero = 0;
        sink = 7 / zero;
    } else if (strcmp(way, "jump") == 0) {
        ((void (*)(void))(intptr_t)0x10)();
    }
}
