/*
 * {{TITLE}}
 * {{JVM}}
 *
 * A JVMTI agent that walks Java threads from their SIGPROF handler with AsyncGetCallTrace. Before each walk it changes a copy of the
 * registers as follows, and nothing stands between the walk and the JVM:
 *
 *     {{PERTURBATION}}
 *
 * Build: cc -O1 -fPIC -shared -o agent.so agent.c -ldl -lpthread        Use: java -agentpath:$PWD/agent.so Walked
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

typedef uintptr_t word;

/* ------------ JVMTI, JNI and AsyncGetCallTrace: what is used here of them, so that no header of a JDK is needed ------------ */

/* The table's functions by their number in the JVMTI specification. */
struct jvmti_table {
    void *f1[1];
    int (*SetEventNotificationMode)(void *jvmti, int mode, int event, void *thread, ...);
    void *f3[6];
    int (*GetThreadInfo)(void *jvmti, void *thread, void *info);
    void *f10[37];
    int (*Deallocate)(void *jvmti, void *memory);
    void *f48[4];
    int (*GetClassMethods)(void *jvmti, void *class, int *count, void ***methods);
    void *f53[23];
    int (*IsMethodNative)(void *jvmti, void *method, unsigned char *native);
    void *f77[1];
    int (*GetLoadedClasses)(void *jvmti, int *count, void ***classes);
    void *f79[43];
    int (*SetEventCallbacks)(void *jvmti, const void *callbacks, int bytes);
    int (*GenerateEvents)(void *jvmti, int event);
    void *f124[18];
    int (*AddCapabilities)(void *jvmti, const void *capabilities);
};
typedef struct jvmti_table **jvmti_env;

enum { VM_INIT = 50, THREAD_START = 52, CLASS_LOAD = 55, CLASS_PREPARE = 56, COMPILED_METHOD_LOAD = 68, COMPILED_METHOD_UNLOAD = 69,
       DYNAMIC_CODE_GENERATED = 70, FIRST_EVENT = 50, EVENTS = 40 };
enum { COMPILED_METHOD_EVENTS = 27 }; /* a bit of the capabilities */

struct thread_info { char *name; int priority; unsigned char daemon; void *group, *loader; };
struct invoke_interface { void *reserved[3], *destroy, *attach, *detach; int (*GetEnv)(void *vm, void *env, int version); };

struct frame { int line; void *method; };
struct trace { void *jni; int frames; struct frame *frame; };
static void (*AsyncGetCallTrace)(struct trace *, int depth, void *ucontext);

static jvmti_env jvmti;

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "agent: no %s\n", what);
        exit(2);
    }
}

/* ------------ The code cache, learnt from JVMTI's events: what kind of code lies where ------------ */

enum kind { OUTSIDE, FREE_CODE, INTERPRETER, NMETHOD, NATIVE_WRAPPER, ADAPTER, VTABLE_STUB, RUNTIME_STUB, STUB_ROUTINE, BUFFER };

/* One byte per 16 bytes of code. The pages that are never touched cost nothing. */
enum { GRAIN = 16, GRAINS = 1 << 26 };
static unsigned char kinds[GRAINS];
static word map_start, code_low = UINTPTR_MAX, code_high;

struct blob { word start, end; };
enum { MOST_BLOBS = 1 << 16 };
static struct blob blobs[BUFFER + 1][MOST_BLOBS];
static volatile int blob_count[BUFFER + 1];
static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;

static enum kind kind_at(word pc)
{
    if (pc < code_low || pc >= code_high)
        return OUTSIDE;
    enum kind kind = kinds[(pc - map_start) / GRAIN];
    return kind == OUTSIDE ? FREE_CODE : kind;
}

static void learn(enum kind kind, word start, word end)
{
    pthread_mutex_lock(&learning);
    if (map_start == 0)
        map_start = (start & -(word)GRAIN) - (word)GRAIN * GRAINS / 2;
    if (start >= map_start && end <= map_start + (word)GRAIN * GRAINS) {
        for (word at = start; at < end; at += GRAIN)
            if (kind != BUFFER || kinds[(at - map_start) / GRAIN] == OUTSIDE)
                kinds[(at - map_start) / GRAIN] = kind;
        code_low = start < code_low ? start : code_low;
        code_high = end > code_high ? end : code_high;
        if (blob_count[kind] < MOST_BLOBS) {
            blobs[kind][blob_count[kind]] = (struct blob){start, end};
            blob_count[kind]++;
        }
    }
    pthread_mutex_unlock(&learning);
}
//@if deopt-handler,exception-handler

