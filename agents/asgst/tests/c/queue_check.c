/* A client of the safepoint queue that compares what is delivered with what AsyncGetCallTrace said in the handler, and measures.
 *
 * Options: MICROSECONDS between two samples of a thread (of wall clock below 4000, else of its CPU time), a comma, the file that its figures go to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <jvmti.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "asgst_queue.h"

/* Initial-exec: the first use of any other thread-local variable of a library allocates, which a signal handler must not. */
#define IN_HANDLERS _Thread_local __attribute__((tls_model("initial-exec")))

enum { MAX_DEPTH = 512, MAX_REQUESTS = 400000, RING = 64, QUEUE = 32 };

typedef struct {
  jint lineno;
  jmethodID method;
} Frame;

typedef struct {
  JNIEnv *env;
  jint count;
  Frame *frames;
} Trace;

/* One request: what was true of it. */
typedef struct {
  long enqueued; /* ns */
  int count;
  int in_java;
  Frame frames[MAX_DEPTH];
} Truth;

typedef struct {
  ASGST_Queue *queue;
  JNIEnv *env;
  timer_t timer;
  unsigned next;
  int last; /* the number of the last element that was delivered */
  Truth truths[RING];
} Thread;

static IN_HANDLERS Thread *own;
static void (*agct)(Trace *, jint, void *);
static long interval;
static char output[1024];
static atomic_int sampling;
static atomic_long samples, in_java, accepted, full, failed, delivered, unbiased, gone, unknown, equal, unordered;
static unsigned latencies[MAX_REQUESTS], costs[MAX_REQUESTS];
static atomic_int latency_count, cost_count;

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void note(unsigned *list, atomic_int *count, long value) {
  int index = atomic_fetch_add(count, 1);
  if (index < MAX_REQUESTS) {
    list[index] = value > 4000000000L ? 4000000000U : (unsigned)value;
  }
}

static void on_element(ASGST_Iterator *iterator, void *queue_arg, void *enqueue_arg) {
  Thread *thread = queue_arg;
  Truth *truth = &thread->truths[(unsigned long)enqueue_arg % RING];
  long time = now();
  atomic_fetch_add(&delivered, 1);
  if ((int)(unsigned long)enqueue_arg <= thread->last) {
    atomic_fetch_add(&unordered, 1);
  }
  thread->last = (int)(unsigned long)enqueue_arg;
  if (!truth->in_java) {
    return;
  }
  note(latencies, &latency_count, time - truth->enqueued);
  int outcome = WALKFUZZ_QueueOutcome(thread->queue);
  atomic_fetch_add(outcome == WALKFUZZ_UNBIASED ? &unbiased : outcome == WALKFUZZ_BIASED_GONE ? &gone : &unknown, 1);
  if (outcome != WALKFUZZ_UNBIASED) {
    return;
  }
  ASGST_Frame frame;
  int count = 0, same = 1;
  while (count < MAX_DEPTH && ASGST_NextFrame(iterator, &frame) == 1) {
    if (count < truth->count && ASGST_MethodToJMethodID(frame.method) != truth->frames[count].method) {
      same = 0;
    }
    count++;
  }
  atomic_fetch_add(&equal, same && count == truth->count);
}

/* In Java: pc is in no library. Good enough for a test. */
static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  Thread *thread = own;
  if (thread == NULL || !atomic_load(&sampling)) {
    return;
  }
  int kept = errno;
  atomic_fetch_add(&samples, 1);
  Truth *truth = &thread->truths[(thread->next + 1) % RING];
  Trace trace = {thread->env, 0, truth->frames};
  truth->count = 0;
  ASGST_QueueElement element;
  int is_java = ASGST_GetEnqueuableElement(ucontext, &element) == ASGST_JAVA_TRACE &&
                element.pc == (void *)((ucontext_t *)ucontext)->uc_mcontext.
#if defined(__x86_64__)
                                  gregs[REG_RIP];
#else
                                  pc;
