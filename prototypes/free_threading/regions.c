/* Memory for C stacks: address space in large regions, cut into stacks; pages come when they are touched.

   Before 3.14 CPython counts its recursion in C and does not look at the stack: the limits assume the usual 8 MiB. So each
   tasklet has that much address space (more where the thread itself has more), and nothing that Python code does can reach
   the end of it before it would on a thread. Later versions compare the stack pointer with the bounds that they are given, so
   that any size is safe. Address space costs nothing, a stack in use costs the pages it has touched:
   usually one, because the first data-stack chunk lies right above where the C stack begins, in the same page.

        low                                                               start, a Stack        high
        | guard |                  ... C stack, grows down                | Stack, chunk grows up |

   Regions are few, so that the kernel's limit on the number of mappings does not limit the number of tasklets. For the same
   reason guards are made with MADV_GUARD_INSTALL (Linux 6.13), which does not split a mapping; an older kernel has none,
   and the distance alone has to do. */

#include <sys/mman.h>
#include <sys/resource.h>

#define STACK_BYTES ((size_t)(C_STACK_MEASURED ? 512 : 8192) << 10)
#define STACK_BYTES_MOST ((size_t)256 << 20) /* however large the thread's own stack is */
#define GUARD_BYTES ((size_t)65536)          /* more than a page: a function with large arrays must not step across */
#define ABOVE_BYTES ((size_t)16384)          /* of each stack lie in the pages from the one where it starts */
#ifndef WARM_STACKS
#define WARM_STACKS 1024 /* free ones that keep their pages, per thread */
#endif
#define WARM_BYTES ((size_t)16384)           /* of C stack that a free one keeps */
#define REGION_FIRST 16                      /* stacks in a thread's first region; each further one has twice as many */
#define REGION_MOST 1024

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

struct Stack {
    Stack *next; /* in a pool */
    Region *region;
    uint32_t slot;
    uint32_t uses;
    _PyStackChunk chunk;
};

struct Region {
    Region *next;
    char *memory;
    uint32_t count, fresh; /* stacks in it; from `fresh` on they were never used */
    uint32_t used;         /* handed out, or warm */
    uint32_t cold;         /* how many are in `free` */
    uint32_t free[];       /* free ones without pages */
};

/* How much C stack CPython counts on in this thread. */
static size_t
stack_bytes(void)
{
    size_t size = STACK_BYTES;
#if !C_STACK_MEASURED
    struct rlimit limit;
    size_t own = thread_stack_bytes();
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > size)
        size = limit.rlim_cur;
    if (own > size)
        size = own;
    if (size > STACK_BYTES_MOST)
        size = STACK_BYTES_MOST;
#endif
    return size;
}

static inline char *
stack_low(SwitchThread *thread, const Stack *stack)
{
    return stack->region->memory + stack->slot * thread->stride;
}

/* Where a stack starts. The place in its page differs from one to the next: they share the first-level cache. */
static inline Stack *
stack_at(SwitchThread *thread, const Region *region, size_t slot)
{
    return (Stack *)(region->memory + (slot + 1) * thread->stride - ABOVE_BYTES + 1280 + slot * 5 % 8 * 256);
}

static bool
region_has_room(const Region *region)
{
    return region != NULL && (region->cold > 0 || region->fresh < region->count);
}

/* A new region with as many stacks as can be had, the newest of the list. NULL when there is no memory. */
static Region *
region_make(SwitchThread *thread)
{
    uint32_t count = thread->regions == NULL ? REGION_FIRST : thread->regions->count * 2;
    if (thread->stride == 0) {
        size_t page = thread->page = (size_t)sysconf(_SC_PAGESIZE);
        /* Some pages more: at a power of two all stacks would compete for the same few entries of caches and TLBs. */
        thread->stride = ((stack_bytes() + page - 1) & ~(page - 1)) + 5 * page;
    }
    for (count = count < REGION_MOST ? count : REGION_MOST; count > 0; count /= 2) {
        size_t length = count * thread->stride;
        void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        Region *region;
        if (memory == MAP_FAILED)
            continue;
        region = malloc(sizeof *region + count * sizeof region->free[0]);
        if (region == NULL) {
            munmap(memory, length);
            return NULL;
        }
        madvise(memory, length, MADV_NOHUGEPAGE); /* one touched page must not become 2 MiB */
        *region = (Region){.next = thread->regions, .memory = memory, .count = count};
        thread->open = thread->regions = region;
        return region;
    }
    return NULL;
}