/*
 * HotSpot puts a method's deoptimisation handler behind its instructions: it pushes its own address and jumps to the deoptimisation blob.
 */
static struct blob handlers[MOST_BLOBS];
static volatile int handler_count;

static word find_deopt_handler(word from, const unsigned char *code, int bytes)
{
//@if x86_64
    static const unsigned char c2[] = {0xe8, 0, 0, 0, 0, 0x48, 0x83, 0x2c, 0x24, 0x05}; /* call next; next: sub [rsp], 5 */
    for (int at = 0; at + 13 <= bytes; at++) {
        word self = from + at;
        if (memcmp(code + at, c2, sizeof c2) == 0)
            return self;
        if (code[at] == 0x49 && code[at + 1] == 0xba && memcmp(code + at + 2, &self, 8) == 0) /* C1: mov r10, self; push r10 */
            return self;
    }
//@end
//@if aarch64
    static const unsigned char adr_lr_self[] = {0x1e, 0, 0, 0x10};
    for (int at = 0; at + 4 <= bytes; at += 4)
        if (memcmp(code + at, adr_lr_self, 4) == 0)
            return from + at;
//@end
    return 0;
}

static word learn_handler(word end)
{
    unsigned char code[1024];
    static int memory = -1;
    if (memory < 0)
        memory = open("/proc/self/mem", O_RDONLY); /* reads less, and does not fault, where the code cache ends */
    ssize_t bytes = pread(memory, code, sizeof code, end);
    word handler = bytes > 0 ? find_deopt_handler(end, code, bytes) : 0;
    if (handler != 0 && handler_count < MOST_BLOBS) {
        handlers[handler_count] = (struct blob){end, handler};
        handler_count++;
    }
    return handler ? handler + GRAIN : end;
}
//@end

static void compiled_method_load(jvmti_env env, void *method, int bytes, const void *start, int n, const void *map, const void *info)
{
    unsigned char native = 0;
    word end = (word)start + bytes;
    (*env)->IsMethodNative(env, method, &native);
//@if deopt-handler,exception-handler
    if (!native)
        end = learn_handler(end);
//@end
    learn(native ? NATIVE_WRAPPER : NMETHOD, (word)start, end);
}
//@if free-code

static struct blob unloaded[MOST_BLOBS];
static volatile int unloaded_count;

static void compiled_method_unload(jvmti_env env, void *method, const void *start)
{
    if (unloaded_count < MOST_BLOBS) {
        unloaded[unloaded_count] = (struct blob){(word)start, (word)start + 256};
        unloaded_count++;
    }
}
//@end

static bool is(const char *name, const char *beginning)
{
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static void dynamic_code_generated(jvmti_env env, const char *name, const void *start, int bytes)
{
    enum kind kind = STUB_ROUTINE;
    if (is(name, "Interpreter"))
        kind = INTERPRETER;
    else if (is(name, "I2C/C2I adapters"))
        kind = ADAPTER;
    else if (is(name, "vtable stub") || is(name, "itable stub"))
        kind = VTABLE_STUB;
    else if (has(name, "adapters") || has(name, "signature handlers") || is(name, "InlineCache") || has(name, "CodeBuffer"))
        kind = BUFFER;
    else if (has(name, "Runtime") || has(name, "Blob") || has(name, "_Java") || is(name, "resolve_") || is(name, "wrong_method")
             || is(name, "ic_miss") || has(name, "throw_exception"))
        kind = RUNTIME_STUB;
    learn(kind, (word)start, (word)start + bytes);
}

/* ------------ Threads ------------ */

/* A walked thread, its stack, and the words above sp where it stands. */
struct walked {
    pthread_t id;
    void *jni;
    word stack_low, stack_high;
    word sp, words[256];
    int count;
    int code[256], code_count;
//@if natural-pc,natural-sp,natural-fp
    struct { word pc, sp, fp; } earlier[256];
    unsigned samples;
//@end
};
enum { MOST_THREADS = 8 };
static struct walked threads[MOST_THREADS];
static volatile int thread_count;

static void stack_of_this_thread(word *low, word *high)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    need(pthread_getattr_np(pthread_self(), &attributes) == 0, "stack bounds");
    pthread_attr_getstack(&attributes, &start, &bytes);
    pthread_attr_destroy(&attributes);
    *low = (word)start;
    *high = (word)start + bytes;
}

