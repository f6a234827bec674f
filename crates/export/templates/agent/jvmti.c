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

