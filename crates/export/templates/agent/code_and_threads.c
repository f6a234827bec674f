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

enum { MOST_WORDS = 1024 }; /* as many as were counted when the finding was made */

/* A walked thread, its stack, and the words above sp where it stands. */
struct walked {
    pthread_t id;
    void *jni;
    word stack_low, stack_high;
    word sp, words[MOST_WORDS];
    int count;
    int code[MOST_WORDS], code_count;
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

