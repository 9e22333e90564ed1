/* This module's table for readers outside of the process: which descriptor a tasklet waits for, and for what. core/c/layout.h has the form. */
#include "../../core/c/layout.h"

#define IO_NUMBERS                                                                                                        \
    {                                                                                                                     \
        LAYOUT_AT("Descriptor.fd", Descriptor, fd), LAYOUT_AT("Descriptor.read", Descriptor, waiting[READ]),              \
        LAYOUT_AT("Descriptor.write", Descriptor, waiting[WRITE]), LAYOUT_AT("Descriptor.closed", Descriptor, closed),    \
    }

#define IO_ADDRESSES                                                                                                      \
    {                                                                                                                     \
        {"type.Descriptor", &Descriptor_Type},                                                                            \
    }

LAYOUT_TABLE("io", "", IO_NUMBERS, IO_ADDRESSES);
