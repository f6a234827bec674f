/* An agent that counts unloaded classes of the name Apart, with the method `answer`; other classes' handles have names, too.
 *
 * Option: the path that the figures are written to.
 */
#define _GNU_SOURCE
#include <jvmti.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "asgst_iterator.h"

static char path[1024];
static atomic_long told, named, apart, with_method, arguments_wrong, deregistered, unknown_deregistered;

static void on_unload(ASGST_Class klass, ASGST_Method *methods, int count, bool redefined, void *arg) {
  char name[256], method_name[256];
  ASGST_ClassInfo info = {.class_name = name, .class_name_length = sizeof name};
  ASGST_GetClassInfo(klass, &info);
  told++;
  named += name[0] != 0;
  if (redefined || arg != path) {
    arguments_wrong++;
  }
  if (strcmp(name, "Apart") != 0) {
    return;
  }
  apart++;
  for (int i = 0; i < count; i++) {
    ASGST_MethodInfo method = {.method_name = method_name, .method_name_length = sizeof method_name};
    ASGST_GetMethodInfo(methods[i], &method);
    with_method += strcmp(method_name, "answer") == 0 && method.klass == klass;
  }
}

static void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)env;
  (void)thread;
  ASGST_RegisterClassUnloadHandler(NULL, NULL);
  ASGST_RegisterClassUnloadHandler(on_unload, path);
}

static void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *env) {
  (void)jvmti;
  (void)env;
  /* The handlers' thread may lag behind. */
  for (int i = 0; i < 300 && apart < 10; i++) {
    usleep(10000);
  }
  unknown_deregistered = ASGST_DeregisterClassUnloadHandler(on_unload, NULL) || ASGST_DeregisterClassUnloadHandler(NULL, NULL);
  deregistered = ASGST_DeregisterClassUnloadHandler(on_unload, path) && !ASGST_DeregisterClassUnloadHandler(on_unload, path);
  FILE *out = fopen(path, "w");
  fprintf(out, "told %ld\nnamed %ld\napart %ld\nwith_method %ld\narguments_wrong %ld\nderegistered %ld\nunknown_deregistered %ld\n",
          told, named, apart, with_method, arguments_wrong, deregistered, unknown_deregistered);
  fclose(out);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  jvmtiEnv *jvmti;
  (void)reserved;
  if (options == NULL || strlen(options) >= sizeof path ||
      (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  strcpy(path, options);
  jvmtiEventCallbacks callbacks = {.VMInit = vm_init, .VMDeath = vm_death};
  (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof callbacks);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
  (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, NULL);
  return JNI_OK;
}
