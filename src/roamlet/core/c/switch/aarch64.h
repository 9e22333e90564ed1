/* The register part of a switch on aarch64 (AAPCS64).
   Only sp, the frame pointer and the place to go on are saved by hand; the compiler saves what else it needs, because all
   is declared clobbered. There is no red zone. `hint 38` is `bti jc`, for processes that check where jumps land; x16 is
   the register through which a jump may also reach the beginning of a function. */

#ifdef __ARM_FEATURE_SVE
#define STACK_CLOBBERS_SVE                                                                                                 \
    , "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"
#else
#define STACK_CLOBBERS_SVE
#endif

#define STACK_CLOBBERS                                                                                                     \
    "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",       \
        "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", \
        "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",     \
        "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc" STACK_CLOBBERS_SVE

/* A call leaves nothing on the stack: the return address is in x30, which is 0 where a stack begins. */
#define RETURN_ADDRESS_BYTES 0

/* In the function where a stack begins: code that unwinds the stack (a debugger, or pthread_exit when the interpreter ends a
   daemon thread) stops here. */
static inline __attribute__((always_inline)) void
stack_outermost(const char *top)
{
    (void)top;
    __asm__ volatile(".cfi_undefined x30");
}

/* Where the C stack ends now: see x86_64.h. */
static inline __attribute__((always_inline)) char *
stack_pointer(void)
{
    char *sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

__attribute__((noinline, used, visibility("hidden"))) void roamlet_slice_swap(CStack *from, CStack *to);

/* Save where we are in `from`, let roamlet_slice_swap exchange the slices, go on where `to` stopped.
   The copying runs on a stack below both slices, so that it never overwrites its own frame. */
static inline __attribute__((always_inline)) void
slices_jump(CStack *from, CStack *to)
{
    register CStack *leaving __asm__("x0") = from;
    register CStack *entering __asm__("x1") = to;
    __asm__ volatile(
        "adr x9, 1f\n\t"
        "mov x10, sp\n\t"
        "stp x10, x29, [%0]\n\t"
        "str x9, [%0, #16]\n\t"
        "mov x19, %1\n\t"
        "ldr x11, [%1]\n\t"
        "cmp x11, x10\n\t"
        "csel x11, x11, x10, lo\n\t"
        "sub x11, x11, #512\n\t"
        "and sp, x11, #-64\n\t"
        "bl roamlet_slice_swap\n\t"
        "ldp x10, x29, [x19]\n\t"
        "ldr x16, [x19, #16]\n\t"
        "mov sp, x10\n\t"
        "mov x30, xzr\n\t"
        "br x16\n\t"
        "1: hint 38\n\t"
        : "+r"(leaving), "+r"(entering)
        :
        : STACK_CLOBBERS);
}

/* Save where we are in `from`, go on where `to` stopped. */
static inline __attribute__((always_inline)) void
stack_jump(CStack *from, CStack *to)
{
    register CStack *leaving __asm__("x0") = from;
    register CStack *entering __asm__("x1") = to;
    __asm__ volatile(
        "adr x9, 1f\n\t"
        "mov x10, sp\n\t"
        "stp x10, x29, [%0]\n\t"
        "str x9, [%0, #16]\n\t"
        "ldp x10, x29, [%1]\n\t"
        "ldr x16, [%1, #16]\n\t"
        "mov sp, x10\n\t"
        "mov x30, xzr\n\t"
        "br x16\n\t"
        "1: hint 38\n\t"
        : "+r"(leaving), "+r"(entering)
        :
        : STACK_CLOBBERS);
}

/* Go on where `to` stopped, for good. */
static inline __attribute__((always_inline, noreturn)) void
stack_leave(const CStack *to)
{
    register const CStack *entering __asm__("x1") = to;
    __asm__ volatile(
        "ldp x10, x29, [%0]\n\t"
        "ldr x16, [%0, #16]\n\t"
        "mov sp, x10\n\t"
        "mov x30, xzr\n\t"
        "br x16\n\t"
        :
        : "r"(entering)
        : "memory");
    __builtin_unreachable();
}

/* The control register of the floating-point unit belongs to a tasklet as the others do. */
typedef struct {
    uint64_t fpcr;
} FloatControl;

static inline __attribute__((always_inline)) void
float_control_read(FloatControl *control)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(control->fpcr));
}

/* Go from `now`, which was read, to `wanted`. Writing is slow and almost never needed. */
static inline __attribute__((always_inline)) void
float_control_change(const FloatControl *now, const FloatControl *wanted)
{
    if (unlikely(now->fpcr != wanted->fpcr))
        __asm__ volatile("msr fpcr, %0" : : "r"(wanted->fpcr));
}

/* Whether the kernel keeps a shadow copy of return addresses for this process (Guarded Control Stack). */
#include <sys/prctl.h>
static bool
shadow_stack_enabled(void)
{
    unsigned long features = 0;
    return prctl(74 /* PR_GET_SHADOW_STACK_STATUS */, &features, 0, 0, 0) == 0 && (features & 1) != 0;
}
