/* What the parts of the client share. Each part includes another generation's header, so they are files of their own. */
#ifndef CHECK_H
#define CHECK_H

#include <jvmti.h>
#include <stdatomic.h>

enum { CHECK_DEPTH = 512 };

/* AsyncGetCallTrace's. */
typedef struct {
  jint bci;
  jmethodID method;
} AgctFrame;

typedef struct {
  JNIEnv *env;
  jint count;
  AgctFrame *frames;
} AgctTrace;

typedef void (*Agct)(AgctTrace *, jint, void *);

/* Figures by name; they are written as lines of "name value". */
#define CHECK_COUNT(name) \
  static atomic_long name##_count; \
  static void name(void) { atomic_fetch_add(&name##_count, 1); }
#define CHECK_PRINT(out, name) fprintf(out, #name " %ld\n", atomic_load(&name##_count))

/* Each part: in the SIGPROF handler of a Java thread, with what AsyncGetCallTrace said at the same context; then what it counted. */
void iterator_signal(void *ucontext, const AgctTrace *agct);
void iterator_finish(FILE *out);
void methods_seen(const AgctTrace *agct);
void methods_finish(FILE *out, jvmtiEnv *jvmti, JNIEnv *env);
void jep435_signal(void *ucontext, const AgctTrace *agct);
void jep435_other(void *ucontext);
void jep435_finish(FILE *out);
void minimal_signal(void *ucontext, const AgctTrace *agct);
void minimal_finish(FILE *out);

#endif
