/* ASGST, the safepoint queue of the iterator generation (2023), for any HotSpot from 11 on with walkfuzz's ASGST library loaded. See asgst_iterator.h for what
 * "signal-safe" means, and docs/asgst.md for how a thread is brought to a safepoint and what that costs.
 *
 * A queue belongs to one thread. A signal handler enqueues the frame that it interrupted, which takes less than a microsecond, and the thread's next poll hands
 * what waits to the queue's handler, in the order of its coming. There the thread stands at a safepoint, outside signal handlers: its handlers may allocate
 * and lock. They must not call JNI or JVMTI, nor wait for another Java thread: the JVM waits for this one. A handler that never returns keeps
 * its thread, and at the next safepoint the JVM.
 */
#ifndef ASGST_QUEUE_H
#define ASGST_QUEUE_H

#include "asgst_iterator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ASGST_Capabilities. */
enum ASGST_Capabilities {
  ASGST_REGISTER_QUEUE = 1, /* everything about queues */
  ASGST_MARK_FRAME = 2      /* everything about frame marks; never set here */
};

/* What is offered. Signal-safe. 0 before the JVM's VMInit event, and where a thread cannot be brought to a safepoint: the library then says why on standard error. */
int ASGST_Capabilities(void);

/* Opaque: a number, no address. One that is null, made up, or of a queue that has ended is noticed by every function. */
typedef struct ASGST_Queue ASGST_Queue;

/* What is public of an element. Only `arg` may be changed. The next element is not sizeof(ASGST_QueueElement) further but ASGST_ELEMENT_STRIDE bytes, and the
 * first follows the last: use ASGST_GetQueueElement. */
typedef struct {
  void *pc;
  void *fp;
  void *sp;
  void *arg; /* what was passed to ASGST_Enqueue */
} ASGST_QueueElement;

ASGST_CHECK(sizeof(ASGST_QueueElement) == 32);
ASGST_CHECK(offsetof(ASGST_QueueElement, fp) == 8 && offsetof(ASGST_QueueElement, sp) == 16 && offsetof(ASGST_QueueElement, arg) == 24);

enum {
  ASGST_ELEMENT_STRIDE = 64,
  ASGST_MOST_ELEMENTS = 1 << 20, /* no queue has more */
  ASGST_MOST_QUEUES = 4096       /* in the process, at a time */
};

typedef struct {
  jint size;     /* elements that wait */
  jint capacity; /* as many as it holds, exactly */
  jint attempts; /* to enqueue since the last processing ended, also those that failed */
} ASGST_QueueSizeInfo;

ASGST_CHECK(sizeof(ASGST_QueueSizeInfo) == 12);

/* Called for each element. The iterator begins with the sampled frame if that still stands, as it was sampled; else (a biased sample) with the frame that the safepoint
 * found. It is null, and so has no frames, where the stack cannot be walked. */
typedef void (*ASGST_Handler)(ASGST_Iterator *iterator, void *queue_arg, void *enqueue_arg);

/* Called before or after the elements of a queue that is not empty. The iterator begins with the frame that the safepoint found; null if it was not asked for. */
typedef void (*ASGST_OnQueueSafepointHandler)(ASGST_Queue *queue, ASGST_Iterator *iterator, void *arg);

/* A queue for the thread of `env`, which has to be alive. `options` are its iterators' (ASGST_Options). Null if there are no queues, for a size outside 1 to
 * ASGST_MOST_ELEMENTS, for unknown options, without a handler, for an env that is no thread's, and beyond ASGST_MOST_QUEUES. Not signal-safe.
 * The queue ends with its thread; what waits in it then is lost, and counted. */
ASGST_Queue *ASGST_RegisterQueue(JNIEnv *env, int size, int options, ASGST_Handler handler, void *queue_arg);

/* Ends a queue, from any thread, also in its own handler, which is then the last that is called; what waits is lost, and counted. Whether there was such a queue.
 * Not signal-safe. */
bool ASGST_DeregisterQueue(JNIEnv *env, ASGST_Queue *queue);