static void thread_start(jvmti_env env, void *jni, void *thread)
{
    struct thread_info info;
    if ((*env)->GetThreadInfo(env, thread, &info) != 0 || !is(info.name, "walked-"))
        return;
    pthread_mutex_lock(&learning);
    if (thread_count < MOST_THREADS) {
        struct walked *t = &threads[thread_count];
        t->id = pthread_self();
        t->jni = jni;
        stack_of_this_thread(&t->stack_low, &t->stack_high);
        thread_count++;
    }
    pthread_mutex_unlock(&learning);
}

//@if metaspace
enum { MOST_METHODS = 4096 };
static word metadata[MOST_METHODS];
static volatile int method_count;

//@end
/* AsyncGetCallTrace gives frames only for methods that have an id already, and -1 unless somebody listens to class loading. */
static void class_load(jvmti_env env, void *jni, void *thread, void *class) {}

static void class_prepare(jvmti_env env, void *jni, void *thread, void *class)
{
    int count;
    void **methods;
    if ((*env)->GetClassMethods(env, class, &count, &methods) != 0)
        return;
//@if metaspace
    for (int i = 0; i < count && method_count < MOST_METHODS; i++)
        metadata[method_count++] = *(word *)methods[i]; /* a method id points to a pointer to the Method */
//@end
    (*env)->Deallocate(env, methods);
}

/* ------------ The registers, and what they are made to be ------------ */

//@if x86_64
#define REGISTER(name) context->uc_mcontext.gregs[REG_##name]
#define PC REGISTER(RIP)
#define SP REGISTER(RSP)
#define FP REGISTER(RBP)
//@end
//@if aarch64
#define REGISTER(number) context->uc_mcontext.regs[number]
#define PC context->uc_mcontext.pc
#define SP context->uc_mcontext.sp
#define FP REGISTER(29)
//@end

static int turn;
//@if near
static unsigned long long dice = 88172645463325252ull;

/* The finding's own number on the first turn at a sample, its neighbours on the following: no two moments are the same. */
static long near(long number, long step, long reach)
{
    if (turn == 0)
        return number;
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return dice & 1 ? number : number + step * (long)((dice >> 8) % (2 * reach + 1) - reach);
}
//@end
//@if stack-word,stack-slot,return-address,return-address-slot,caller-fp,nmethod-entry,nmethod-epilogue,deopt-handler,exception-handler,natural-pc,natural-sp,natural-fp,foreign-stack,red-zone,yellow-zone,reserved-zone,metaspace

static long pick(long number, long count)
{
    number = near(number, 1, count) % count;
    return number < 0 ? number + count : number;
}
//@end
//@if nmethod-body,nmethod-entry,nmethod-epilogue,native-wrapper,codelet,adapter,vtable-stub,runtime-stub,stub-routine,free-code

/* An address in one of these pieces of code: the number chooses both. */
static bool inside(const struct blob *all, int count, long number, word *value)
{
    if (count == 0)
        return false;
    long n = near(number, 1, 1 << 20);
    const struct blob *blob = &all[(n < 0 ? -n : n) % count];
    *value = blob->start + (word)(n * 0x9e3779b97f4a7c15) % (blob->end - blob->start);
    return true;
}
//@end
//@if stack-word

/* A word of the stack, counted from sp. */
static bool stack_word(struct walked *t, long number, word *value)
{
    return t->count > 0 && (*value = t->words[pick(number, t->count)], true);
}
//@end
//@if stack-slot

/* The address of a word of the stack, counted from sp. */
static bool stack_slot(struct walked *t, long number, word *value)
{
    return t->count > 0 && (*value = t->sp + 8 * pick(number, t->count), true);
}
//@end
//@if return-address

/* A word of the stack that is an address of code, counted from sp. */
static bool return_address(struct walked *t, long number, word *value)
{
    return t->code_count > 0 && (*value = t->words[t->code[pick(number, t->code_count)]], true);
}
//@end
//@if return-address-slot

/* The address of such a word. */
static bool return_address_slot(struct walked *t, long number, word *value)
{
    return t->code_count > 0 && (*value = t->sp + 8 * t->code[pick(number, t->code_count)], true);
}
//@end
//@if caller-fp

