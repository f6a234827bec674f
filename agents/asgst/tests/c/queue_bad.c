/* A client that uses the safepoint queue wrongly, and to its limits.
 *
 * Option: the file that its figures go to: `checks` that were made, `wrong` ones, and how far it got. Each wrong one is said on standard error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jvmti.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "asgst_queue.h"

/* Initial-exec: the first use of any other thread-local variable of a library allocates, which a signal handler must not. */
#define IN_HANDLERS _Thread_local __attribute__((tls_model("initial-exec")))

enum { SMALL = 3, ROUNDS = 6 };

static char output[1024];
static atomic_long checks, wrong, rounds, handled, around, last_of_own;
static IN_HANDLERS ASGST_Queue *small, *own_end;
static IN_HANDLERS long expected;
static IN_HANDLERS int round_number;
static IN_HANDLERS JNIEnv *own_env;

#define CHECK(claim)                                                      \
  do {                                                                    \
    atomic_fetch_add(&checks, 1);                                         \
    if (!(claim)) {                                                       \
      atomic_fetch_add(&wrong, 1);                                        \
      dprintf(2, "queue_bad.c:%d: not so: %s\n", __LINE__, #claim);       \
    }                                                                     \
  } while (0)

static ASGST_Queue *number(unsigned long value) { return (ASGST_Queue *)value; }

static void nothing(ASGST_Iterator *iterator, void *queue_arg, void *arg) {
  (void)iterator;
  (void)queue_arg;
  (void)arg;
}

/* Three elements, in their order; what is wrong in a handler is refused or put right. */
static void on_small(ASGST_Iterator *iterator, void *queue_arg, void *arg) {
  CHECK(queue_arg == &output);
  CHECK((long)arg == expected || (long)arg == 100 + expected);
  expected = (expected + 1) % SMALL;
  atomic_fetch_add(&handled, 1);
  ASGST_Frame frame;
  CHECK(iterator == NULL || ASGST_NextFrame(iterator, &frame) == 1);
  ucontext_t context;
  memset(&context, 0, sizeof context);
  CHECK(ASGST_Enqueue(small, &context, NULL) == ASGST_ENQUEUE_OTHER_ERROR);
  CHECK(WALKFUZZ_QueueOutcome(small) != 0);
  ASGST_Queue *more = ASGST_RegisterQueue(own_env, 1, 0, nothing, NULL);
  CHECK(more != NULL);
  CHECK(ASGST_DeregisterQueue(own_env, more));
  if (round_number == 2 && expected == 1) {
    /* Not allowed; neither the exception nor the state of the thread may stay. */
    (*own_env)->ThrowNew(own_env, (*own_env)->FindClass(own_env, "java/lang/Error"), "thrown in a handler");
  }
  if (round_number == 3 && expected == 1) {
    usleep(200000);
  }
}

/* Ends its own queue with the first element. */
static void on_own_end(ASGST_Iterator *iterator, void *queue_arg, void *arg) {
  (void)iterator;
  (void)queue_arg;
  (void)arg;
  atomic_fetch_add(&last_of_own, 1);
  CHECK(ASGST_DeregisterQueue(own_env, own_end));
  CHECK(!ASGST_DeregisterQueue(own_env, own_end));
  CHECK(ASGST_GetQueueElement(own_end, 0) == NULL);
}

static void on_around(ASGST_Queue *queue, ASGST_Iterator *iterator, void *arg) {
  CHECK(queue == small && iterator != NULL && arg == &around);
  ASGST_Frame frame;
  CHECK(ASGST_NextFrame(iterator, &frame) == 1);
  atomic_fetch_add(&around, 1);
}

static void no_queue(ASGST_Queue *queue, void *ucontext) {
  CHECK(ASGST_Enqueue(queue, ucontext, NULL) == ASGST_ENQUEUE_NO_QUEUE);
  CHECK(ASGST_GetQueueElement(queue, 0) == NULL);
  CHECK(ASGST_GetQueueSizeInfo(queue).capacity == 0);
  ASGST_ResizeQueue(queue, 5);
}

static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  ASGST_QueueElement here;
  /* Looking at what waits arms the thread again. */
  if (small == NULL || ASGST_GetQueueSizeInfo(small).size > 0 || round_number >= ROUNDS ||
      ASGST_GetEnqueuableElement(ucontext, &here) != ASGST_JAVA_TRACE) {
    return;
  }
  int kept = errno;
  /* No queues, no contexts. */
  no_queue(NULL, ucontext);
  no_queue(number(1), ucontext);
  no_queue(number((unsigned long)small | 1), ucontext);
  no_queue(number((unsigned long)small + 8), ucontext);
  no_queue(number((unsigned long)small + (1UL << 16)), ucontext);
  no_queue((ASGST_Queue *)&here, ucontext);
  CHECK(ASGST_Enqueue(small, NULL, NULL) == ASGST_ENQUEUE_OTHER_ERROR);
  CHECK(ASGST_Enqueue(small, (char *)ucontext + 1, NULL) == ASGST_ENQUEUE_OTHER_ERROR);
  CHECK(ASGST_Enqueue(small, (void *)8, NULL) == ASGST_ENQUEUE_OTHER_ERROR);
  CHECK(ASGST_GetEnqueuableElement(ucontext, NULL) == ASGST_ENQUEUE_OTHER_ERROR);
  CHECK(ASGST_GetEnqueuableElement(NULL, &here) == ASGST_ENQUEUE_OTHER_ERROR);
  /* As many as it holds, and no more. */
  int capacity = ASGST_GetQueueSizeInfo(small).capacity;
  int answer = 0;
  for (long i = 0; i < SMALL; i++) {
    answer = ASGST_Enqueue(small, ucontext, (void *)i);
    CHECK(answer == ASGST_JAVA_TRACE);
    CHECK(ASGST_GetQueueSizeInfo(small).size == i + 1);
    ASGST_QueueElement *youngest = ASGST_GetQueueElement(small, -1);
    CHECK(youngest != NULL && youngest == ASGST_GetQueueElement(small, (int)i) && youngest->arg == (void *)i);
    CHECK(youngest != NULL && youngest->pc == here.pc && youngest->sp == here.sp && youngest->fp == here.fp);
  }
  CHECK(capacity != SMALL || ASGST_Enqueue(small, ucontext, NULL) == ASGST_ENQUEUE_FULL_QUEUE);
  CHECK(ASGST_GetQueueSizeInfo(small).attempts >= SMALL);
  CHECK(ASGST_GetQueueElement(small, SMALL) == NULL && ASGST_GetQueueElement(small, -SMALL - 1) == NULL);
  CHECK(ASGST_GetQueueElement(small, INT_MAX) == NULL && ASGST_GetQueueElement(small, INT_MIN) == NULL);
  CHECK((char *)ASGST_GetQueueElement(small, 0) != NULL);
  ASGST_GetQueueElement(small, 0)->arg = (void *)(100 + (long)ASGST_GetQueueElement(small, 0)->arg);
  if (round_number == 0) {
    for (int i = 0; i < 2; i++) {
      CHECK(ASGST_Enqueue(own_end, ucontext, NULL) == ASGST_JAVA_TRACE);
    }
  }
  /* Wrong sizes change nothing; another one does at the next safepoint. */
  ASGST_ResizeQueue(small, round_number % 2 == 0 ? SMALL + 1 : SMALL);
  ASGST_ResizeQueue(small, 0);
  ASGST_ResizeQueue(small, -1);
  ASGST_ResizeQueue(small, INT_MAX);
  CHECK(capacity == (round_number % 2 == 0 ? SMALL : SMALL + 1));
  round_number++;
  atomic_fetch_add(&rounds, 1);
  errno = kept;
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)thread;
  CHECK(ASGST_Capabilities() == ASGST_REGISTER_QUEUE);
  static const int sizes[] = {0, -1, INT_MIN, INT_MAX, ASGST_MOST_ELEMENTS + 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK(ASGST_RegisterQueue(env, sizes[i], 0, nothing, NULL) == NULL);
  }
  CHECK(ASGST_RegisterQueue(env, 1, 0, NULL, NULL) == NULL);
  CHECK(ASGST_RegisterQueue(env, 1, 64, nothing, NULL) == NULL);
  CHECK(ASGST_RegisterQueue(NULL, 1, 0, nothing, NULL) == NULL);
  CHECK(ASGST_RegisterQueue((JNIEnv *)((char *)env + 1), 1, 0, nothing, NULL) == NULL);
  CHECK(ASGST_RegisterQueue((JNIEnv *)output, 1, 0, nothing, NULL) == NULL);
  ASGST_Queue *most = ASGST_RegisterQueue(env, ASGST_MOST_ELEMENTS, 0, nothing, NULL);
  CHECK(most != NULL && ASGST_GetQueueSizeInfo(most).capacity == ASGST_MOST_ELEMENTS);
  CHECK(ASGST_DeregisterQueue(env, most));
  CHECK(!ASGST_DeregisterQueue(env, most));
  CHECK(!ASGST_DeregisterQueue(env, NULL));
  CHECK(!WALKFUZZ_QueueStatistics(most, NULL) && WALKFUZZ_QueueStatistics(NULL, NULL));
  CHECK(ASGST_RegisterFrameMark(env, NULL, 0, NULL) == NULL && ASGST_GetFrameMarkStackPointer(NULL) == NULL);
  ASGST_MoveFrameMark(NULL, NULL);
  ASGST_RemoveFrameMark(NULL);
  own_env = env;
  own_end = ASGST_RegisterQueue(env, 2, 0, on_own_end, NULL);
  small = ASGST_RegisterQueue(env, SMALL, 0, on_small, &output);
  CHECK(own_end != NULL && small != NULL && ASGST_GetQueueSizeInfo(small).capacity == SMALL);
  ASGST_SetOnQueueProcessingStart(small, 0, true, on_around, &around);
  ASGST_SetOnQueueProcessingEnd(small, 0, true, on_around, &around);
  ASGST_SetOnQueueProcessingStart(NULL, 0, true, on_around, &around);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  struct itimerval timer = {{0, 4000}, {0, 4000}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *env) {
  (void)jvmti;
  (void)env;
  struct itimerval timer = {0};
  setitimer(ITIMER_PROF, &timer, NULL);
  WALKFUZZ_QueueCounts counts = {0};
  WALKFUZZ_QueueStatistics(NULL, &counts);
  FILE *out = fopen(output, "w");
  if (out != NULL) {
    fprintf(out, "checks %ld\nwrong %ld\nrounds %ld\nhandled %ld\naround %ld\nlast_of_own %ld\nlost_deregistered %ld\n", checks, wrong,
            rounds, handled, around, last_of_own, (long)counts.lost_deregistered);
    fclose(out);
  }
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  (void)reserved;
  jvmtiEnv *jvmti;
  if (options == NULL || strlen(options) >= sizeof output || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  strcpy(output, options);
  jvmtiEventCallbacks callbacks = {.VMInit = vm_init, .VMDeath = vm_death};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
