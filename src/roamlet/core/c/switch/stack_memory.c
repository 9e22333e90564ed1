/* Memory for the C stacks of a thread: address space in regions, cut into stacks; pages come when they are touched.

   Before 3.14 CPython counts its recursion in C and does not look at the stack: the limits assume the usual 8 MiB. So each stack
   has that much address space (more where the thread itself has more), and nothing that Python code does can reach the end of it
   before it would on a thread. Later versions compare the stack pointer with the bounds that they are given.

        low                                                   base, a little below the end
        | guard |                     ... C stack, grows down | */

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define STACK_BYTES ((size_t)8192 << 10)
#define STACK_BYTES_MOST ((size_t)256 << 20) /* however large the thread's own stack is */
#define GUARD_BYTES ((size_t)65536)          /* more than a page: a function with large arrays must not step across */
#define WARM_BYTES ((size_t)16384)           /* of C stack that one without tasklets keeps */
#define REGION_FIRST 8                       /* stacks in a thread's first region; each further one has twice as many */
#ifndef STACKS_MOST
#define STACKS_MOST 256 /* in a thread, and the common one; further tasklets share them */
#endif
#define STACKS_OF_PROCESS 8192 /* at most: each takes two mappings with its guard, of which a process may have 65,530 */
#define ADDRESSES_PART 8       /* of what the process may have (ulimit -v) at most are reserved */
#define COUNTED_BYTES ((size_t)128 << 20) /* of stacks in a process where the kernel counts what is not touched, too */

struct Region {
    Region *next;
    char *memory;
    uint32_t count, fresh; /* stacks in it; from `fresh` on they were never used */
    Stack stacks[];
};

static uint32_t stacks_made;     /* in the process, of those that are still there */
static size_t stacks_reserved;   /* bytes of address space */

/* How much C stack CPython counts on in this thread. */
static size_t
stack_bytes(void)
{
    struct rlimit limit;
    size_t size = STACK_BYTES, own = thread_stack_bytes();
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > size)
        size = limit.rlim_cur;
    if (own > size)
        size = own;
    return size < STACK_BYTES_MOST ? size : STACK_BYTES_MOST;
}

/* Whether so much more address space may be reserved: most of what the process may have is left to others. */
static bool
stacks_may_reserve(size_t length)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           stacks_reserved + length <= limit.rlim_cur / ADDRESSES_PART;
}

/* Whether the kernel counts memory that may be written before it is touched (vm.overcommit_memory = 2): 2 GiB for the stacks of a thread
   would be taken from others then. */
static bool
stacks_are_counted(void)
{
    static int counted = -1;
    if (counted < 0) {
        char mode = '0';
        int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
        counted = file >= 0 && read(file, &mode, 1) == 1 && mode == '2';
        if (file >= 0)
            close(file);
    }
    return counted;
}

/* A new region with as many stacks as can be had, the newest of the list. NULL when there is no memory, or there are enough. */
static Region *
region_make(SwitchThread *thread)
{
    uint32_t count = thread->regions == NULL ? REGION_FIRST : thread->regions->count * 2, most = STACKS_MOST + 1 - thread->stacks;
    if (thread->stride == 0) {
        size_t page = thread->page = (size_t)sysconf(_SC_PAGESIZE);
        /* Some pages more: at a power of two all stacks would compete for the same few entries of caches and TLBs. */
        thread->stride = ((stack_bytes() + page - 1) & ~(page - 1)) + GUARD_BYTES + 5 * page;
    }
    for (count = count < most ? count : most; count > 0; count /= 2) {
        size_t length = count * thread->stride;
        void *memory = MAP_FAILED;
        Region *region;
        if (stacks_may_reserve(length)) /* none of it is accessible yet, and it counts for no limit but that of addresses */
            memory = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        region = malloc(sizeof *region + count * sizeof region->stacks[0]);
        if (region == NULL) {
            munmap(memory, length);
            return NULL;
        }
        madvise(memory, length, MADV_NOHUGEPAGE); /* one touched page must not become 2 MiB */
        *region = (Region){.next = thread->regions, .memory = memory, .count = count};
        thread->regions = region;
        stacks_reserved += length;
        return region;
    }
    return NULL;
}