/* The word below such a word: where the caller's frame pointer is, if it is kept. */
static bool caller_fp(struct walked *t, long number, word *value)
{
    if (t->code_count == 0)
        return false;
    int at = t->code[pick(number, t->code_count)];
    return at > 0 && (*value = t->words[at - 1], true);
}
//@end
//@if nmethod-body

/* In compiled Java code. */
static bool nmethod_body(struct walked *t, long number, word *value)
{
    return inside(blobs[NMETHOD], blob_count[NMETHOD], number, value);
}
//@end
//@if nmethod-entry

/* In the first bytes of compiled Java code. */
static bool nmethod_entry(struct walked *t, long number, word *value)
{
    if (!inside(blobs[NMETHOD], blob_count[NMETHOD], number, value))
        return false;
    long n = pick(number, blob_count[NMETHOD]);
    *value = blobs[NMETHOD][n].start + (*value & 63);
    return true;
}
//@end
//@if nmethod-epilogue

/* Near the end of compiled Java code, where its frame is taken down. */
static bool nmethod_epilogue(struct walked *t, long number, word *value)
{
    if (!inside(blobs[NMETHOD], blob_count[NMETHOD], number, value))
        return false;
    long n = pick(number, blob_count[NMETHOD]);
    *value = blobs[NMETHOD][n].end - GRAIN - (*value & 63);
    return true;
}
//@end
//@if deopt-handler

static bool deopt_handler(struct walked *t, long number, word *value)
{
    return handler_count > 0 && (*value = handlers[pick(number, handler_count)].end, true);
}
//@end
//@if exception-handler

/* Between a method's instructions and its deoptimisation handler: the exception handler is there. */
static bool exception_handler(struct walked *t, long number, word *value)
{
    if (handler_count == 0)
        return false;
    struct blob *stubs = &handlers[pick(number, handler_count)];
    return stubs->end > stubs->start && (*value = stubs->start + near(0, 1, 1 << 20) % (stubs->end - stubs->start), true);
}
//@end
//@if native-wrapper

static bool native_wrapper(struct walked *t, long number, word *value)
{
    return inside(blobs[NATIVE_WRAPPER], blob_count[NATIVE_WRAPPER], number, value);
}
//@end
//@if codelet

static bool codelet(struct walked *t, long number, word *value)
{
    return inside(blobs[INTERPRETER], blob_count[INTERPRETER], number, value);
}
//@end
//@if adapter

static bool adapter(struct walked *t, long number, word *value)
{
    return inside(blobs[ADAPTER], blob_count[ADAPTER], number, value);
}
//@end
//@if vtable-stub

static bool vtable_stub(struct walked *t, long number, word *value)
{
    return inside(blobs[VTABLE_STUB], blob_count[VTABLE_STUB], number, value);
}
//@end
//@if runtime-stub

static bool runtime_stub(struct walked *t, long number, word *value)
{
    return inside(blobs[RUNTIME_STUB], blob_count[RUNTIME_STUB], number, value);
}
//@end
//@if stub-routine

static bool stub_routine(struct walked *t, long number, word *value)
{
    return inside(blobs[STUB_ROUTINE], blob_count[STUB_ROUTINE], number, value);
}
//@end
//@if free-code

/* Where a compiled method was before it was unloaded. */
static bool free_code(struct walked *t, long number, word *value)
{
    return inside(unloaded, unloaded_count, number, value);
}
//@end
//@if natural-pc,natural-sp,natural-fp

/* Which of the earlier samples of the same thread. */
static bool earlier(struct walked *t, long number, long *which)
{
    long kept = t->samples < 256 ? t->samples : 256;
    return kept > 0 && (*which = pick(number, kept), true);
}
//@end
//@if natural-pc

static bool natural_pc(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].pc, true);
}
//@end
//@if natural-sp

static bool natural_sp(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].sp, true);
}
//@end
//@if natural-fp

static bool natural_fp(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].fp, true);
}
//@end
//@if libjvm-text

/* In libjvm, not far from the walker. */
static bool libjvm_text(struct walked *t, long number, word *value)
{
    *value = (word)AsyncGetCallTrace + 64 * near(number % 1024, 1, 1024);
    return true;
}
//@end
//@if own-stack

/* In the walked thread's own stack. */
static bool own_stack(struct walked *t, long number, word *value)
{
    word used = t->stack_high - t->sp;
    *value = t->sp + (word)near(number, 1, 1 << 16) * 8 % used;
    return true;
}
//@end
//@if foreign-stack,red-zone,yellow-zone,reserved-zone