/* Sets what is called before, and after; a null handler or unknown options take it back. Not signal-safe. */
void ASGST_SetOnQueueProcessingStart(ASGST_Queue *queue, int options, bool offer_iterator, ASGST_OnQueueSafepointHandler before, void *arg);
void ASGST_SetOnQueueProcessingEnd(ASGST_Queue *queue, int options, bool offer_iterator, ASGST_OnQueueSafepointHandler after, void *arg);

/* Puts the first Java frame of the context into the queue, and brings the thread to its next poll. On the queue's thread, or while that thread stands still.
 * Returns ASGST_JAVA_TRACE, or an error: ASGST_ENQUEUE_NO_QUEUE, ASGST_ENQUEUE_FULL_QUEUE, ASGST_NO_TOP_JAVA_FRAME, ASGST_THREAD_EXIT, and
 * ASGST_ENQUEUE_OTHER_ERROR at a safepoint (in a handler of the queue), in the middle of another Enqueue, and for what is no context. Signal-safe. */
int ASGST_Enqueue(ASGST_Queue *queue, void *ucontext, void *enqueue_arg);

/* Writes what ASGST_Enqueue would put in for the calling thread; returns what it would return. Signal-safe. */
int ASGST_GetEnqueuableElement(void *ucontext, ASGST_QueueElement *element);

/* The nth element: 0 is the oldest, -1 the youngest; null if there is none. To compress a queue, compare the youngest with ASGST_GetEnqueuableElement and count in its
 * arg instead of enqueuing. Valid until the next safepoint of the queue's thread. Signal-safe. */
ASGST_QueueElement *ASGST_GetQueueElement(ASGST_Queue *queue, int n);

/* All 0 for no queue. Signal-safe. */
ASGST_QueueSizeInfo ASGST_GetQueueSizeInfo(ASGST_Queue *queue);

/* Another capacity from the end of the next safepoint on; nothing that waits is lost by it. Sizes that ASGST_RegisterQueue refuses change nothing. Signal-safe. */
void ASGST_ResizeQueue(ASGST_Queue *queue, int size);

/* Frame marks are denied by ASGST_Capabilities: the first returns null, the others do nothing. */
typedef struct ASGST_FrameMark ASGST_FrameMark;
typedef void (*ASGST_FrameMarkHandler)(ASGST_FrameMark *mark, ASGST_Iterator *iterator, void *arg);
ASGST_FrameMark *ASGST_RegisterFrameMark(JNIEnv *env, ASGST_FrameMarkHandler handler, int options, void *arg);
void ASGST_MoveFrameMark(ASGST_FrameMark *mark, void *new_sp);
void *ASGST_GetFrameMarkStackPointer(ASGST_FrameMark *mark);
void ASGST_RemoveFrameMark(ASGST_FrameMark *mark);

/* Ours: what became of a queue's elements, of those of all queues for null. */
typedef struct {
  jlong enqueued;
  jlong refused_full;
  jlong refused_other;
  jlong unbiased;       /* delivered as sampled: the frame still stood, and its caller was the same */
  jlong biased_gone;    /* delivered, but the sampled frame had returned */
  jlong biased_unknown; /* delivered, but the stack could not be walked as far as the sampled frame */
  jlong lost_thread_end;
  jlong lost_deregistered;
} WALKFUZZ_QueueCounts;

ASGST_CHECK(sizeof(WALKFUZZ_QueueCounts) == 64);

/* Writes them; false if there is no such queue. Not signal-safe. */
bool WALKFUZZ_QueueStatistics(ASGST_Queue *queue, WALKFUZZ_QueueCounts *counts);

/* In a queue's handler: what its element became. 0 outside. Signal-safe. */
enum WALKFUZZ_Outcome { WALKFUZZ_UNBIASED = 1, WALKFUZZ_BIASED_GONE = 2, WALKFUZZ_BIASED_UNKNOWN = 3 };
int WALKFUZZ_QueueOutcome(ASGST_Queue *queue);

#ifdef __cplusplus
}
#endif

#endif
