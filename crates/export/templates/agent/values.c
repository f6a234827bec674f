/* ------------ The registers, and what they are made to be ------------ */

//@if x86_64
#define REGISTER(name) context->uc_mcontext.gregs[REG_##name]
#define PC REGISTER(RIP)
#define SP REGISTER(RSP)
#define FP REGISTER(RBP)
//@end
//@if aarch64
#define REGISTER(number) context->uc_mcontext.regs[number]
#define PC context->uc_mcontext.pc
#define SP context->uc_mcontext.sp
#define FP REGISTER(29)
//@end

static int turn;
//@if near
static unsigned long long dice = 88172645463325252ull;

/* The finding's own number on the first turn at a sample, its neighbours on the following: no two moments are the same. */
static long near(long number, long step, long reach)
{
    if (turn == 0)
        return number;
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return dice & 1 ? number : number + step * (long)((dice >> 8) % (2 * reach + 1) - reach);
}
//@end
//@if stack-word,stack-slot,return-address,return-address-slot,caller-fp,nmethod-entry,nmethod-epilogue,deopt-handler,exception-handler,natural-pc,natural-sp,natural-fp,foreign-stack,red-zone,yellow-zone,reserved-zone,metaspace

static long pick(long number, long count)
{
    number = near(number, 1, count) % count;
    return number < 0 ? number + count : number;
}
//@end
//@if nmethod-body,nmethod-entry,nmethod-epilogue,native-wrapper,codelet,adapter,vtable-stub,runtime-stub,stub-routine,free-code

/* An address in one of these pieces of code: the number chooses both. */
static bool inside(const struct blob *all, int count, long number, word *value)
{
    if (count == 0)
        return false;
    long n = near(number, 1, 1 << 20);
    const struct blob *blob = &all[(n < 0 ? -n : n) % count];
    *value = blob->start + (word)(n * 0x9e3779b97f4a7c15) % (blob->end - blob->start);
    return true;
}
//@end
//@if stack-word

/* A word of the stack, counted from sp. */
static bool stack_word(struct walked *t, long number, word *value)
{
    return t->count > 0 && (*value = t->words[pick(number, t->count)], true);
}
//@end
//@if stack-slot

/* The address of a word of the stack, counted from sp. */
static bool stack_slot(struct walked *t, long number, word *value)
{
    return t->count > 0 && (*value = t->sp + 8 * pick(number, t->count), true);
}
//@end
//@if return-address

/* A word of the stack that is an address of code, counted from sp. */
static bool return_address(struct walked *t, long number, word *value)
{
    return t->code_count > 0 && (*value = t->words[t->code[pick(number, t->code_count)]], true);
}
//@end
//@if return-address-slot

/* The address of such a word. */
static bool return_address_slot(struct walked *t, long number, word *value)
{
    return t->code_count > 0 && (*value = t->sp + 8 * t->code[pick(number, t->code_count)], true);
}
//@end
//@if caller-fp

/* The word below such a word: where the caller's frame pointer is, if it is kept. */
static bool caller_fp(struct walked *t, long number, word *value)
{
    if (t->code_count == 0)
        return false;
    int at = t->code[pick(number, t->code_count)];
    return at > 0 && (*value = t->words[at - 1], true);
}
//@end
//@if nmethod-body

/* In compiled Java code. */
static bool nmethod_body(struct walked *t, long number, word *value)
{
    return inside(blobs[NMETHOD], blob_count[NMETHOD], number, value);
}
//@end
//@if nmethod-entry

/* In the first bytes of compiled Java code. */
static bool nmethod_entry(struct walked *t, long number, word *value)
{
    if (!inside(blobs[NMETHOD], blob_count[NMETHOD], number, value))
        return false;
    long n = pick(number, blob_count[NMETHOD]);
    *value = blobs[NMETHOD][n].start + (*value & 63);
    return true;
}
//@end
//@if nmethod-epilogue

/* Near the end of compiled Java code, where its frame is taken down. */
static bool nmethod_epilogue(struct walked *t, long number, word *value)
{
    if (!inside(blobs[NMETHOD], blob_count[NMETHOD], number, value))
        return false;
    long n = pick(number, blob_count[NMETHOD]);
    *value = blobs[NMETHOD][n].end - GRAIN - (*value & 63);
    return true;
}
//@end
//@if deopt-handler

static bool deopt_handler(struct walked *t, long number, word *value)
{
    return handler_count > 0 && (*value = handlers[pick(number, handler_count)].end, true);
}
//@end
//@if exception-handler

/* Between a method's instructions and its deoptimisation handler: the exception handler is there. */
static bool exception_handler(struct walked *t, long number, word *value)
{
    if (handler_count == 0)
        return false;
    struct blob *stubs = &handlers[pick(number, handler_count)];
    return stubs->end > stubs->start && (*value = stubs->start + near(0, 1, 1 << 20) % (stubs->end - stubs->start), true);
}
//@end
//@if native-wrapper

static bool native_wrapper(struct walked *t, long number, word *value)
{
    return inside(blobs[NATIVE_WRAPPER], blob_count[NATIVE_WRAPPER], number, value);
}
//@end
//@if codelet