/* A stack that was never used. NULL when all are in use and another cannot be had. */
static Stack *
stack_cut(SwitchThread *thread)
{
    Region *region = thread->regions;
    Stack *stack;
    char *low, *end;
    uint32_t slot;
    if ((region == NULL || region->fresh == region->count) && (region = region_make(thread)) == NULL)
        return NULL;
    slot = region->fresh;
    low = region->memory + slot * thread->stride;
    end = low + thread->stride;
    if (stacks_made >= STACKS_OF_PROCESS || (stacks_are_counted() && (stacks_made + 1) * thread->stride > COUNTED_BYTES))
        return NULL;
    if (mprotect(low + GUARD_BYTES, thread->stride - GUARD_BYTES, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    region->fresh++;
    stacks_made++;
    stack = &region->stacks[slot];
    memset(stack, 0, sizeof *stack);
    stack->low = low + GUARD_BYTES;
    stack->base = end - 64 - slot * 5 % 8 * 192; /* not the same place of each page: they share the first-level cache */
    version_thread_own(&stack->version);
    version_limits(&stack->limits, stack->low, end);
    thread->stacks++;
    return stack;
}

/* The stacks in turn; NULL when the thread has none but its own. */
static Stack *
stack_next(SwitchThread *thread)
{
    if (thread->stacks == 0)
        return NULL;
    while (thread->looking == NULL || thread->looking_slot >= thread->looking->fresh) {
        thread->looking = thread->looking != NULL && thread->looking->next != NULL ? thread->looking->next : thread->regions;
        thread->looking_slot = 0;
    }
    return &thread->looking->stacks[thread->looking_slot++];
}

/* Whether the C stack was ever deeper than what one without tasklets keeps. Return addresses stand there, then; a page that was
   never written reads as zeros and costs no memory. What this misses, counting finds later. */
static inline NOT_SANITIZED bool
stack_was_deep(Stack *stack)
{
    const volatile uint64_t *probe = (uint64_t *)(stack->base - WARM_BYTES);
    uint64_t found = 0;
    for (int i = 0; i < 64; i++) /* an eighth of it was all zeros on CPython 3.13: room in a frame that C code had not used */
        found |= *--probe;
    return found != 0 || ++stack->uses % 64 == 0;
}

/* Give back the pages that lie deeper than WARM_BYTES. No tasklet's slice may lie there. */
static __attribute__((noinline)) void
stack_shrink(SwitchThread *thread, Stack *stack)
{
    size_t length = (size_t)(stack->base - stack->low) - WARM_BYTES;
    madvise(stack->low, length & ~(thread->page - 1), MADV_DONTNEED);
}

/* A tasklet does not belong to its stack any more. We may still run on it, near its base. */
static inline void
stack_left(SwitchThread *thread, Stack *stack)
{
    if (--stack->members > 0 || stack->low == NULL || stack == thread->common)
        return;
    if (unlikely(stack_was_deep(stack)))
        stack_shrink(thread, stack);
    stack->next = thread->free;
    thread->free = stack;
}

/* Give back what no tasklet belongs to: the pages of each stack, and regions with no other. */
static void
stacks_trim(SwitchThread *thread)
{
    Region **place = &thread->regions, *region;
    thread->free = NULL;
    thread->looking = NULL;
    thread->looking_slot = thread->refused = 0;
    if (thread->common != NULL && thread->common->members == 0)
        thread->common = NULL;
    while ((region = *place) != NULL) {
        bool used = false;
        for (uint32_t slot = 0; slot < region->fresh; slot++)
            used |= region->stacks[slot].members > 0;
        if (!used) {
            *place = region->next;
            /* What is mapped there next, with other frames at its top, would find the marks of these. */
            sanitizer_forget(region->memory, region->memory + region->count * thread->stride);
            munmap(region->memory, region->count * thread->stride);
            thread->stacks -= region->fresh;
            stacks_made -= region->fresh;
            stacks_reserved -= region->count * thread->stride;
            free(region);
            continue;
        }
        for (uint32_t slot = 0; slot < region->fresh; slot++) {
            Stack *stack = &region->stacks[slot];
            if (stack->members > 0)
                continue;
            madvise(stack->low, thread->stride - GUARD_BYTES, MADV_DONTNEED);
            stack->next = thread->free;
            thread->free = stack;
        }
        place = &region->next;
    }
}