/* One of so many addresses, evenly spread from low to high, the first and the last among them; in any thread's range. */
static word spread(word low, word bytes, long number, int many)
{
    long step = bytes / (many - 1) * (number % many);
    return (low + (number % many == many - 1 ? bytes - 1 : (word)step)) & -(word)8;
}
//@end
//@if foreign-stack

/* In the used part of a walked thread's stack. */
static bool foreign_stack(struct walked *t, long number, word *value)
{
    long n = pick(number, 8 * thread_count);
    return *value = spread(threads[n / 8].stack_high - 4096, 4096, n, 8), true;
}
//@end
//@if red-zone,yellow-zone,reserved-zone

/*
 * From the low end of another Java thread's stack on: one page red zone, two pages yellow zone, one page reserved zone (HotSpot's defaults).
 * A fault in the thread's own zones HotSpot takes for a stack overflow of its Java code, and throws StackOverflowError out of the walk.
 */
static bool zone(struct walked *t, int page, int pages, long number, word *value)
{
    long n = pick(number, 3 * thread_count);
    *value = spread(threads[n / 3].stack_low + 4096 * page, 4096 * pages, n, 3);
    return &threads[n / 3] != t;
}
//@end
//@if red-zone

static bool red_zone(struct walked *t, long number, word *value) { return zone(t, 0, 1, number, value); }
//@end
//@if yellow-zone

static bool yellow_zone(struct walked *t, long number, word *value) { return zone(t, 1, 2, number, value); }
//@end
//@if reserved-zone

static bool reserved_zone(struct walked *t, long number, word *value) { return zone(t, 3, 1, number, value); }
//@end
//@if guard-pages

/* A page that nobody may touch, as the C library puts below a stack. */
static word guard_page;
static bool guard_pages(struct walked *t, long number, word *value)
{
    *value = guard_page + (word)near(number, 1, 1 << 10) * 8 % 4096;
    return true;
}
//@end
//@if heap

/* In the Java heap: at and behind an object. */
static word object;
static bool heap(struct walked *t, long number, word *value)
{
    *value = object + (word)near(number, 1, 1 << 10) * 8 % (1 << 16);
    return object != 0;
}
//@end
//@if metaspace

/* HotSpot's Method of some Java method. */
static bool metaspace(struct walked *t, long number, word *value)
{
    return method_count > 0 && (*value = metadata[pick(number, method_count)], true);
}
//@end
//@if unmapped

/* Where nothing is mapped. */
static word hole;
static bool unmapped(struct walked *t, long number, word *value)
{
    *value = hole + (word)near(number, 1, 1 << 10) * 8 % (1 << 20);
    return true;
}
//@end

/* The finding: {{PERTURBATION}}. False if this moment lacks what it needs, or pc is not where the finding's was. */
static bool edit(struct walked *t, ucontext_t *context)
{
{{EDITS}}
}

/* ------------ Sampling and walking ------------ */

enum { TURNS = {{TURNS}}, DEPTH = {{DEPTH}} };
static int last_words;
static volatile int walking; /* one thread at a time, and none any more once a walk has crashed */