#endif
  agct(&trace, MAX_DEPTH, ucontext);
  if (trace.count > 0) {
    truth->count = trace.count;
  }
  truth->in_java = is_java && trace.count > 0;
  atomic_fetch_add(&in_java, truth->in_java);
  long before = now();
  truth->enqueued = before;
  int answer = ASGST_Enqueue(thread->queue, ucontext, (void *)(unsigned long)(thread->next + 1));
  long after = now();
  if (answer == ASGST_JAVA_TRACE) {
    thread->next++;
    truth->enqueued = after;
    atomic_fetch_add(&accepted, truth->in_java);
    note(costs, &cost_count, after - before);
  } else {
    atomic_fetch_add(answer == ASGST_ENQUEUE_FULL_QUEUE ? &full : &failed, truth->in_java);
  }
  errno = kept;
}

static void JNICALL thread_start(jvmtiEnv *jvmti, JNIEnv *env, jthread jthread) {
  (void)jthread;
  (void)jvmti;
  if (own != NULL) {
    return;
  }
  Thread *thread = calloc(1, sizeof *thread);
  thread->env = env;
  thread->queue = ASGST_RegisterQueue(env, QUEUE, 0, on_element, thread);
  if (thread->queue == NULL) {
    fprintf(stderr, "queue_check: no queue\n");
    exit(3);
  }
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  event._sigev_un._tid = (int)syscall(SYS_gettid);
  timer_create(interval < 4000 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &event, &thread->timer);
  own = thread;
  struct itimerspec every = {{interval / 1000000, interval % 1000000 * 1000}, {0, interval * 1000}};
  timer_settime(thread->timer, 0, &every, NULL);
}

static void JNICALL thread_end(jvmtiEnv *jvmti, JNIEnv *env, jthread jthread) {
  (void)jvmti;
  (void)jthread;
  Thread *thread = own;
  own = NULL;
  if (thread != NULL) {
    timer_delete(thread->timer);
    ASGST_DeregisterQueue(env, thread->queue);
  }
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread jthread) {
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_THREAD_START, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_THREAD_END, NULL);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  thread_start(jvmti, env, jthread);
  atomic_store(&sampling, 1);
}

static int compare(const void *a, const void *b) {
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return x < y ? -1 : x > y;
}

static unsigned quantile(unsigned *list, int count, double q) {
  count = count > MAX_REQUESTS ? MAX_REQUESTS : count;
  qsort(list, (size_t)count, sizeof *list, compare);
  return count == 0 ? 0 : list[(int)(q * (count - 1))];
}

static void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *env) {
  (void)jvmti;
  (void)env;
  atomic_store(&sampling, 0);
  WALKFUZZ_QueueCounts counts = {0};
  WALKFUZZ_QueueStatistics(NULL, &counts);
  FILE *out = fopen(output, "w");
  if (out == NULL) {
    return;
  }
  struct {
    const char *name;
    long value;
  } figures[] = {
      {"samples", samples},
      {"in_java", in_java},
      {"accepted", accepted},
      {"full", full},
      {"failed", failed},
      {"delivered", delivered},
      {"unbiased", unbiased},
      {"gone", gone},
      {"unknown", unknown},
      {"equal", equal},
      {"unordered", unordered},
      {"enqueued", (long)counts.enqueued},
      {"all_unbiased", (long)counts.unbiased},
      {"all_gone", (long)counts.biased_gone},
      {"all_unknown", (long)counts.biased_unknown},
      {"lost_thread_end", (long)counts.lost_thread_end},
      {"lost_deregistered", (long)counts.lost_deregistered},
      {"latency_p50", quantile(latencies, latency_count, 0.5)},
      {"latency_p99", quantile(latencies, latency_count, 0.99)},
      {"enqueue_p50", quantile(costs, cost_count, 0.5)},
      {"enqueue_p99", quantile(costs, cost_count, 0.99)},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    fprintf(out, "%s %ld\n", figures[i].name, figures[i].value);
  }
  fclose(out);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  (void)reserved;
  jvmtiEnv *jvmti;
  const char *comma = options == NULL ? NULL : strchr(options, ',');
  if (comma == NULL || strlen(comma + 1) >= sizeof output) {
    return JNI_ERR;
  }
  interval = atol(options);
  strcpy(output, comma + 1);
  agct = (void (*)(Trace *, jint, void *))dlsym(RTLD_DEFAULT, "AsyncGetCallTrace");
  if (agct == NULL || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  jvmtiEventCallbacks callbacks = {
      .VMInit = vm_init, .VMDeath = vm_death, .ThreadStart = thread_start, .ThreadEnd = thread_end};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
