/* State of the watchdog's event sources in each scheduler. See preempt.c. */
#ifndef WEFT_PREEMPT_H
#define WEFT_PREEMPT_H

typedef struct {
    int64_t budget; /* opcodes */
    int64_t slice;  /* ns */
} Preempt;

#endif
