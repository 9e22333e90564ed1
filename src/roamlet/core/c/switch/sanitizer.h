/* What AddressSanitizer and ThreadSanitizer must be told of stacks that are swapped. Nothing in any other build.

   AddressSanitizer keeps one byte of shadow for eight of the stack and marks what lies around variables there. A slice leaves its marks
   behind when it is copied away, where other frames stand next: they are taken back for the whole slice. What is lost
   is the marks of the frames that were suspended, not those of the frames that are called from there on. Stacks of
   their own keep theirs: there it is told which of them is in use.

   ThreadSanitizer notes the calls of each thread, and would take those of all its tasklets for one chain. So each tasklet is a fiber of its; what one
   has done happens before what the next one does. */
#ifndef ROAMLET_SANITIZER_H
#define ROAMLET_SANITIZER_H

#ifdef __SANITIZE_ADDRESS__

#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined")))

/* Where a tasklet's own stack lies, and what the sanitizer keeps for it while it is suspended. */
typedef struct {
    void *kept;
    const void *low;
    size_t size;
} SanitizedStack;

/* We are about to jump to `to`; `from` is NULL when it is never resumed. */
static inline NOT_SANITIZED void
sanitizer_leaves(SanitizedStack *from, const SanitizedStack *to)
{
    __sanitizer_start_switch_fiber(from != NULL ? &from->kept : NULL, to->low, to->size);
}

/* We have arrived. */
static inline NOT_SANITIZED void
sanitizer_arrives(SanitizedStack *here)
{
    __sanitizer_finish_switch_fiber(here->kept, NULL, NULL);
    here->kept = NULL;
}

/* The stack of the thread itself. */
static inline void
sanitizer_thread(SanitizedStack *here)
{
    pthread_attr_t attributes;
    void *low = NULL;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &low, &here->size);
        pthread_attr_destroy(&attributes);
    }
    here->low = low;
}

/* A stack of a tasklet's own, which was not used since it was forgotten; the thread's where `low` is NULL. */
static inline void
sanitizer_stack(SanitizedStack *here, char *low, char *high)
{
    here->kept = NULL;
    if (low == NULL) {
        sanitizer_thread(here);
        return;
    }
    here->low = low;
    here->size = (size_t)(high - low);
}

/* The stack between these two holds other frames from now on. */
static inline NOT_SANITIZED void
sanitizer_forget(char *low, char *high)
{
    if (low < high)
        ASAN_UNPOISON_MEMORY_REGION(low, (size_t)(high - low));
}

#elif defined(__SANITIZE_THREAD__)

#include <sanitizer/tsan_interface.h>

#define NOT_SANITIZED __attribute__((no_sanitize("thread")))

typedef struct {
    void *fiber; /* the tasklet's; a main tasklet's is the thread's own */
} SanitizedStack;

static __thread void *sanitizer_dead; /* the fiber of a tasklet that has just ended, which could not be dropped on it; NULL: none */

static inline NOT_SANITIZED void
sanitizer_leaves(const SanitizedStack *from, const SanitizedStack *to)
{
    if (from == NULL)
        sanitizer_dead = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->fiber, 0);
}

static inline NOT_SANITIZED void
sanitizer_arrives(const SanitizedStack *here)
{
    (void)here;
    if (sanitizer_dead != NULL)
        __tsan_destroy_fiber(sanitizer_dead);
    sanitizer_dead = NULL;
}

static inline NOT_SANITIZED void
sanitizer_thread(SanitizedStack *here)
{
    here->fiber = __tsan_get_current_fiber();
}

static inline NOT_SANITIZED void
sanitizer_stack(SanitizedStack *here, const char *low, const char *high)
{
    (void)low;
    (void)high;
    here->fiber = __tsan_create_fiber(0);
}

static inline void
sanitizer_forget(char *low, char *high)
{
    (void)low;
    (void)high;
}

#else

#define NOT_SANITIZED

typedef struct {
    char unused[0];
} SanitizedStack;

#define sanitizer_leaves(from, to) ((void)0)
#define sanitizer_arrives(here) ((void)0)
#define sanitizer_thread(here) ((void)0)
#define sanitizer_stack(here, low, high) ((void)0)

static inline void
sanitizer_forget(char *low, char *high)
{
    (void)low;
    (void)high;
}

#endif
#endif
