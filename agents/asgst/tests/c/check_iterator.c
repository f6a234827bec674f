/* Iterators: the same frames as AsyncGetCallTrace's; options, rewinding, states; what is not an iterator. */
#include <stdio.h>

#include "asgst_iterator.h"
#include "check.h"


static ASGST_Frame first[CHECK_DEPTH], second[CHECK_DEPTH];
static ASGST_Iterator *kept;
static int kept_state;

CHECK_COUNT(both_walked)
CHECK_COUNT(frames_compared)
CHECK_COUNT(traces_equal)
CHECK_COUNT(traces_differ)
CHECK_COUNT(only_agct)
CHECK_COUNT(only_iterator)
CHECK_COUNT(neither)
CHECK_COUNT(rewinds)
CHECK_COUNT(rewinds_differ)
CHECK_COUNT(from_frame)
CHECK_COUNT(from_frame_differ)
CHECK_COUNT(non_java_frames)
CHECK_COUNT(non_java_differ)
CHECK_COUNT(first_only)
CHECK_COUNT(first_only_wrong)
CHECK_COUNT(native_frames)
CHECK_COUNT(inlined_frames)
CHECK_COUNT(bad_arguments)
CHECK_COUNT(bad_arguments_taken)
CHECK_COUNT(states)
CHECK_COUNT(states_wrong)
CHECK_COUNT(nested)
CHECK_COUNT(nested_wrong)

typedef struct {
  ASGST_Frame *frames;
  int count;
  int end;
} Walk;

static void expect(int as_expected) {
  bad_arguments();
  if (!as_expected) {
    bad_arguments_taken();
  }
}

static void expect_state(int as_expected) {
  states();
  if (!as_expected) {
    states_wrong();
  }
}

static void take(ASGST_Iterator *iterator, void *arg) {
  Walk *walk = arg;
  walk->count = 0;
  while (walk->count < CHECK_DEPTH && (walk->end = ASGST_NextFrame(iterator, &walk->frames[walk->count])) == 1) {
    walk->count++;
  }
}

/* The same methods, bytecodes and kinds. */
static int same(const ASGST_Frame *a, const ASGST_Frame *b, int count) {
  for (int i = 0; i < count; i++) {
    if (a[i].type != b[i].type || a[i].method != b[i].method || a[i].bci != b[i].bci || a[i].pc != b[i].pc ||
        a[i].sp != b[i].sp || a[i].fp != b[i].fp || a[i].comp_level != b[i].comp_level) {
      return 0;
    }
  }
  return 1;
}

static void take_twice(ASGST_Iterator *iterator, void *arg) {
  Walk again = {second, 0, 0};
  expect_state(ASGST_State(iterator) == 1);
  take(iterator, arg);
  Walk *walk = arg;
  expect_state(ASGST_State(iterator) == walk->end || walk->count == CHECK_DEPTH);
  ASGST_RewindIterator(iterator);
  expect_state(ASGST_State(iterator) == 1);
  take(iterator, &again);
  rewinds();
  if (again.count != walk->count || again.end != walk->end || !same(walk->frames, second, again.count)) {
    rewinds_differ();
  }
  kept = iterator;
  kept_state = ASGST_State(iterator);
  /* What no iterator is, while one lives. */
  ASGST_Frame frame;
  static _Alignas(16) char nothing[4096];
  expect(ASGST_NextFrame(NULL, &frame) == ASGST_NO_FRAME && frame.type == 0 && frame.method == NULL);
  expect(ASGST_State(NULL) == ASGST_NO_FRAME);
  expect(ASGST_NextFrame(iterator, NULL) == ASGST_BAD_ARGUMENT);
  expect(ASGST_NextFrame((ASGST_Iterator *)((char *)iterator + 1), &frame) == ASGST_BAD_ARGUMENT);
  expect(ASGST_NextFrame((ASGST_Iterator *)((char *)iterator + 8), &frame) == ASGST_BAD_ARGUMENT);
  expect(ASGST_NextFrame((ASGST_Iterator *)nothing, &frame) == ASGST_BAD_ARGUMENT);
  expect(ASGST_NextFrame((ASGST_Iterator *)8, &frame) == ASGST_BAD_ARGUMENT);
  expect(ASGST_State((ASGST_Iterator *)~7UL) == ASGST_BAD_ARGUMENT);
  ASGST_RewindIterator(NULL);
  ASGST_RewindIterator((ASGST_Iterator *)8);
}

/* Uses the iterator of the handler around it, makes one of its own, and goes on with the first. */
static void take_nested(ASGST_Iterator *iterator, void *ucontext) {
  Walk inner = {second, 0, 0};
  ASGST_Frame frame;
  int count = 0;
  while (count < CHECK_DEPTH && ASGST_NextFrame(iterator, &frame) == 1) {
    if (count == 1) {
      ASGST_RunWithIterator(ucontext, 0, take, &inner);
    }
    nested();
    if (!same(&frame, &first[count], 1)) {
      nested_wrong();
    }
    count++;
  }
}

