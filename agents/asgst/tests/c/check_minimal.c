/* The minimal generation: the same frames as AsyncGetCallTrace's, from a frame; frames that are none. */
#include <stdio.h>
#include <string.h>

#include "asgst_minimal.h"
#include "check.h"

static ASGST_FrameInfo frames[CHECK_DEPTH];
static int count, others;

CHECK_COUNT(minimal_walked)
CHECK_COUNT(minimal_equal)
CHECK_COUNT(minimal_differ)
CHECK_COUNT(minimal_non_java)
CHECK_COUNT(minimal_answers)
CHECK_COUNT(minimal_answers_wrong)

static void expect(int as_expected) {
  minimal_answers();
  if (!as_expected) {
    minimal_answers_wrong();
  }
}

static int take(ASGST_FrameInfo *frame, void *arg) {
  (void)arg;
  frames[count++] = *frame;
  return count < CHECK_DEPTH;
}

static int take_other(ASGST_Frame *frame, void *arg) {
  (void)frame;
  (void)arg;
  others++;
  return 1;
}

static int stop(ASGST_FrameInfo *frame, void *arg) {
  (void)frame;
  ++*(int *)arg;
  return 0;
}

static int as_agct(const AgctTrace *agct) {
  for (int i = 0; i < count; i++) {
    if (frames[i].method != agct->frames[i].method || frames[i].bci != agct->frames[i].bci) {
      return 0;
    }
  }
  return count == agct->count;
}

void minimal_signal(void *ucontext, const AgctTrace *agct) {
  ASGST_Frame registers = ASGST_GetFrame(ucontext, false);
  expect(registers.pc != NULL && registers.sp != NULL);
  ASGST_Frame frame = ASGST_GetFrame(ucontext, true);
  if (agct->count <= 0 || frame.pc == NULL) {
    return;
  }
  count = others = 0;
  int answer = ASGST_WalkStackFromFrame(frame, take, NULL, NULL, 0);
  minimal_walked();
  (answer == 1 && as_agct(agct) ? minimal_equal : minimal_differ)();
  expect(ASGST_IsJavaFrame(frame) == 1);
  int methods = count, stopped = 0;
  count = 0;
  expect(ASGST_WalkStackFromFrame(registers, take, take_other, NULL, 0) == 1 || registers.pc != frame.pc);
  for (int i = 0; i < others; i++) {
    minimal_non_java();
  }
  expect(ASGST_WalkStackFromFrame(frame, stop, NULL, &stopped, 0) == 1 && stopped == 1);
  count = 0;
  expect(ASGST_WalkStackFromFrame(frame, NULL, NULL, NULL, 0) == 1 && methods > 0);
  expect(ASGST_WalkStackFromFrame(frame, take, NULL, NULL, ASGST_RECONSTITUTE) == ASGST_UNSUPPORTED_OPTION);
  expect(ASGST_WalkStackFromFrame(frame, take, NULL, NULL, 1 << 20) == ASGST_UNSUPPORTED_OPTION);
  /* What is no frame. */
  ASGST_Frame none = {NULL, NULL, NULL}, wild = {(void *)take, (void *)8, (void *)~7UL}, low = frame;
  low.sp = (char *)frame.sp + 1;
  expect(ASGST_WalkStackFromFrame(none, take, take_other, NULL, 0) < 0 && ASGST_IsJavaFrame(none) == 0);
  expect(ASGST_WalkStackFromFrame(wild, take, take_other, NULL, 0) < 0 && ASGST_IsJavaFrame(wild) == 0);
  expect(ASGST_WalkStackFromFrame(low, take, take_other, NULL, 0) < 0);
}

void minimal_finish(FILE *out) {
  /* Not in a handler: a thread that has left Java, here for the last time. */
  ASGST_Frame last = ASGST_GetFrame(NULL, true), above = last;
  if (last.pc != NULL) {
    expect(ASGST_ComputeTopFrameAtSafepoint(last).sp == last.sp);
    above.sp = (char *)last.sp - 64;
    expect(ASGST_ComputeTopFrameAtSafepoint(above).sp == last.sp);
    above.sp = (void *)~7UL;
    expect(ASGST_ComputeTopFrameAtSafepoint(above).pc == NULL);
  }
  CHECK_PRINT(out, minimal_walked);
  CHECK_PRINT(out, minimal_equal);
  CHECK_PRINT(out, minimal_differ);
  CHECK_PRINT(out, minimal_non_java);
  CHECK_PRINT(out, minimal_answers);
  CHECK_PRINT(out, minimal_answers_wrong);
}
