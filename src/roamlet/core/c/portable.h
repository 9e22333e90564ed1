/* Wheels run on systems whose glibc is older than that of the system where they were built. Since 2.32 and 2.34 functions of libpthread
   are in libc, by the same names and with new versions; the old versions are there too, for programs that were linked before. With
   ROAMLET_PORTABLE, which tools/wheels sets, those are taken. Nothing about these functions changed with the version. */
#ifndef ROAMLET_PORTABLE_H
#define ROAMLET_PORTABLE_H

#include <features.h>

#if defined(ROAMLET_PORTABLE) && defined(__GLIBC__)
#ifdef __x86_64__
#define PORTABLE_AS(name, old, x86_64, aarch64) __asm__(".symver " #name "," #old "@GLIBC_" x86_64);
#else
#define PORTABLE_AS(name, old, x86_64, aarch64) __asm__(".symver " #name "," #old "@GLIBC_" aarch64);
#endif
#define PORTABLE(name, x86_64, aarch64) PORTABLE_AS(name, name, x86_64, aarch64)
PORTABLE_AS(fcntl64, fcntl, "2.2.5", "2.17") /* one function, where long has 64 bits */
PORTABLE(pthread_attr_getstacksize, "2.2.5", "2.17")
PORTABLE(pthread_attr_setstacksize, "2.2.5", "2.17")
PORTABLE(pthread_condattr_setclock, "2.3.3", "2.17")
PORTABLE(pthread_create, "2.2.5", "2.17")
PORTABLE(pthread_getattr_np, "2.2.5", "2.17")
PORTABLE(pthread_join, "2.2.5", "2.17")
PORTABLE(pthread_setname_np, "2.12", "2.17")
PORTABLE(pthread_sigmask, "2.2.5", "2.17")
#undef PORTABLE
#undef PORTABLE_AS
#endif

#endif