/* What is about to be walked, into a file: the last line before the JVM dies. Safe in a signal handler, as fprintf is not. */
static char *put(char *at, const char *name, word value)
{
    while (*name)
        *at++ = *name++;
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static void tell(ucontext_t *sample, ucontext_t *context)
{
    char line[256], *at = put(line, "walk: pc=0x", PC);
    at = put(at, " sp=0x", SP);
    at = put(at, " fp=0x", FP);
    context = sample;
    at = put(at, "  as delivered: pc=0x", PC);
    at = put(at, " sp=0x", SP);
    at = put(at, " fp=0x", FP);
    *at++ = '\n';
    if (pwrite(last_words, line, at - line, 0) < 0)
        _exit(2);
}

static void look_at_stack(struct walked *t, ucontext_t *context)
{
    t->sp = SP;
    t->count = t->code_count = 0;
    for (word at = t->sp; at + 8 <= t->stack_high && t->count < 256; at += 8) {
        word value = *(word *)at;
        if (kind_at(value) > FREE_CODE)
            t->code[t->code_count++] = t->count;
        t->words[t->count++] = value;
    }
}

static void on_sigprof(int signal, siginfo_t *info, void *ucontext)
{
    int saved = errno;
    ucontext_t *context = ucontext;
    struct walked *t = threads;
    while (t < threads + thread_count && !pthread_equal(t->id, pthread_self()))
        t++;
    /* Only in Java code: elsewhere the walker ignores the registers. */
    if (t == threads + thread_count || kind_at(PC) <= FREE_CODE || (word)SP < t->stack_low || (word)SP >= t->stack_high)
        return;
    if (__atomic_exchange_n(&walking, 1, __ATOMIC_ACQUIRE))
        return;
    look_at_stack(t, context);
    for (turn = 0; turn < TURNS; turn++) {
        ucontext_t copy = *context;
        if (!edit(t, &copy))
            continue;
        tell(ucontext, &copy);
        static __thread struct frame frames[DEPTH + 1];
        struct trace trace = {t->jni, 0, frames};
        AsyncGetCallTrace(&trace, DEPTH, &copy);
    }
//@if natural-pc,natural-sp,natural-fp
    unsigned oldest = t->samples++ % 256;
    t->earlier[oldest].pc = PC, t->earlier[oldest].sp = SP, t->earlier[oldest].fp = FP;
//@end
    __atomic_store_n(&walking, 0, __ATOMIC_RELEASE);
    errno = saved;
}

static void *sample(void *unused)
{
    for (unsigned n = 0;; n++) {
        usleep(100);
        if (thread_count > 0)
            pthread_kill(threads[n % thread_count].id, SIGPROF);
    }
    return NULL;
}

/* ------------ Begin ------------ */

static void vm_init(jvmti_env env, void *jni, void *thread)
{
    int count;
    void **classes;
    if ((*env)->GetLoadedClasses(env, &count, &classes) == 0) {
        for (int i = 0; i < count; i++)
            class_prepare(env, jni, thread, classes[i]);
        (*env)->Deallocate(env, classes);
    }
    need((*env)->GenerateEvents(env, DYNAMIC_CODE_GENERATED) == 0, "stubs");
    need((*env)->GenerateEvents(env, COMPILED_METHOD_LOAD) == 0, "compiled methods");
//@if guard-pages
    guard_page = (word)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
//@end
//@if heap
    object = *(word *)thread & -(word)8; /* a JNI reference points to a reference */
//@end
//@if unmapped
    hole = (word)mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap((void *)hole, 1 << 20);
//@end
    struct sigaction action = {.sa_sigaction = on_sigprof, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    pthread_t sampler;
    need(pthread_create(&sampler, NULL, sample, NULL) == 0, "thread to sample with");
}

__attribute__((visibility("default"))) int Agent_OnLoad(void *vm, char *options, void *reserved)
{
    AsyncGetCallTrace = (void (*)(struct trace *, int, void *))dlsym(RTLD_DEFAULT, "AsyncGetCallTrace");
    need(AsyncGetCallTrace != NULL, "AsyncGetCallTrace in this JVM");
    last_words = open("last-words.txt", O_CREAT | O_TRUNC | O_WRONLY, 0644);
    need(last_words >= 0, "file last-words.txt");
    need((*(struct invoke_interface **)vm)->GetEnv(vm, (void **)&jvmti, 0x300b0000) == 0, "JVMTI 11");

    unsigned capabilities[4] = {1u << COMPILED_METHOD_EVENTS};
    need((*jvmti)->AddCapabilities(jvmti, capabilities) == 0, "events of compiled methods");
    void *callbacks[EVENTS] = {
        [VM_INIT - FIRST_EVENT] = vm_init,
        [THREAD_START - FIRST_EVENT] = thread_start,
        [CLASS_LOAD - FIRST_EVENT] = class_load,
        [CLASS_PREPARE - FIRST_EVENT] = class_prepare,
        [COMPILED_METHOD_LOAD - FIRST_EVENT] = compiled_method_load,
//@if free-code
        [COMPILED_METHOD_UNLOAD - FIRST_EVENT] = compiled_method_unload,
//@end
        [DYNAMIC_CODE_GENERATED - FIRST_EVENT] = dynamic_code_generated,
    };
    need((*jvmti)->SetEventCallbacks(jvmti, callbacks, sizeof callbacks) == 0, "callbacks");
    for (int event = FIRST_EVENT; event < FIRST_EVENT + EVENTS; event++)
        if (callbacks[event - FIRST_EVENT] != NULL)
            need((*jvmti)->SetEventNotificationMode(jvmti, 1, event, NULL) == 0, "events");
    return 0;
}