static void
region_free(SwitchThread *thread, Region *region)
{
    Region **place = &thread->regions;
    while (*place != region) {
        assert(*place != NULL); /* it is in its thread's list */
        place = &(*place)->next;
    }
    *place = region->next;
    if (thread->open == region)
        thread->open = thread->regions;
    munmap(region->memory, region->count * thread->stride);
    free(region);
}

/* A stack that is not in use: one whose pages were given back, or one that was never used. NULL when all are in use. */
static Stack *
stack_cut(SwitchThread *thread)
{
    static bool guards_refused;
    Region *region = thread->open;
    uint32_t slot;
    char *low, *high;
    Stack *stack;
    if (!region_has_room(region))
        for (region = thread->regions; region != NULL && !region_has_room(region);)
            region = region->next;
    if (region == NULL)
        region = region_make(thread);
    if (region == NULL)
        return NULL;
    thread->open = region;
    slot = region->cold > 0 ? region->free[--region->cold] : region->fresh;
    low = region->memory + slot * thread->stride;
    high = low + thread->stride;
    if (slot == region->fresh) {
        region->fresh++;
        if (!guards_refused && madvise(low, GUARD_BYTES, MADV_GUARD_INSTALL) < 0)
            guards_refused = true;
    }
    region->used++;
    stack = stack_at(thread, region, slot);
    stack->region = region;
    stack->slot = slot;
    stack->uses = 0;
    stack->chunk.previous = NULL;
    stack->chunk.size = (size_t)(high - (char *)&stack->chunk);
    stack->chunk.top = 0;
    return stack;
}

/* A stack that is not in use; NULL when there is no memory. */
static inline Stack *
stack_take(SwitchThread *thread)
{
    Stack *stack = thread->warm;
    if (unlikely(stack == NULL))
        return stack_cut(thread);
    thread->warm = stack->next;
    thread->warm_count--;
    return stack;
}

/* Give back the pages of a stack that is not in use and that we do not run on, and the region with the last of them. */
static __attribute__((noinline)) void
stack_retire(SwitchThread *thread, Stack *stack)
{
    Region *region = stack->region;
    char *low = stack_low(thread, stack);
    region->free[region->cold++] = stack->slot;
    madvise(low + GUARD_BYTES, thread->stride - GUARD_BYTES, MADV_DONTNEED);
    if (--region->used == 0)
        region_free(thread, region);
}

/* Whether the C stack was ever deeper than what a free one keeps. Return addresses stand there, then; a page that was
   never written reads as zeros and costs no memory. What this misses, counting finds later. */
static inline bool
stack_was_deep(Stack *stack)
{
    const volatile uint64_t *probe = (uint64_t *)((char *)stack - WARM_BYTES);
    uint64_t found = 0;
    for (int i = 0; i < 64; i++)
        found |= *--probe;
    return found != 0 || ++stack->uses % 64 == 0;
}

static __attribute__((noinline)) void
stack_shrink(SwitchThread *thread, Stack *stack)
{
    char *low = stack_low(thread, stack) + GUARD_BYTES;
    size_t length = thread->stride - GUARD_BYTES - ABOVE_BYTES - WARM_BYTES;
    madvise(low, length & ~(thread->page - 1), MADV_DONTNEED);
}

/* Put back a stack. We may still run on it, near its start, so its own pages there stay for now. */
static inline void
stack_give(SwitchThread *thread, Stack *stack)
{
    if (unlikely(thread->warm_count >= WARM_STACKS) && thread->warm != NULL)
        stack_retire(thread, stack_take(thread));
    if (unlikely(stack_was_deep(stack)))
        stack_shrink(thread, stack);
    stack->next = thread->warm;
    thread->warm = stack;
    thread->warm_count++;
}

/* Give back what no tasklet uses. A stack that a tasklet still has (one that refused to end with its thread) stays. */
static void
stacks_trim(SwitchThread *thread)
{
    while (thread->warm != NULL)
        stack_retire(thread, stack_take(thread));
}
