/* JEP 435: the same frames as AsyncGetCallTrace's, masks, both forms, the same and another thread. */
#include <stdio.h>
#include <string.h>

#include "asgst_jep435.h"
#include "check.h"

static ASGST_CallFrame frames[CHECK_DEPTH], others[CHECK_DEPTH];
static jint last_count;

CHECK_COUNT(jep_walked)
CHECK_COUNT(jep_equal)
CHECK_COUNT(jep_differ)
CHECK_COUNT(jep_early_equal)
CHECK_COUNT(jep_early_differ)
CHECK_COUNT(jep_other_walked)
CHECK_COUNT(jep_other_differ)
CHECK_COUNT(jep_c_frames)
CHECK_COUNT(jep_c_differ)
CHECK_COUNT(jep_answers)
CHECK_COUNT(jep_answers_wrong)

static void expect(int as_expected) {
  jep_answers();
  if (!as_expected) {
    jep_answers_wrong();
  }
}

static ASGST_CallTrace walk(ASGST_CallFrame *into, jint depth, void *ucontext, int32_t options, uint8_t kinds, jint states) {
  ASGST_CallTrace trace = {.kind = kinds, .state = states, .frames = into, .frame_info = into};
  AsyncGetStackTrace(&trace, depth, ucontext, options);
  return trace;
}

static int as_agct(const ASGST_CallFrame *into, const AgctTrace *agct) {
  for (int i = 0; i < agct->count; i++) {
    const ASGST_JavaFrame *frame = &into[i].java_frame;
    int bci = frame->type == ASGST_FRAME_NATIVE ? -3 : frame->bci;
    if (frame->method_id != agct->frames[i].method || bci != (agct->frames[i].bci == -1 ? 65535 : agct->frames[i].bci)) {
      return 0;
    }
  }
  return 1;
}

void jep435_signal(void *ucontext, const AgctTrace *agct) {
  const int32_t same = ASGST_WALK_SAME_THREAD | ASGST_WALK_DURING_UNSAFE_STATES;
  ASGST_CallTrace trace = walk(frames, CHECK_DEPTH, ucontext, same, 0, 0);
  last_count = trace.num_frames;
  if (trace.num_frames <= 0 || agct->count <= 0) {
    return;
  }
  jep_walked();
  int equal = trace.num_frames == agct->count && as_agct(frames, agct);
  (equal ? jep_equal : jep_differ)();
  expect(trace.kind == ASGST_JAVA_TRACE && (trace.state & JVMTI_THREAD_STATE_ALIVE) != 0 && trace.frame_info == NULL);

  ASGST_CallTrace_EARLY early = {.frames = others};
  AsyncGetStackTrace_early(&early, CHECK_DEPTH, ucontext, 0);
  int as_early = early.num_frames == trace.num_frames && early.kind == ASGST_JAVA_TRACE_EARLY &&
                 memcmp(frames, others, sizeof *frames * (size_t)trace.num_frames) == 0;
  (as_early ? jep_early_equal : jep_early_differ)();

  /* C frames between the Java frames, which stay as they are. */
  ASGST_CallTrace all = walk(others, CHECK_DEPTH, ucontext, same | ASGST_INCLUDE_C_FRAMES, 0, 0);
  int methods = 0;
  for (int i = 0; i < all.num_frames; i++) {
    if (others[i].type == ASGST_FRAME_CPP) {
      jep_c_frames();
    } else if (methods >= trace.num_frames || memcmp(&others[i], &frames[methods++], sizeof *frames) != 0) {
      jep_c_differ();
    }
  }
  /* Masks, room, and what cannot be walked. */
  const jint alive = JVMTI_THREAD_STATE_ALIVE;
  expect(walk(others, 1, ucontext, same, 0, 0).num_frames == 1);
  expect(walk(others, CHECK_DEPTH, ucontext, same, ASGST_JAVA_TRACE, alive).num_frames == trace.num_frames);
  expect(walk(others, CHECK_DEPTH, ucontext, same, ASGST_GC_TRACE | ASGST_CPP_TRACE, 0).num_frames == ASGST_WRONG_KIND);
  expect(walk(others, CHECK_DEPTH, ucontext, same, ASGST_GC_TRACE, 0).kind == ASGST_JAVA_TRACE);
  expect(walk(others, CHECK_DEPTH, ucontext, same, 0, JVMTI_THREAD_STATE_TERMINATED).num_frames == ASGST_WRONG_STATE);
  expect((walk(others, CHECK_DEPTH, ucontext, same, 0, JVMTI_THREAD_STATE_TERMINATED).state & alive) != 0);
  expect(walk(others, CHECK_DEPTH, ucontext, 0, 0, 0).num_frames == ASGST_NO_THREAD);
  expect(walk(others, 0, ucontext, same, 0, 0).num_frames == ASGST_UNKNOWN_STATE);
  expect(walk(others, -1, ucontext, same, 0, 0).num_frames == ASGST_UNKNOWN_STATE);
  expect(walk(NULL, CHECK_DEPTH, ucontext, same, 0, 0).num_frames == ASGST_UNKNOWN_STATE);
  expect(walk(others, CHECK_DEPTH, NULL, same, 0, 0).num_frames == ASGST_UNKNOWN_STATE);
  AsyncGetStackTrace(NULL, CHECK_DEPTH, ucontext, same);
  AsyncGetStackTrace_early(NULL, CHECK_DEPTH, ucontext, 0);
}

/* On a thread that is none of Java's, while the context's thread waits in its handler. */
void jep435_other(void *ucontext) {
  const int32_t during = ASGST_WALK_DURING_UNSAFE_STATES;
  ASGST_CallTrace trace = walk(others, CHECK_DEPTH, ucontext, during, 0, 0);
  if (last_count > 0) {
    jep_other_walked();
    if (trace.num_frames != last_count || memcmp(frames, others, sizeof *frames * (size_t)last_count) != 0) {
      jep_other_differ();
    }
  }
  expect(walk(others, CHECK_DEPTH, ucontext, ASGST_WALK_SAME_THREAD, 0, 0).num_frames == ASGST_THREAD_NOT_JAVA);
  const int32_t any = ASGST_WALK_SAME_THREAD | ASGST_INCLUDE_NON_JAVA_THREADS;
  expect(walk(others, CHECK_DEPTH, ucontext, any, ASGST_JAVA_TRACE, 0).num_frames == ASGST_WRONG_KIND);
  ASGST_CallTrace c = walk(others, CHECK_DEPTH, ucontext, any | ASGST_INCLUDE_C_FRAMES, 0, JVMTI_THREAD_STATE_TERMINATED);
  expect(c.num_frames > 0 && c.kind == ASGST_CPP_TRACE && c.state == -1 && others[0].type == ASGST_FRAME_CPP);
}

void jep435_finish(FILE *out) {
  CHECK_PRINT(out, jep_walked);
  CHECK_PRINT(out, jep_equal);
  CHECK_PRINT(out, jep_differ);
  CHECK_PRINT(out, jep_early_equal);
  CHECK_PRINT(out, jep_early_differ);
  CHECK_PRINT(out, jep_other_walked);
  CHECK_PRINT(out, jep_other_differ);
  CHECK_PRINT(out, jep_c_frames);
  CHECK_PRINT(out, jep_c_differ);
  CHECK_PRINT(out, jep_answers);
  CHECK_PRINT(out, jep_answers_wrong);
}
