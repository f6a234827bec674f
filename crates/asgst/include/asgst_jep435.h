/* ASGST as JEP 435 has it, in both of its binary forms, for any HotSpot from 11 on with walkfuzz's ASGST library loaded.
 *
 * AsyncGetStackTrace is the late form. The early one, whose struct is shorter and whose numbers differ, is AsyncGetStackTrace_early; its names end in EARLY.
 * See asgst_iterator.h for what "signal-safe" means.
 */
#ifndef ASGST_JEP435_H
#define ASGST_JEP435_H

#if defined(ASGST_ITERATOR_H) || defined(ASGST_MINIMAL_H)
#error "the generations of ASGST give the same names to different things: include one per source file"
#endif

#include <assert.h>
#include <jni.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define ASGST_CHECK(claim) static_assert(claim, #claim)
#else
#define ASGST_CHECK(claim) _Static_assert(claim, #claim)
#endif

/* Bits; the early form has the first two, walks the calling thread, and ignores the others. */
enum ASGST_Options {
  ASGST_INCLUDE_C_FRAMES = 1,          /* frames of C, C++ and stubs as well */
  ASGST_INCLUDE_NON_JAVA_THREADS = 2,  /* walk threads that are no Java threads (C frames) */
  ASGST_WALK_DURING_UNSAFE_STATES = 4, /* walk threads on their way into a safepoint, and new ones */
  ASGST_WALK_SAME_THREAD = 8           /* the context is the calling thread's */
};

enum ASGST_Error {
  ASGST_NO_JAVA_FRAME = 0,
  ASGST_NO_CLASS_LOAD = -1,         /* the JVM has not started, or the library has not been loaded as an agent */
  ASGST_GC_ACTIVE = -2,             /* a collection runs; not given here, as a walk needs no heap */
  ASGST_UNKNOWN_NOT_JAVA = -3,      /* not in Java, and nothing can be told */
  ASGST_NOT_WALKABLE_NOT_JAVA = -4, /* not in Java, and the way back to it cannot be told */
  ASGST_UNKNOWN_JAVA = -5,          /* in Java, and the code says nothing */
  ASGST_NOT_WALKABLE_JAVA = -6,     /* in Java, and the frame says nothing; early form: -5 */
  ASGST_UNKNOWN_STATE = -7,         /* a thread state that means nothing; a null context; no room */
  ASGST_THREAD_EXIT = -8,           /* the thread is ending */
  ASGST_DEOPT = -9,                 /* deoptimisation; not given here */
  ASGST_THREAD_NOT_JAVA = -10,      /* no Java thread, and such were not asked for */
  ASGST_NO_THREAD = -11,            /* late: the context's stack is no Java thread's, or is the calling one's */
  ASGST_UNSAFE_STATE = -12,         /* late: on the way into a safepoint, or new */
  ASGST_WRONG_STATE = -13,          /* late: the mask refuses the state */
  ASGST_WRONG_KIND = -14            /* late: the mask refuses the kind */
};

enum ASGST_FrameTypeId {
  ASGST_FRAME_JAVA = 1,
  ASGST_FRAME_JAVA_INLINED = 2,
  ASGST_FRAME_NATIVE = 3,
  ASGST_FRAME_CPP = 4, /* C, C++, stubs */
  ASGST_FRAME_STUB_EARLY = 4,
  ASGST_FRAME_CPP_EARLY = 5
};

/* Late: bits, and on entry a mask. */
enum ASGST_TRACE_KIND {
  ASGST_JAVA_TRACE = 1,
  ASGST_CPP_TRACE = 2,
  ASGST_GC_TRACE = 4,
  ASGST_DEOPT_TRACE = 8,
  ASGST_NEW_THREAD_TRACE = 16,
  ASGST_UNKNOWN_TRACE = 32
};

enum ASGST_TRACE_KIND_EARLY {
  ASGST_JAVA_TRACE_EARLY = 0,
  ASGST_CPP_TRACE_EARLY = 1,
  ASGST_GC_TRACE_EARLY = 2,
  ASGST_DEOPT_TRACE_EARLY = 3,
  ASGST_UNKNOWN_TRACE_EARLY = 4
};

typedef struct {
  uint8_t type;
  int8_t comp_level; /* 0 the interpreter, 1 to 3 C1, 4 C2, -1 none */
  uint16_t bci;      /* 65535: none, or no room for it */
  jmethodID method_id; /* null if it has none (yet) */
} ASGST_JavaFrame;

typedef struct {
  uint8_t type;
  void *pc;
} ASGST_NonJavaFrame;

typedef union {
  uint8_t type;
  ASGST_JavaFrame java_frame;
  ASGST_NonJavaFrame non_java_frame;
} ASGST_CallFrame;

ASGST_CHECK(sizeof(ASGST_CallFrame) == 16);
ASGST_CHECK(offsetof(ASGST_JavaFrame, comp_level) == 1 && offsetof(ASGST_JavaFrame, bci) == 2);
ASGST_CHECK(offsetof(ASGST_JavaFrame, method_id) == 8 && offsetof(ASGST_NonJavaFrame, pc) == 8);

/* The late form. `kind` and `state` are read: if not zero they are the kinds, and the JVMTI thread states one bit of which must be set, that are accepted.
 * Zero them before each call: what the last one left is a mask for the next. */
typedef struct {
  jint num_frames; /* or an error */
  uint8_t kind;
  jint state; /* the JVMTI thread state; -1 of threads that are none of Java's */
  ASGST_CallFrame *frames;
  void *frame_info; /* null */
} ASGST_CallTrace;

ASGST_CHECK(sizeof(ASGST_CallTrace) == 32);
ASGST_CHECK(offsetof(ASGST_CallTrace, kind) == 4 && offsetof(ASGST_CallTrace, state) == 8);
ASGST_CHECK(offsetof(ASGST_CallTrace, frames) == 16 && offsetof(ASGST_CallTrace, frame_info) == 24);

typedef struct {
  jint num_frames; /* or an error */
  uint8_t kind;
  ASGST_CallFrame *frames;
  void *frame_info; /* null */
} ASGST_CallTrace_EARLY;

ASGST_CHECK(sizeof(ASGST_CallTrace_EARLY) == 24);
ASGST_CHECK(offsetof(ASGST_CallTrace_EARLY, frames) == 8 && offsetof(ASGST_CallTrace_EARLY, frame_info) == 16);

/* Walks at most `depth` frames. With ASGST_WALK_SAME_THREAD the calling thread's stack, in a signal handler; without it that of the thread on whose stack the
 * context stands, which must not run meanwhile. Frames that were found before the walk came to a halt are given. Signal-safe. */
void AsyncGetStackTrace(ASGST_CallTrace *trace, jint depth, void *ucontext, int32_t options);

/* The early form: the calling thread. Signal-safe. */
void AsyncGetStackTrace_early(ASGST_CallTrace_EARLY *trace, jint depth, void *ucontext, int32_t options);

#ifdef __cplusplus
}
#endif

#endif
