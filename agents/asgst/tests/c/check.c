/* A client of every function, for the tests: an agent that samples with SIGPROF, asks AsyncGetCallTrace and ASGST at the same context, and counts what agrees.
 *
 * Option: the path that the figures are written to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "check.h"

static JavaVM *java_vm;
static Agct agct;
static char path[1024];
static atomic_int running;
static pthread_t other;
static sem_t wanted;
/* A context whose thread waits in its handler, for the thread that walks it from outside. */
static _Atomic(void *) offered;
static atomic_int released;

CHECK_COUNT(signals)

/* Every so often a thread is walked from another one. */
enum { OFFER_EVERY = 8 };

static void *walk_others(void *arg) {
  (void)arg;
  while (sem_wait(&wanted) == 0 || errno == EINTR) {
    void *ucontext = atomic_exchange(&offered, NULL);
    if (ucontext != NULL) {
      jep435_other(ucontext);
      atomic_store(&released, 1);
    } else if (!atomic_load(&running)) {
      break;
    }
  }
  return NULL;
}

static void offer(void *ucontext) {
  void *none = NULL;
  atomic_store(&released, 0);
  if (atomic_compare_exchange_strong(&offered, &none, ucontext)) {
    sem_post(&wanted);
    while (!atomic_load(&released)) {
      sched_yield();
    }
  }
}

static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  static __thread AgctFrame frames[CHECK_DEPTH];
  static atomic_flag busy = ATOMIC_FLAG_INIT;
  int kept = errno;
  JNIEnv *env = NULL;
  (void)signal;
  (void)info;
  /* One thread at a time: the parts keep what they see in static memory. */
  if (atomic_load(&running) && !atomic_flag_test_and_set(&busy)) {
    if ((*java_vm)->GetEnv(java_vm, (void **)&env, JNI_VERSION_1_6) == JNI_OK) {
      AgctTrace trace = {env, 0, frames};
      signals();
      agct(&trace, CHECK_DEPTH, ucontext);
      iterator_signal(ucontext, &trace);
      methods_seen(&trace);
      jep435_signal(ucontext, &trace);
      minimal_signal(ucontext, &trace);
      if (atomic_load(&signals_count) % OFFER_EVERY == 0) {
        offer(ucontext);
      }
    }
    atomic_flag_clear(&busy);
  }
  errno = kept;
}

static void set_timer(long microseconds) {
  struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_PROF, &timer, NULL);
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  sigset_t signals_of_others, kept;
  (void)jvmti;
  (void)env;
  (void)thread;
  agct = (Agct)dlsym(RTLD_DEFAULT, "AsyncGetCallTrace");
  if (agct == NULL) {
    Dl_info info;
    dladdr((void *)(*java_vm)->GetEnv, &info);
    agct = (Agct)dlsym(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD), "AsyncGetCallTrace");
  }
  sem_init(&wanted, 0, 0);
  atomic_store(&running, 1);
  sigfillset(&signals_of_others);
  pthread_sigmask(SIG_SETMASK, &signals_of_others, &kept);
  pthread_create(&other, NULL, walk_others, NULL);
  pthread_sigmask(SIG_SETMASK, &kept, NULL);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGPROF, &action, NULL);
  set_timer(1000);
}

static void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *env) {
  set_timer(0);
  atomic_store(&running, 0);
  sem_post(&wanted);
  pthread_join(other, NULL);
  FILE *out = fopen(path, "w");
  CHECK_PRINT(out, signals);
  iterator_finish(out);
  methods_finish(out, jvmti, env);
  jep435_finish(out);
  minimal_finish(out);
  fclose(out);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  jvmtiEnv *jvmti;
  (void)reserved;
  java_vm = vm;
  if (options == NULL || strlen(options) >= sizeof path ||
      (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  strcpy(path, options);
  jvmtiCapabilities capabilities = {.can_get_line_numbers = 1};
  (*jvmti)->AddCapabilities(jvmti, &capabilities);
  jvmtiEventCallbacks callbacks = {.VMInit = vm_init, .VMDeath = vm_death};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
