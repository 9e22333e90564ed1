/* CPython 3.15: as 3.14, but that every chain of frames ends in the thread's sentinel, by which a profiler knows that it has
   read all of it. */
#define FRAMES_END(tstate) ((tstate)->base_frame)
#define FRAME_IS_END(frame) ((frame)->instr_ptr == NULL) /* greenlet ends its chains without it */
#include "v314.h"
