/* A client of the minimal generation's safepoint callbacks.
 *
 * Option: the file that its figures go to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jvmti.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "asgst_minimal.h"

/* Initial-exec: the first use of any other thread-local variable of a library allocates, which a signal handler must not. */
#define IN_HANDLERS _Thread_local __attribute__((tls_model("initial-exec")))

static char output[1024];
static atomic_long triggered, called, kept_wrong, elsewhere;
static IN_HANDLERS int waits;

/* At a safepoint: it may allocate. */
static void at_safepoint(void *arg) {
  char *some = malloc(1000);
  atomic_fetch_add(arg == output && some != NULL ? &called : &kept_wrong, 1);
  atomic_fetch_add(&elsewhere, !waits);
  waits = 0;
  free(some);
}

static void on_signal(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  int kept = errno;
  if (waits) {
    /* The JVM may have taken the first request back. */
    ASGST_TriggerSafePoint();
  } else if (ASGST_GetFrame(ucontext, true).pc != NULL) {
    waits = 1;
    atomic_fetch_add(&triggered, 1);
    ASGST_TriggerSafePoint();
    ASGST_TriggerSafePoint();
  }
  errno = kept;
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)env;
  (void)thread;
  ASGST_SafepointCallback callback = at_safepoint;
  void *arg = output;
  ASGST_GetSafepointCallback(&callback, &arg);
  atomic_fetch_add(&kept_wrong, callback != NULL || arg != NULL);
  ASGST_SetSafepointCallback(at_safepoint, output);
  ASGST_GetSafepointCallback(&callback, &arg);
  atomic_fetch_add(&kept_wrong, callback != at_safepoint || arg != output);
  ASGST_GetSafepointCallback(NULL, NULL);
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
  FILE *out = fopen(output, "w");
  if (out != NULL) {
    fprintf(out, "triggered %ld\ncalled %ld\nkept_wrong %ld\nelsewhere %ld\n", triggered, called, kept_wrong, elsewhere);
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
