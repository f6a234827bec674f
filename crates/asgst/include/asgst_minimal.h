/* ASGST, the minimal generation (2024), for any HotSpot from 11 on with walkfuzz's ASGST library loaded. See asgst_iterator.h for what "signal-safe" means. */
#ifndef ASGST_MINIMAL_H
#define ASGST_MINIMAL_H

#if defined(ASGST_ITERATOR_H) || defined(ASGST_JEP435_H)
#error "the generations of ASGST give the same names to different things: include one per source file"
#endif

#include <assert.h>
#include <jni.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define ASGST_CHECK(claim) static_assert(claim, #claim)
#else
#define ASGST_CHECK(claim) _Static_assert(claim, #claim)
#endif

/* What kind of Java frame. */
enum ASGST_FrameTypeId {
  ASGST_FRAME_JAVA = 1,         /* compiled or interpreted */
  ASGST_FRAME_JAVA_INLINED = 2, /* inlined into the compiled one below it */
  ASGST_FRAME_JAVA_NATIVE = 3   /* a native method */
};

/* What a walk may do at a safepoint. Neither is offered here: frames are given as they are on the stack. */
enum ASGST_Options {
  ASGST_RECONSTITUTE = 0x001,     /* reconstitute what is not on the stack */
  ASGST_WALK_LOOM_THREADS = 0x011 /* and walk into virtual threads */
};

enum ASGST_Error {
  ASGST_NO_JAVA_FRAME = 0,          /* no Java frame */
  ASGST_NO_CLASS_LOAD = -1,         /* the JVM has not started, or the library has not been loaded as an agent */
  ASGST_GC_ACTIVE = -2,             /* a collection runs; not given here, as a walk needs no heap */
  ASGST_UNKNOWN_NOT_JAVA = -3,      /* not in Java, and nothing can be told */
  ASGST_NOT_WALKABLE_NOT_JAVA = -4, /* not in Java, and the way back to it cannot be told */
  ASGST_UNKNOWN_JAVA = -5,          /* in Java, and the code says nothing */
  ASGST_NOT_WALKABLE_JAVA = -6,     /* in Java, and the frame says nothing */
  ASGST_UNKNOWN_STATE = -7,         /* a thread state that means nothing */
  ASGST_THREAD_EXIT = -8,           /* the thread is ending, or is none of Java's */
  ASGST_DEOPT = -9,                 /* deoptimisation; not given here */
  ASGST_SAFEPOINT = -10,            /* a safepoint; not given here */
  ASGST_UNSUPPORTED_OPTION = -11    /* an option that is unknown or not offered, or no callback */
};

typedef struct {
  void *pc; /* null for no frame */
  void *sp;
  void *fp;
} ASGST_Frame;

ASGST_CHECK(sizeof(ASGST_Frame) == 24);
ASGST_CHECK(offsetof(ASGST_Frame, sp) == 8 && offsetof(ASGST_Frame, fp) == 16);

typedef struct {
  uint8_t type;      /* ASGST_FrameTypeId */
  int comp_level;    /* 0 the interpreter, 1 to 3 C1, 4 C2, -1 none */
  int bci;           /* bytecode index, -3 if there is none */
  jmethodID method;  /* null if it has none (yet) */
  ASGST_Frame frame; /* inlined frames share it with the frame they are inlined into */
} ASGST_FrameInfo;

ASGST_CHECK(sizeof(ASGST_FrameInfo) == 48);
ASGST_CHECK(offsetof(ASGST_FrameInfo, comp_level) == 4 && offsetof(ASGST_FrameInfo, bci) == 8);
ASGST_CHECK(offsetof(ASGST_FrameInfo, method) == 16 && offsetof(ASGST_FrameInfo, frame) == 24);

/* Each returns 1 to go on; anything else ends the walk, and WalkStackFromFrame returns 1 all the same. */
typedef int (*ASGST_WalkStackJavaFrame)(ASGST_FrameInfo *frame, void *arg);
typedef int (*ASGST_WalkStackNonJavaFrame)(ASGST_Frame *frame, void *arg);

/* Walks the calling thread's stack from a frame. 1, or an error: then the walk stopped where it says, perhaps after some frames. A null callback is not called.
 * Signal-safe for any frame if the callbacks are. */
int ASGST_WalkStackFromFrame(ASGST_Frame frame, ASGST_WalkStackJavaFrame java, ASGST_WalkStackNonJavaFrame non_java, void *arg, int options);

/* Whether the frame's pc is in code of the code cache: 1 or 0. Signal-safe. */
int ASGST_IsJavaFrame(ASGST_Frame frame);

/* The frame of a context, or of the calling thread's last Java frame if it is null. With `focus_on_java` the innermost Java frame of the context.
 * pc is null if there is none. Signal-safe. */
ASGST_Frame ASGST_GetFrame(void *ucontext, bool focus_on_java);

/* Called on each thread at the safepoint that it asked for with TriggerSafePoint. Signal-safe. */
typedef void (*ASGST_SafepointCallback)(void *arg);
void ASGST_SetSafepointCallback(ASGST_SafepointCallback callback, void *arg);
void ASGST_GetSafepointCallback(ASGST_SafepointCallback *callback, void **arg);
void ASGST_TriggerSafePoint(void);

/* At a safepoint: the frame with which a walk of the calling thread has to begin, so that it gives what stood on the stack when `captured` was taken there: the
 * captured one while its method has not returned, else the innermost frame above where it stood. pc is null if none does. Signal-safe. */
ASGST_Frame ASGST_ComputeTopFrameAtSafepoint(ASGST_Frame captured);

#ifdef __cplusplus
}
#endif

#endif
