/* A small profiler over the ASGST iterator: samples in SIGPROF handlers, and writes a flame graph when the JVM ends.
 *
 *   cc -std=c11 -O1 -shared -fPIC -I$JAVA_HOME/include -I$JAVA_HOME/include/linux -I$ASGST/include iterator_profiler.c \
 *      -o libiterator_profiler.so $LIB/libwalkfuzz_asgst_agent.so
 *   java -agentpath:$LIB/libwalkfuzz_asgst_agent.so -agentpath:$PWD/libiterator_profiler.so=output=flames.html ...
 *
 * Options: output=PATH (.html: a flame graph; else collapsed stacks; flames.html if not said), interval=MICROSECONDS of CPU time (1000).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jvmti.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "asgst_iterator.h"
#include "flames.h"

enum { MAX_DEPTH = 256, MAX_TRACES = 20000, MAX_NAME = 256 };

typedef struct {
  int frames; /* or what RunWithIterator answered */
  ASGST_Method methods[MAX_DEPTH];
} Trace;

static Trace traces[MAX_TRACES];
static atomic_int taken;
static atomic_int sampling;
static char output[1024] = "flames.html";
static long interval = 1000;

/* In the handler: takes the methods down. */
static void store(ASGST_Iterator *iterator, void *arg) {
  Trace *trace = arg;
  ASGST_Frame frame;
  int count = 0;
  while (count < MAX_DEPTH && ASGST_NextFrame(iterator, &frame) == 1) {
    trace->methods[count++] = frame.method;
  }
  trace->frames = count;
}

static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  int kept = errno;
  int index = atomic_load(&sampling) ? atomic_fetch_add(&taken, 1) : MAX_TRACES;
  if (index < MAX_TRACES) {
    int answer = ASGST_RunWithIterator(ucontext, 0, store, &traces[index]);
    if (answer != ASGST_JAVA_TRACE) {
      traces[index].frames = answer > 0 ? 0 : answer;
    }
  }
  errno = kept;
}

static void set_timer(long microseconds) {
  struct itimerval timer = {{microseconds / 1000000, microseconds % 1000000},
                            {microseconds / 1000000, microseconds % 1000000}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

/* "package/Class.method(descriptor)". Methods of unloaded classes have no name any more. */
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

static void write_flames(void) {
  static char names[MAX_DEPTH][2 * MAX_NAME + 1];
  static const char *stack[MAX_DEPTH];
  Flame root = {.name = "all"};
  int count = atomic_load(&taken), lost = 0, walked = 0;
  if (count > MAX_TRACES) {
    lost = count - MAX_TRACES;
    count = MAX_TRACES;
  }
  for (int i = 0; i < count; i++) {
    if (traces[i].frames <= 0) {
      continue;
    }
    walked++;
    for (int j = 0; j < traces[i].frames; j++) {
      name_of(traces[i].methods[j], names[j], sizeof names[j]);
      stack[j] = names[j];
    }
    flame_add(&root, stack, traces[i].frames);
  }
  int written = flame_write(&root, output, "ASGST iterator");
  fprintf(stderr, "iterator_profiler: %d of %d samples walked, %d lost, %s %s\n", walked, count + lost, lost,
          written ? "written to" : "cannot write", output);
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)env;
  (void)thread;
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
  write_flames();
}

static int parse(char *options) {
  for (char *option = strtok(options, ","); option != NULL; option = strtok(NULL, ",")) {
    if (strncmp(option, "output=", 7) == 0 && strlen(option + 7) < sizeof output) {
      strcpy(output, option + 7);
    } else if (strncmp(option, "interval=", 9) == 0 && atol(option + 9) > 0) {
      interval = atol(option + 9);
    } else {
      fprintf(stderr, "iterator_profiler: `%s` means nothing; there are output=PATH and interval=MICROSECONDS\n", option);
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
  jvmtiEventCallbacks callbacks = {.VMInit = vm_init, .VMDeath = vm_death};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
