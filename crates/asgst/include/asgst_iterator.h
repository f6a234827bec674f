/* ASGST, the iterator generation (2023), for any HotSpot from 11 on with walkfuzz's ASGST library loaded.
 *
 * Names, values and layouts are those of the API as its author published it; the words are ours. docs/asgst.md says how to compile and load a client, and
 * which function is tried by which test.
 *
 * "Signal-safe": may be called in signal handlers; allocates nothing and takes no lock. What memory the functions read of the JVM and of stacks they read
 * in a way that cannot fault. Memory that the caller hands over to be written (frames, infos, strings) has to be writable.
 */
#ifndef ASGST_ITERATOR_H
#define ASGST_ITERATOR_H

#if defined(ASGST_JEP435_H) || defined(ASGST_MINIMAL_H)
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

/* What kind of frame. */
enum ASGST_FrameTypeId {
  ASGST_FRAME_JAVA = 1,         /* a Java method, compiled or interpreted */
  ASGST_FRAME_JAVA_INLINED = 2, /* a Java method that was inlined into the compiled one below it */
  ASGST_FRAME_JAVA_NATIVE = 3,  /* a native method, called through its wrapper */
  ASGST_FRAME_NON_JAVA = 4      /* C, C++, stubs of the JVM's */
};

/* Options of iterators: bits. Others must be 0. */
enum ASGST_Options {
  ASGST_INCLUDE_NON_JAVA_FRAMES = 1, /* give frames of C, C++ and stubs as well */
  ASGST_END_ON_FIRST_JAVA_FRAME = 2  /* the first frame of a Java method is the last that is given */
};

/* What kind of trace; each is positive, errors are not. */
enum ASGST_TRACE_KIND {
  ASGST_JAVA_TRACE = 1,    /* there are Java frames */
  ASGST_NON_JAVA_TRACE = 2 /* a Java thread without any */
};

/* Errors. Values below -16 are this implementation's own: ASGST_OWN_ERROR(n). */
enum ASGST_Error {
  ASGST_NO_FRAME = 0,             /* the end: there is no further frame */
  ASGST_NO_THREAD = -1,           /* the calling thread is no Java thread, or the JVM has not started */
  ASGST_THREAD_EXIT = -2,         /* the thread is ending */
  ASGST_UNSAFE_STATE = -3,        /* the thread is in a state that forbids a walk */
  ASGST_NO_TOP_JAVA_FRAME = -4,   /* the frame to begin with cannot be told */
  ASGST_ENQUEUE_NO_QUEUE = -5,    /* there is no such queue */
  ASGST_ENQUEUE_FULL_QUEUE = -6,  /* the queue is full */
  ASGST_ENQUEUE_OTHER_ERROR = -7  /* any other reason not to enqueue */
};

/* What the walker says, as NextFrame and State give it. */
#define ASGST_OWN_ERROR(n) (-16 + (n))
enum ASGST_OwnError {
  ASGST_INDECIPHERABLE_FRAME = ASGST_OWN_ERROR(-1),             /* a frame makes no sense */
  ASGST_INDECIPHERABLE_NATIVE_FRAME = ASGST_OWN_ERROR(-2),      /* a native frame makes no sense */
  ASGST_INDECIPHERABLE_INTERPRETED_FRAME = ASGST_OWN_ERROR(-3), /* an interpreter's frame makes no sense */
  ASGST_NOT_WALKABLE = ASGST_OWN_ERROR(-6),                     /* the way to the caller cannot be told */
  ASGST_BAD_ARGUMENT = ASGST_OWN_ERROR(-16)                     /* the iterator is misaligned or no longer valid; a null handler or frame; unknown options */
};

/* Opaque, null for none. A method or class may be unloaded at any time; the functions that take one check what they read, and answer with nothing for one
 * that is gone. They cannot notice that another method was put in its place. */
typedef void *ASGST_Method;
typedef void *ASGST_Class;

/* Valid until the handler that it was given to returns, on that handler's thread. Used later it gives ASGST_BAD_ARGUMENT. */
typedef struct ASGST_Iterator ASGST_Iterator;

typedef struct {
  uint8_t type;        /* ASGST_FrameTypeId; 0 after an error */
  int comp_level;      /* 0 the interpreter, 1 to 3 C1, 4 C2, -1 none */
  int bci;             /* bytecode index, -1 if there is none, as of native methods */
  ASGST_Method method; /* null if there is none */
  void *pc;            /* inlined frames share pc, sp and fp with the frame they are inlined into */
  void *sp;            /* null if it is not known */
  void *fp;            /* null if it is not known */
} ASGST_Frame;

ASGST_CHECK(sizeof(ASGST_Frame) == 48);
ASGST_CHECK(offsetof(ASGST_Frame, type) == 0 && offsetof(ASGST_Frame, comp_level) == 4);
ASGST_CHECK(offsetof(ASGST_Frame, bci) == 8 && offsetof(ASGST_Frame, method) == 16);
ASGST_CHECK(offsetof(ASGST_Frame, pc) == 24 && offsetof(ASGST_Frame, sp) == 32 && offsetof(ASGST_Frame, fp) == 40);

typedef void (*ASGST_IteratorHandler)(ASGST_Iterator *iterator, void *argument);

/* Makes an iterator over the calling thread's stack as the context has it, hands it to `fun`, and ends it. Signal-safe.
 * Returns a kind, or an error without having called `fun`. A null context is the thread as it stands: its last Java frame is the first. */
int ASGST_RunWithIterator(void *ucontext, int32_t options, ASGST_IteratorHandler fun, void *argument);

