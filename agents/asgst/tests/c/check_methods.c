/* Methods and classes: what JVMTI says of them, and what is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asgst_iterator.h"
#include "check.h"

enum { MAX_METHODS = 2000, ROOM = 2048 };

/* public, final, interface, abstract */
#define JVM_ACC_CHECKED 0x0611

static jmethodID seen[MAX_METHODS];
static int seen_count;

CHECK_COUNT(methods)
CHECK_COUNT(methods_wrong)
CHECK_COUNT(generic_signatures)
CHECK_COUNT(generic_wrong)
CHECK_COUNT(lines)
CHECK_COUNT(lines_wrong)
CHECK_COUNT(line_tables)
CHECK_COUNT(classes)
CHECK_COUNT(classes_wrong)
CHECK_COUNT(short_strings)
CHECK_COUNT(short_strings_wrong)
CHECK_COUNT(no_methods)
CHECK_COUNT(no_methods_taken)

void methods_seen(const AgctTrace *agct) {
  for (int i = 0; i < agct->count; i++) {
    int known = agct->frames[i].method == NULL;
    for (int j = 0; j < seen_count && !known; j++) {
      known = seen[j] == agct->frames[i].method;
    }
    if (!known && seen_count < MAX_METHODS) {
      seen[seen_count++] = agct->frames[i].method;
    }
  }
}

static int equal(const char *a, const char *b, jint length) {
  return b == NULL ? length == 0 && a[0] == 0 : strcmp(a, b) == 0 && (size_t)length == strlen(b);
}

static void check_lines(jvmtiEnv *jvmti, jmethodID id, ASGST_Method method) {
  static ASGST_MethodLineNumberEntry entries[ROOM];
  jint count = 0;
  jvmtiLineNumberEntry *table = NULL;
  int own = ASGST_GetMethodLineNumberTable(method, entries, ROOM);
  if ((*jvmti)->GetLineNumberTable(jvmti, id, &count, &table) != JVMTI_ERROR_NONE) {
    count = 0;
  }
  line_tables();
  if (own != count) {
    lines_wrong();
    return;
  }
  for (int i = 0; i < count && i < ROOM; i++) {
    lines();
    if (entries[i].start_bci != table[i].start_location || entries[i].line_number != table[i].line_number) {
      lines_wrong();
    }
  }
  /* No more than is asked for. */
  ASGST_MethodLineNumberEntry two[2] = {{-7, -7}, {-7, -7}};
  if (ASGST_GetMethodLineNumberTable(method, two, 1) != count || two[1].start_bci != -7 ||
      ASGST_GetMethodLineNumberTable(method, NULL, 5) != count || ASGST_GetMethodLineNumberTable(method, two, -1) != count) {
    lines_wrong();
  }
  if (count > 0) {
    jint last = table[count - 1].start_location, line = ASGST_GetMethodLineNumber(method, last);
    int found = 0;
    for (int i = 0; i < count; i++) {
      found |= table[i].start_location == last && table[i].line_number == line;
    }
    if (!found || ASGST_GetMethodLineNumber(method, -1) != -1) {
      lines_wrong();
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char *)table);
  } else if (ASGST_GetMethodLineNumber(method, 0) != -1) {
    lines_wrong();
  }
}

static void check_short(ASGST_Method method, const char *name) {
  for (int room = 1; room <= 8; room++) {
    char text[16];
    memset(text, '#', sizeof text);
    ASGST_MethodInfo info = {.method_name = text, .method_name_length = room};
    ASGST_GetMethodInfo(method, &info);
    size_t fits = strlen(name) < (size_t)room - 1 ? strlen(name) : (size_t)room - 1;
    short_strings();
    if (text[fits] != 0 || memcmp(text, name, fits) != 0 || text[room] != '#' || (size_t)info.method_name_length != strlen(name)) {
      short_strings_wrong();
    }
  }
  char untouched = '#';
  ASGST_MethodInfo none = {.method_name = &untouched, .method_name_length = -5};
  ASGST_GetMethodInfo(method, &none);
  short_strings();
  if (untouched != '#') {
    short_strings_wrong();
  }
}

