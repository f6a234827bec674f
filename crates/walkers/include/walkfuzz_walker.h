/*
 * walkfuzz_walker.h: what a stack walker in a shared library must offer so that walkfuzz can drive it.
 *
 * ABI version 1, Linux on x86_64 and aarch64 (LP64). The library exports one function, `walkfuzz_walker`, which returns a
 * description of the walker. walkfuzz loads the library, checks the description, calls `init` once, and then `walk` very often.
 *
 * Contract of `walk`, `walk_from_frame` and `walk_remote`:
 * - They are called in signal handlers, on the walked thread (`walk_remote`: on another one), and from several threads at once. They allocate nothing, take no lock of libc's
 *   and use no thread-local storage that is made on first use. A call of malloc or pthread_mutex_lock inside a walk is a finding.
 * - They read what they like and write nothing but `frames[0]` to `frames[depth - 1]` and memory of their own.
 * - They may be left at any instruction, when they fault or take too long. Nothing in them may count on its end being reached.
 * - They must come to an end for every context: pc, sp and fp may hold anything.
 * Contract of `walkfuzz_walker` and `init`: called by an ordinary thread that is attached to the JVM, may do what they like, and return within
 * 5 seconds. Both are tried in a forked copy of the process first, in which the JVM's other threads are not there: Java code must not be run.
 *
 * You may copy this file into your own project under the terms of either the MIT or the Apache-2.0 licence.
 */
#ifndef WALKFUZZ_WALKER_H
#define WALKFUZZ_WALKER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What `abi` must say. It changes when something moves; what is only added at the end of a struct shows in its `size`. */
#define WALKFUZZ_WALKER_ABI 1u

/* One frame, laid out as AsyncGetCallTrace's ASGCT_CallFrame: the innermost comes first. 16 bytes. */
struct walkfuzz_frame {
    int32_t bci;  /* bytecode index; -3 for a native method, or where `method` is a pc */
    void *method; /* jmethodID; a walker without method ids gives a pc, and says so by its `method` */
};

/* What `method` of a walker's frames is. */
#define WALKFUZZ_METHOD_ID 0u
#define WALKFUZZ_METHOD_PC 1u

/* The walked thread. */
struct walkfuzz_thread {
    void *env;   /* its JNIEnv* */
    int32_t tid; /* its kernel thread id */
};

/* A code of the walker's own, and its name for reports. */
struct walkfuzz_code {
    int32_t code;     /* 0 or less */
    const char *name; /* at most 63 bytes of UTF-8; NULL ends the table */
};

/* The JVM in this process. Valid until the process ends. */
struct walkfuzz_facts {
    uint32_t abi;                    /* walkfuzz's WALKFUZZ_WALKER_ABI */
    uint32_t size;                   /* of this struct, as walkfuzz knows it */
    const char *jvm_version;         /* such as "17.0.15+6" */
    uint32_t feature;                /* its feature release, such as 17 */
    const char *libjvm_path;         /* the libjvm.so that is loaded */
    uintptr_t libjvm_base;           /* where its first byte is mapped */
    void *async_get_call_trace;      /* libjvm's AsyncGetCallTrace; ClassLoad events are on, method ids are made */
    void *java_vm;                   /* JavaVM* */
    void *jvmti;                     /* jvmtiEnv* that the walker may use in `init`, or NULL */
    uintptr_t code_cache_low;        /* the reserved code cache: code lies in [low, high) */
    uintptr_t code_cache_high;
    void (*log)(const char *text);   /* a line for the user, in `init` only; walkfuzz puts the library's name in front */
};

/* The walker. Everything that it points at stays valid until the process ends. */
struct walkfuzz_walker {
    uint32_t abi;     /* WALKFUZZ_WALKER_ABI */
    uint32_t size;    /* sizeof(struct walkfuzz_walker) */
    const char *name; /* stands in signatures: 1 to 31 of a-z 0-9 and '-', a letter first, none of walkfuzz's own walkers; at most 25 with walk_from_frame, 16 with walk_remote */
    const char *version;    /* for reports, at most 23 bytes; may be NULL */
    const char *generation; /* whose codes it speaks: NULL or "plugin" for its own, or walkfuzz's name of another table, such as "agct" */
    const struct walkfuzz_code *codes; /* its own codes, ended by a NULL name; may be NULL */

    /* Called once, before the first walk. 0: ready; anything else: the walker does not want to, and `log` should have said why. May be NULL. */
    int32_t (*init)(const struct walkfuzz_facts *facts);

    /* Walks `thread` from the registers in `ucontext` (a ucontext_t*) into `frames`, of which there are `depth`. More than 0: so many frames;
     * 0 or less: a code, and no frames. */
    int32_t (*walk)(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames);

    /* The same from a frame's sp, fp and pc. NULL where the walker cannot. */
    int32_t (*walk_from_frame)(const struct walkfuzz_thread *thread, uintptr_t sp, uintptr_t fp, uintptr_t pc, int32_t depth,
                               struct walkfuzz_frame *frames);

    /* WALKFUZZ_METHOD_ID or WALKFUZZ_METHOD_PC. Frames with pcs are not held against another walker's. Method ids where `size` ends before. */
    uint32_t method;

    /* Walks `thread`, which is another one than the caller's, from the registers in `ucontext`, which were its own when it was interrupted. It waits
     * in its handler meanwhile, or runs on: then its stack may be of a later moment than the registers. Its JavaThread stays either way. The calling
     * thread is unknown to the JVM. NULL where the walker cannot, and where `size` ends before. */
    int32_t (*walk_remote)(const struct walkfuzz_thread *thread, void *ucontext, int32_t depth, struct walkfuzz_frame *frames);
};

/* The one function that the library exports. */
__attribute__((visibility("default"))) const struct walkfuzz_walker *walkfuzz_walker(void);

#ifdef __cplusplus
}
#endif

#endif
