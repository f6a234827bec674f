/* ------------ Sampling and walking ------------ */

enum { TURNS = {{TURNS}}, DEPTH = {{DEPTH}} };
static int last_words;
static bool exact; /* the finding's own numbers alone */
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
    for (word at = t->sp; at + 8 <= t->stack_high && t->count < MOST_WORDS; at += 8) {
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
    for (turn = 0; turn < (exact ? 1 : TURNS); turn++) {
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
    exact = options != NULL && strcmp(options, "exact") == 0;
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
