/* The register part of a switch on x86-64 (System V ABI).
   Only sp, bp and ip are saved by hand; the compiler saves what else it needs, because all is declared clobbered. */

#define STACK_CLOBBERS                                                                                                     \
    "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",    \
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory",  \
        "cc"

/* A call leaves its return address on the stack. */
#define RETURN_ADDRESS_BYTES sizeof(void *)

/* In the function where a stack begins, below `top`: no return address, so that code that unwinds the stack (a debugger, or
   pthread_exit when the interpreter ends a daemon thread) stops here. */
static inline __attribute__((always_inline)) void
stack_outermost(char *top)
{
    *(void *volatile *)(top - RETURN_ADDRESS_BYTES) = NULL;
}

/* Where the C stack ends now. Not __builtin_frame_address: it gives the calling function a frame pointer, which made a switch a tenth
   slower. */
static inline __attribute__((always_inline)) char *
stack_pointer(void)
{
    char *sp;
    __asm__ volatile("movq %%rsp, %0" : "=r"(sp));
    return sp;
}

/* The extension is built with -mno-red-zone, so that no function of ours keeps data below its stack pointer: saving
   those 128 bytes with every slice would cost a tenth of a message. */

__attribute__((noinline, used, visibility("hidden"))) void roamlet_slice_swap(CStack *from, CStack *to);

/* Save where we are in `from`, let roamlet_slice_swap exchange the slices, go on where `to` stopped.
   The copying runs on a stack below both slices, so that it never overwrites its own frame. */
static inline __attribute__((always_inline)) void
slices_jump(CStack *from, CStack *to)
{
    __asm__ volatile(
        "leaq 1f(%%rip), %%rcx\n\t"
        "movq %%rsp, 0(%0)\n\t"
        "movq %%rbp, 8(%0)\n\t"
        "movq %%rcx, 16(%0)\n\t"
        "movq %1, %%rbx\n\t"
        "movq 0(%1), %%rax\n\t"
        "cmpq %%rsp, %%rax\n\t"
        "cmovaq %%rsp, %%rax\n\t"
        "leaq -512(%%rax), %%rsp\n\t"
        "andq $-64, %%rsp\n\t"
        "call roamlet_slice_swap\n\t"
        "movq 8(%%rbx), %%rbp\n\t"
        "movq 0(%%rbx), %%rsp\n\t"
        "jmpq *16(%%rbx)\n\t"
        "1: endbr64\n\t"
        : "+D"(from), "+S"(to)
        :
        : STACK_CLOBBERS);
}

/* Save where we are in `from`, go on where `to` stopped. */
static inline __attribute__((always_inline)) void
stack_jump(CStack *from, CStack *to)
{
    __asm__ volatile(
        "leaq 1f(%%rip), %%rcx\n\t"
        "movq %%rsp, 0(%0)\n\t"
        "movq %%rbp, 8(%0)\n\t"
        "movq %%rcx, 16(%0)\n\t"
        "movq 8(%1), %%rbp\n\t"
        "movq 0(%1), %%rsp\n\t"
        "jmpq *16(%1)\n\t"
        "1: endbr64\n\t"
        : "+D"(from), "+S"(to)
        :
        : STACK_CLOBBERS);
}

/* Go on where `to` stopped, for good. */
static inline __attribute__((always_inline, noreturn)) void
stack_leave(const CStack *to)
{
    __asm__ volatile(
        "movq 8(%0), %%rbp\n\t"
        "movq 0(%0), %%rsp\n\t"
        "jmpq *16(%0)\n\t"
        :
        : "S"(to)
        : "memory");
    __builtin_unreachable();
}

/* The control words of the two floating-point units belong to a tasklet as the registers do. */
typedef struct {
    uint32_t mxcsr;
    uint16_t x87;
} FloatControl;

static inline __attribute__((always_inline)) void
float_control_read(FloatControl *control)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control->mxcsr), "=m"(control->x87));
}

/* Go from `now`, which was read, to `wanted`. Writing is slow and almost never needed. */
static inline __attribute__((always_inline)) void
float_control_change(const FloatControl *now, const FloatControl *wanted)
{
    if (unlikely(now->mxcsr != wanted->mxcsr))
        __asm__ volatile("ldmxcsr %0" : : "m"(wanted->mxcsr));
    if (unlikely(now->x87 != wanted->x87))
        __asm__ volatile("fldcw %0" : : "m"(wanted->x87));
}

/* Whether the kernel keeps a shadow copy of return addresses for this process, which slicing would contradict. */
#include <sys/syscall.h>
#include <unistd.h>
static bool
shadow_stack_enabled(void)
{
    unsigned long features = 0;
    return syscall(SYS_arch_prctl, 0x5005 /* ARCH_SHSTK_STATUS */, &features) == 0 && (features & 1) != 0;
}