/* The same from a frame of the calling thread's. Signal-safe for any values. */
int ASGST_RunWithIteratorFromFrame(void *sp, void *fp, void *pc, int options, ASGST_IteratorHandler fun, void *argument);

/* Back to the first frame. Signal-safe. */
void ASGST_RewindIterator(ASGST_Iterator *iterator);

/* Writes the next frame: 1; at the end 0; an error otherwise. After 0 and errors the frame is empty: type 0, pointers null. Signal-safe. */
int ASGST_NextFrame(ASGST_Iterator *iterator, ASGST_Frame *frame);

/* What the last NextFrame came to, 1 before the first one; ASGST_NO_FRAME for null and at the end. Signal-safe. */
int ASGST_State(ASGST_Iterator *iterator);

/* The calling thread's JVMTI thread state, without INTERRUPTED and SUSPENDED; 0 for a thread that is none of Java's. Signal-safe. */
int ASGST_ThreadState(void);

/* The method's jmethodID, null if it has none (yet). Signal-safe. */
jmethodID ASGST_MethodToJMethodID(ASGST_Method method);

/* The method of an id, null if it has none any more. Signal-safe for any value. */
ASGST_Method ASGST_JMethodIDToMethod(jmethodID id);

/* Strings: the caller sets pointer and room in bytes; a null pointer or no room means that it is not wanted. As much as fits is written, always with a
 * terminating zero; the length is set to that of the whole string without the zero, so that a length not below the room means that it was cut.
 * What is not known is an empty string and 0. */
typedef struct {
  ASGST_Class klass;
  char *method_name;
  jint method_name_length;
  char *signature;
  jint signature_length;
  char *generic_signature;
  jint generic_signature_length;
  jint modifiers;
  jint idnum;
  jlong class_idnum;
} ASGST_MethodInfo;

ASGST_CHECK(sizeof(ASGST_MethodInfo) == 72);
ASGST_CHECK(offsetof(ASGST_MethodInfo, method_name) == 8 && offsetof(ASGST_MethodInfo, signature) == 24);
ASGST_CHECK(offsetof(ASGST_MethodInfo, generic_signature) == 40 && offsetof(ASGST_MethodInfo, modifiers) == 52);
ASGST_CHECK(offsetof(ASGST_MethodInfo, idnum) == 56 && offsetof(ASGST_MethodInfo, class_idnum) == 64);

/* What the method is. For one that is gone: klass null, strings empty, numbers -1. Signal-safe. */
void ASGST_GetMethodInfo(ASGST_Method method, ASGST_MethodInfo *info);

/* The method's number in its class, -1 for one that is gone. Signal-safe. */
jint ASGST_GetMethodIdNum(ASGST_Method method);

typedef struct {
  jint start_bci;
  jint line_number;
} ASGST_MethodLineNumberEntry;

ASGST_CHECK(sizeof(ASGST_MethodLineNumberEntry) == 8);
ASGST_CHECK(offsetof(ASGST_MethodLineNumberEntry, line_number) == 4);

/* Writes at most `length` entries and returns how many the method has; 0 if it has none or is gone. Signal-safe. */
int ASGST_GetMethodLineNumberTable(ASGST_Method method, ASGST_MethodLineNumberEntry *entries, int length);

/* The line that the bytecode belongs to, -1 if there is none. Signal-safe. */
jint ASGST_GetMethodLineNumber(ASGST_Method method, jint bci);

typedef struct {
  char *class_name;
  jint class_name_length;
  char *generic_class_name;
  jint generic_class_name_length;
  jint modifiers;
  jlong idnum;
} ASGST_ClassInfo;

ASGST_CHECK(sizeof(ASGST_ClassInfo) == 40);
ASGST_CHECK(offsetof(ASGST_ClassInfo, generic_class_name) == 16 && offsetof(ASGST_ClassInfo, modifiers) == 28);
ASGST_CHECK(offsetof(ASGST_ClassInfo, idnum) == 32);

/* What the class is, its name with slashes. For one that is gone: strings empty, numbers -1. Signal-safe. */
void ASGST_GetClassInfo(ASGST_Class klass, ASGST_ClassInfo *info);

/* A number of the class's that no other living class has, -1 for one that is gone. Signal-safe. */
jlong ASGST_GetClassIdNum(ASGST_Class klass);

/* The class that declares the method, null if it is gone. Signal-safe. */
ASGST_Class ASGST_GetClass(ASGST_Method method);

/* The class of a reference, null for a primitive type's. Signal-safe for a valid reference. */
ASGST_Class ASGST_JClassToClass(jclass klass);

/* A local reference to the class on a thread in native code; null if it is gone, or none of Java's. Not signal-safe. */
jclass ASGST_ClassToJClass(ASGST_Class klass);

/* Called soon after a class has been unloaded: its handle, its methods' handles, their count, whether only they went (always false here), the argument.
 * On a thread of the library's that is none of Java's, one class at a time. Within the call the handles still have names, on that thread
 * (GetClassInfo, GetMethodInfo), from a copy. */
typedef void (*ASGST_ClassUnloadHandler)(ASGST_Class klass, ASGST_Method *methods, int count, bool redefined, void *arg);

/* Classes that are unloaded before the first handler was registered are not told of. From then on each loaded class is copied and tagged. Not signal-safe. */
void ASGST_RegisterClassUnloadHandler(ASGST_ClassUnloadHandler handler, void *arg);

/* Whether handler and argument were registered. Not signal-safe. */
bool ASGST_DeregisterClassUnloadHandler(ASGST_ClassUnloadHandler handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif
