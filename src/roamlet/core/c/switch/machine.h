/* The machines that the native backend knows. */

#if defined(__linux__) && defined(__x86_64__)
#include "x86_64.h"
#elif defined(__linux__) && defined(__aarch64__) && !defined(__ILP32__)
#include "aarch64.h"
#else
#error "the native backend knows Linux on x86-64 and aarch64: greenlet serves elsewhere"
#endif
