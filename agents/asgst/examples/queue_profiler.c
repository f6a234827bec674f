/* A small profiler over the ASGST safepoint queue: enqueues in SIGPROF handlers, walks where the thread stands at a safepoint, and writes a flame graph when the
 * JVM ends.
 *
 *   cc -std=c11 -O1 -shared -fPIC -I$JAVA_HOME/include -I$JAVA_HOME/include/linux -I$ASGST/include queue_profiler.c \
 *      -o libqueue_profiler.so $LIB/libwalkfuzz_asgst_agent.so
 *   java -agentpath:$LIB/libwalkfuzz_asgst_agent.so -agentpath:$PWD/libqueue_profiler.so=output=flames.html ...
 *
 * Options: output=PATH (.html: a flame graph; else collapsed stacks; flames.html if not said), interval=MICROSECONDS of CPU time (1000).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jvmti.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "asgst_queue.h"
#include "flames.h"

/* Initial-exec: the first use of any other thread-local variable of a library allocates, which a signal handler must not. */
#define IN_HANDLERS _Thread_local __attribute__((tls_model("initial-exec")))

enum { MAX_DEPTH = 256, MAX_NAME = 256, QUEUE = 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Flame root = {.name = "all"};
static IN_HANDLERS ASGST_Queue *queue;
static atomic_long samples, full, failed;
static atomic_int sampling;
static char output[1024] = "flames.html";
static long interval = 1000;

/* "package/Class.method". */
static void name_of(ASGST_Method method, char *name, size_t room) {
  char method_name[MAX_NAME], class_name[MAX_NAME];
  ASGST_MethodInfo info = {.method_name = method_name, .method_name_length = MAX_NAME};
  ASGST_GetMethodInfo(method, &info);
  ASGST_ClassInfo class_info = {.class_name = class_name, .class_name_length = MAX_NAME};
  ASGST_GetClassInfo(info.klass, &class_info);
  if (info.klass == NULL) {
    snprintf(name, room, "[unloaded]");
  } else {
    snprintf(name, room, "%s.%s", class_name, method_name);
  }
}

/* At a safepoint: it may lock and allocate, which the tree does. */
static void on_element(ASGST_Iterator *iterator, void *queue_arg, void *enqueue_arg) {
  (void)queue_arg;
  (void)enqueue_arg;
  static char names[MAX_DEPTH][2 * MAX_NAME + 1];
  static const char *stack[MAX_DEPTH];
  ASGST_Frame frame;
  int count = 0;
  pthread_mutex_lock(&lock);
  while (count < MAX_DEPTH && ASGST_NextFrame(iterator, &frame) == 1) {
    name_of(frame.method, names[count], sizeof names[count]);
    stack[count] = names[count];
    count++;
  }
  if (count > 0) {
    flame_add(&root, stack, count);
  }
  pthread_mutex_unlock(&lock);
}

static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  int kept = errno;
  if (atomic_load(&sampling) && queue != NULL) {
    atomic_fetch_add(&samples, 1);
    int answer = ASGST_Enqueue(queue, ucontext, NULL);
    if (answer == ASGST_ENQUEUE_FULL_QUEUE) {
      atomic_fetch_add(&full, 1);
    } else if (answer <= 0) {
      atomic_fetch_add(&failed, 1);
    }
  }
  errno = kept;
}

static void set_timer(long microseconds) {
  struct itimerval timer = {{microseconds / 1000000, microseconds % 1000000},
                            {microseconds / 1000000, microseconds % 1000000}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void JNICALL thread_start(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)thread;
  if (queue == NULL) {
    queue = ASGST_RegisterQueue(env, QUEUE, 0, on_element, NULL);
  }
}

static void JNICALL thread_end(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)thread;
  ASGST_Queue *ended = queue;
  queue = NULL;
  ASGST_DeregisterQueue(env, ended);
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  if ((ASGST_Capabilities() & ASGST_REGISTER_QUEUE) == 0) {
    fprintf(stderr, "queue_profiler: this JVM has no safepoint queues\n");
    return;
  }
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_THREAD_START, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_THREAD_END, NULL);
  thread_start(jvmti, env, thread);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  atomic_store(&sampling, 1);
  set_timer(interval);
}

static void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *env) {
  (void)jvmti;
  (void)env;
  set_timer(0);
  atomic_store(&sampling, 0);
  WALKFUZZ_QueueCounts counts = {0};
  WALKFUZZ_QueueStatistics(NULL, &counts);
  pthread_mutex_lock(&lock);
  int written = flame_write(&root, output, "ASGST queue");
  pthread_mutex_unlock(&lock);
  fprintf(stderr, "queue_profiler: %ld samples, %ld walked: %ld as sampled, %ld biased; %ld full, %ld without a Java frame, %ld lost; %s %s\n",
          atomic_load(&samples), root.samples, (long)counts.unbiased, (long)(counts.biased_gone + counts.biased_unknown),
          atomic_load(&full), atomic_load(&failed), (long)(counts.lost_thread_end + counts.lost_deregistered),
          written ? "written to" : "cannot write", output);
}

static int parse(char *options) {
  for (char *option = strtok(options, ","); option != NULL; option = strtok(NULL, ",")) {
    if (strncmp(option, "output=", 7) == 0 && strlen(option + 7) < sizeof output) {
      strcpy(output, option + 7);
    } else if (strncmp(option, "interval=", 9) == 0 && atol(option + 9) > 0) {
      interval = atol(option + 9);
    } else {
      fprintf(stderr, "queue_profiler: `%s` means nothing; there are output=PATH and interval=MICROSECONDS\n", option);
      return 0;
    }
  }
  return 1;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  (void)reserved;
  jvmtiEnv *jvmti;
  if ((options != NULL && !parse(options)) || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  jvmtiEventCallbacks callbacks = {
      .VMInit = vm_init, .VMDeath = vm_death, .ThreadStart = thread_start, .ThreadEnd = thread_end};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