static bool codelet(struct walked *t, long number, word *value)
{
    return inside(blobs[INTERPRETER], blob_count[INTERPRETER], number, value);
}
//@end
//@if adapter

static bool adapter(struct walked *t, long number, word *value)
{
    return inside(blobs[ADAPTER], blob_count[ADAPTER], number, value);
}
//@end
//@if vtable-stub

static bool vtable_stub(struct walked *t, long number, word *value)
{
    return inside(blobs[VTABLE_STUB], blob_count[VTABLE_STUB], number, value);
}
//@end
//@if runtime-stub

static bool runtime_stub(struct walked *t, long number, word *value)
{
    return inside(blobs[RUNTIME_STUB], blob_count[RUNTIME_STUB], number, value);
}
//@end
//@if stub-routine

static bool stub_routine(struct walked *t, long number, word *value)
{
    return inside(blobs[STUB_ROUTINE], blob_count[STUB_ROUTINE], number, value);
}
//@end
//@if free-code

/* Where a compiled method was before it was unloaded. */
static bool free_code(struct walked *t, long number, word *value)
{
    return inside(unloaded, unloaded_count, number, value);
}
//@end
//@if natural-pc,natural-sp,natural-fp

/* Which of the earlier samples of the same thread. */
static bool earlier(struct walked *t, long number, long *which)
{
    long kept = t->samples < 256 ? t->samples : 256;
    return kept > 0 && (*which = pick(number, kept), true);
}
//@end
//@if natural-pc

static bool natural_pc(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].pc, true);
}
//@end
//@if natural-sp

static bool natural_sp(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].sp, true);
}
//@end
//@if natural-fp

static bool natural_fp(struct walked *t, long number, word *value)
{
    long which;
    return earlier(t, number, &which) && (*value = t->earlier[which].fp, true);
}
//@end
//@if libjvm-text

/* In libjvm, not far from the walker. */
static bool libjvm_text(struct walked *t, long number, word *value)
{
    *value = (word)AsyncGetCallTrace + 64 * near(number % 1024, 1, 1024);
    return true;
}
//@end
//@if own-stack

/* In the walked thread's own stack. */
static bool own_stack(struct walked *t, long number, word *value)
{
    word used = t->stack_high - t->sp;
    *value = t->sp + (word)near(number, 1, 1 << 16) * 8 % used;
    return true;
}
//@end
//@if foreign-stack,red-zone,yellow-zone,reserved-zone

/* One of so many addresses, evenly spread from low to high, the first and the last among them; in any thread's range. */
static word spread(word low, word bytes, long number, int many)
{
    long step = bytes / (many - 1) * (number % many);
    return (low + (number % many == many - 1 ? bytes - 1 : (word)step)) & -(word)8;
}
//@end
//@if foreign-stack

/* In the used part of a walked thread's stack. */
static bool foreign_stack(struct walked *t, long number, word *value)
{
    long n = pick(number, 8 * thread_count);
    return *value = spread(threads[n / 8].stack_high - 4096, 4096, n, 8), true;
}
//@end
//@if red-zone,yellow-zone,reserved-zone

/*
 * From the low end of another Java thread's stack on: one page red zone, two pages yellow zone, one page reserved zone (HotSpot's defaults).
 * A fault in the thread's own zones HotSpot takes for a stack overflow of its Java code, and throws StackOverflowError out of the walk.
 */
static bool zone(struct walked *t, int page, int pages, long number, word *value)
{
    long n = pick(number, 3 * thread_count);
    *value = spread(threads[n / 3].stack_low + 4096 * page, 4096 * pages, n, 3);
    return &threads[n / 3] != t;
}
//@end
//@if red-zone

static bool red_zone(struct walked *t, long number, word *value) { return zone(t, 0, 1, number, value); }
//@end
//@if yellow-zone

static bool yellow_zone(struct walked *t, long number, word *value) { return zone(t, 1, 2, number, value); }
//@end
//@if reserved-zone

static bool reserved_zone(struct walked *t, long number, word *value) { return zone(t, 3, 1, number, value); }
//@end
//@if guard-pages

/* A page that nobody may touch, as the C library puts below a stack. */
static word guard_page;
static bool guard_pages(struct walked *t, long number, word *value)
{
    *value = guard_page + (word)near(number, 1, 1 << 10) * 8 % 4096;
    return true;
}
//@end
//@if heap

/* In the Java heap: at and behind an object. */
static word object;
static bool heap(struct walked *t, long number, word *value)
{
    *value = object + (word)near(number, 1, 1 << 10) * 8 % (1 << 16);
    return object != 0;
}
//@end
//@if metaspace

/* HotSpot's Method of some Java method. */
static bool metaspace(struct walked *t, long number, word *value)
{
    return method_count > 0 && (*value = metadata[pick(number, method_count)], true);
}
//@end
//@if unmapped

/* Where nothing is mapped. */
static word hole;
static bool unmapped(struct walked *t, long number, word *value)
{
    *value = hole + (word)near(number, 1, 1 << 10) * 8 % (1 << 20);
    return true;
}
//@end

/* The finding: {{PERTURBATION}}. False if this moment lacks what it needs, or pc is not where the finding's was. */
static bool edit(struct walked *t, ucontext_t *context)
{
{{EDITS}}
}

