/* What AddressSanitizer must be told of stacks that are swapped. Nothing in any other build.

   It keeps one byte of shadow for eight of the stack and marks what lies around variables there. A slice leaves its marks
   behind when it is copied away, where other frames stand next: they are taken back for the whole slice. What is lost
   is the marks of the frames that were suspended, not those of the frames that are called from there on. */
#ifndef WEFT_SANITIZER_H
#define WEFT_SANITIZER_H

#ifdef __SANITIZE_ADDRESS__

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined")))

/* The stack between these two holds other frames from now on. */
static inline NOT_SANITIZED void
sanitizer_forget(char *low, char *high)
{
    if (low < high)
        ASAN_UNPOISON_MEMORY_REGION(low, (size_t)(high - low));
}

#else

#define NOT_SANITIZED

static inline void
sanitizer_forget(char *low, char *high)
{
    (void)low;
    (void)high;
}

#endif
#endif
