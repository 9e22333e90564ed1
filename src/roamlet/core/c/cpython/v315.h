/* CPython 3.15: includes v314.h, and differs in one thing alone: every chain of frames ends in the thread's sentinel.
   By it a profiler knows that it has read all of the chain. What else is new in the thread state is told in v314.h. */
#define FRAMES_END(tstate) ((tstate)->base_frame)
#define FRAME_IS_END(frame) ((frame)->instr_ptr == NULL) /* greenlet ends its chains without it */
#include "v314.h"
