/* CPython 3.15: includes v314.h, and differs in the end of a chain of frames and in the states of generators. Every chain ends in
   the thread's sentinel, by which a profiler knows that it has read all of it. Of the states one that has ended is cleared at
   once. What else is new in the thread state is told in v314.h. */
#define FRAMES_END(tstate) ((tstate)->base_frame)
#define FRAME_IS_END(frame) ((frame)->instr_ptr == NULL) /* greenlet ends its chains without it */
#define FINISHED_STATE FRAME_CLEARED
#define AWAITED_OPERAND 2 /* an index for iterators without an object is above it */
#define LOOPS_HAVE_INDEX 1
#define LAZY_IMPORTS_FIELD lazy_imports
#define IMPORT_NAME_SHIFT 2 /* whether the statement says `lazy` is in the two bits below */
#include "v314.h"