static void compare_with_agct(const Walk *walk, const AgctTrace *agct, int answer) {
  int walked = answer == ASGST_JAVA_TRACE && walk->count > 0;
  if (!walked || agct->count <= 0) {
    (walked ? only_iterator : agct->count > 0 ? only_agct : neither)();
    return;
  }
  both_walked();
  int equal = walk->count == agct->count;
  for (int i = 0; i < walk->count && i < agct->count; i++) {
    const ASGST_Frame *frame = &walk->frames[i];
    int bci = frame->type == ASGST_FRAME_JAVA_NATIVE ? -3 : frame->bci;
    frames_compared();
    equal = equal && ASGST_MethodToJMethodID(frame->method) == agct->frames[i].method && bci == agct->frames[i].bci;
    if (frame->type == ASGST_FRAME_JAVA_NATIVE) {
      native_frames();
    } else if (frame->type == ASGST_FRAME_JAVA_INLINED) {
      inlined_frames();
    }
  }
  (equal ? traces_equal : traces_differ)();
}

void iterator_signal(void *ucontext, const AgctTrace *agct) {
  Walk walk = {first, 0, 0};
  int answer = ASGST_RunWithIterator(ucontext, 0, take_twice, &walk);
  compare_with_agct(&walk, agct, answer);
  if (answer <= 0) {
    return;
  }
  ASGST_Frame frame;
  if (kept != NULL) {
    expect(ASGST_NextFrame(kept, &frame) == ASGST_BAD_ARGUMENT && frame.type == 0);
    expect(ASGST_State(kept) == ASGST_BAD_ARGUMENT && kept_state != ASGST_BAD_ARGUMENT);
    ASGST_RewindIterator(kept);
    kept = NULL;
  }
  expect(ASGST_RunWithIterator(ucontext, 4, take, &walk) == ASGST_BAD_ARGUMENT);
  expect(ASGST_RunWithIterator(ucontext, 0, NULL, NULL) == ASGST_BAD_ARGUMENT);
  expect_state((ASGST_ThreadState() & JVMTI_THREAD_STATE_ALIVE) != 0);
  int count = walk.count;

  ASGST_RunWithIterator(ucontext, 0, take_nested, ucontext);

  /* From the frame in the registers it is the same walk, if the thread is in Java. */
  int java = walk.count > 0 && agct->count > 0 && (ASGST_ThreadState() & JVMTI_THREAD_STATE_IN_NATIVE) == 0;
  if (java) {
    Walk from = {second, 0, 0};
    int same_answer = ASGST_RunWithIteratorFromFrame(first[0].sp, first[0].fp, first[0].pc, 0, take, &from);
    from_frame();
    if (same_answer != answer || from.count != count || !same(first, second, count)) {
      from_frame_differ();
    }
  }
  /* Stubs and C frames come between the Java frames, and change none of them. */
  Walk all = {second, 0, 0};
  ASGST_RunWithIterator(ucontext, ASGST_INCLUDE_NON_JAVA_FRAMES, take, &all);
  int methods = 0;
  for (int i = 0; i < all.count; i++) {
    if (second[i].type == ASGST_FRAME_NON_JAVA) {
      non_java_frames();
    } else if (methods >= count || !same(&second[i], &first[methods++], 1)) {
      non_java_differ();
    }
  }
  if (methods != count && all.count < CHECK_DEPTH) {
    non_java_differ();
  }
  Walk one = {second, 0, 0};
  ASGST_RunWithIterator(ucontext, ASGST_END_ON_FIRST_JAVA_FRAME, take, &one);
  first_only();
  if (one.count != (count > 0 ? 1 : 0) || (count > 0 && one.end != 0) || (count > 0 && !same(first, second, 1))) {
    first_only_wrong();
  }
}

void iterator_finish(FILE *out) {
  CHECK_PRINT(out, both_walked);
  CHECK_PRINT(out, frames_compared);
  CHECK_PRINT(out, traces_equal);
  CHECK_PRINT(out, traces_differ);
  CHECK_PRINT(out, only_agct);
  CHECK_PRINT(out, only_iterator);
  CHECK_PRINT(out, neither);
  CHECK_PRINT(out, rewinds);
  CHECK_PRINT(out, rewinds_differ);
  CHECK_PRINT(out, from_frame);
  CHECK_PRINT(out, from_frame_differ);
  CHECK_PRINT(out, non_java_frames);
  CHECK_PRINT(out, non_java_differ);
  CHECK_PRINT(out, first_only);
  CHECK_PRINT(out, first_only_wrong);
  CHECK_PRINT(out, native_frames);
  CHECK_PRINT(out, inlined_frames);
  CHECK_PRINT(out, bad_arguments);
  CHECK_PRINT(out, bad_arguments_taken);
  CHECK_PRINT(out, states);
  CHECK_PRINT(out, states_wrong);
  CHECK_PRINT(out, nested);
  CHECK_PRINT(out, nested_wrong);
}