static void check_class(jvmtiEnv *jvmti, JNIEnv *env, jclass mirror, ASGST_Class klass) {
  char name[ROOM], generic_name[ROOM], *signature = NULL, *generic = NULL;
  ASGST_ClassInfo info = {.class_name = name, .class_name_length = ROOM, .generic_class_name = generic_name, .generic_class_name_length = ROOM};
  ASGST_GetClassInfo(klass, &info);
  (*jvmti)->GetClassSignature(jvmti, mirror, &signature, &generic);
  jint modifiers = 0;
  (*jvmti)->GetClassModifiers(jvmti, mirror, &modifiers);
  classes();
  /* Lpackage/Name; and a slash and a number behind an anonymous class's; a hidden class's has a dot where its name has a plus. */
  size_t length = (size_t)info.class_name_length;
  const char *end = strlen(signature) > length + 1 ? signature + 1 + length : signature;
  int good = length > 0 && (*end == ';' || (*end == '/' && strchr("0123456789", end[1]) != NULL)) &&
             (strchr(signature, '.') != NULL || memcmp(name, signature + 1, length) == 0);
  good = good && equal(generic_name, generic, info.generic_class_name_length);
  good = good && ASGST_JClassToClass(mirror) == klass;
  good = good && ASGST_GetClassIdNum(klass) == info.idnum && info.idnum != -1;
  good = good && (info.modifiers & JVM_ACC_CHECKED) == (modifiers & JVM_ACC_CHECKED);
  jclass back = ASGST_ClassToJClass(klass);
  good = good && back != NULL && (*env)->IsSameObject(env, back, mirror);
  if (!good) {
    classes_wrong();
    fprintf(stderr, "class %s: %s, %s, %x and %x, %p and %p\n", signature, name, generic_name, info.modifiers, modifiers,
            (void *)ASGST_JClassToClass(mirror), (void *)klass);
  }
  (*env)->DeleteLocalRef(env, back);
  (*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
  (*jvmti)->Deallocate(jvmti, (unsigned char *)generic);
}

static void check_method(jvmtiEnv *jvmti, JNIEnv *env, jmethodID id) {
  char name[ROOM], signature[ROOM], generic[ROOM], *known_name, *known_signature, *known_generic = NULL;
  jclass mirror;
  jint modifiers = 0;
  if ((*jvmti)->GetMethodName(jvmti, id, &known_name, &known_signature, &known_generic) != JVMTI_ERROR_NONE) {
    return;
  }
  (*jvmti)->GetMethodDeclaringClass(jvmti, id, &mirror);
  (*jvmti)->GetMethodModifiers(jvmti, id, &modifiers);
  ASGST_Method method = ASGST_JMethodIDToMethod(id);
  ASGST_MethodInfo info = {.method_name = name, .method_name_length = ROOM, .signature = signature, .signature_length = ROOM,
                           .generic_signature = generic, .generic_signature_length = ROOM};
  ASGST_GetMethodInfo(method, &info);
  methods();
  int good = method != NULL && ASGST_MethodToJMethodID(method) == id;
  good = good && equal(name, known_name, info.method_name_length) && equal(signature, known_signature, info.signature_length);
  good = good && (info.modifiers & 0xfff) == (modifiers & 0xfff);
  good = good && ASGST_GetMethodIdNum(method) == info.idnum && info.idnum >= 0;
  good = good && ASGST_GetClass(method) == info.klass && ASGST_GetClassIdNum(info.klass) == info.class_idnum;
  if (!good) {
    methods_wrong();
    fprintf(stderr, "method %s%s: %s%s %x and %x\n", known_name, known_signature, name, signature, info.modifiers, modifiers);
  }
  if (known_generic != NULL) {
    generic_signatures();
  }
  if (!equal(generic, known_generic, info.generic_signature_length)) {
    generic_wrong();
    fprintf(stderr, "generic signature of %s: %s and %s\n", known_name, generic, known_generic);
  }
  check_short(method, known_name);
  check_lines(jvmti, id, method);
  check_class(jvmti, env, mirror, info.klass);
  (*env)->DeleteLocalRef(env, mirror);
  (*jvmti)->Deallocate(jvmti, (unsigned char *)known_name);
  (*jvmti)->Deallocate(jvmti, (unsigned char *)known_signature);
  (*jvmti)->Deallocate(jvmti, (unsigned char *)known_generic);
}

/* What is no method and no class: null, misaligned, unmapped, other things. */
static void check_none(void) {
  static uintptr_t page[512];
  const uintptr_t none[] = {0, 1, 8, (uintptr_t)page, (uintptr_t)page + 4, ~(uintptr_t)7, (uintptr_t)&check_none & ~(uintptr_t)7};
  page[1] = (uintptr_t)page;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    char text[8] = "#######";
    ASGST_Method method = (ASGST_Method)none[i];
    ASGST_Class klass = (ASGST_Class)none[i];
    ASGST_MethodInfo info = {.method_name = text, .method_name_length = sizeof text};
    ASGST_ClassInfo class_info = {.class_name = NULL};
    ASGST_MethodLineNumberEntry entry;
    no_methods();
    ASGST_GetMethodInfo(method, &info);
    ASGST_GetClassInfo(klass, &class_info);
    if (info.klass != NULL || text[0] != 0 || info.method_name_length != 0 || info.idnum != -1 || class_info.idnum != -1 ||
        ASGST_MethodToJMethodID(method) != NULL || ASGST_GetMethodIdNum(method) != -1 || ASGST_GetClass(method) != NULL ||
        ASGST_GetMethodLineNumber(method, 0) != -1 || ASGST_GetMethodLineNumberTable(method, &entry, 1) != 0 ||
        ASGST_GetClassIdNum(klass) != -1 || ASGST_ClassToJClass(klass) != NULL || ASGST_JMethodIDToMethod((jmethodID)none[i]) != NULL) {
      no_methods_taken();
    }
  }
  ASGST_GetMethodInfo(NULL, NULL);
  ASGST_GetClassInfo(NULL, NULL);
}

void methods_finish(FILE *out, jvmtiEnv *jvmti, JNIEnv *env) {
  jclass deep = (*env)->FindClass(env, "Deep");
  jint count = 0;
  jmethodID *all = NULL;
  if (deep != NULL && (*jvmti)->GetClassMethods(jvmti, deep, &count, &all) == JVMTI_ERROR_NONE) {
    for (int i = 0; i < count && seen_count < MAX_METHODS; i++) {
      seen[seen_count++] = all[i];
    }
  }
  (*env)->ExceptionClear(env);
  for (int i = 0; i < seen_count; i++) {
    check_method(jvmti, env, seen[i]);
  }
  check_none();
  CHECK_PRINT(out, methods);
  CHECK_PRINT(out, methods_wrong);
  CHECK_PRINT(out, generic_signatures);
  CHECK_PRINT(out, generic_wrong);
  CHECK_PRINT(out, line_tables);
  CHECK_PRINT(out, lines);
  CHECK_PRINT(out, lines_wrong);
  CHECK_PRINT(out, classes);
  CHECK_PRINT(out, classes_wrong);
  CHECK_PRINT(out, short_strings);
  CHECK_PRINT(out, short_strings_wrong);
  CHECK_PRINT(out, no_methods);
  CHECK_PRINT(out, no_methods_taken);
}
