/* Frames of suspended tasklets, seen from outside.

   On 3.12 and later the entry frame of each eval loop lies on the C stack, between the Python frames of the loop and their caller's.
   While a tasklet's slice is in its buffer other data stands there, so that f_back, which follows the links, would read nonsense.
   Whenever code can hold a frame object of such a tasklet, the links are bent around the entry frames, and bent back before it goes
   on. */

struct Exposure {
    int count, capacity;
    struct {
        _PyInterpreterFrame *frame, *previous;
    } link[];
};

/* Where something of a suspended tasklet can be read now: what lies within its slice is in the buffer. */
static void *
saved_at(void *c_stack, void *wanted)
{
    CStack *stack = c_stack;
    char *place = wanted, *low = stack->sp;
    if (stack->length > 0 && place >= low && place < stack->base)
        place = stack->buffer + (place - low);
    return place;
}

#if ENTRY_FRAMES_ON_C_STACK

static inline _PyInterpreterFrame *
frame_saved_at(CStack *stack, _PyInterpreterFrame *frame)
{
    return saved_at(stack, frame);
}

static void
exposure_add(Exposure **exposure, _PyInterpreterFrame *frame)
{
    Exposure *list = *exposure;
    if (list == NULL || list->count == list->capacity) {
        int capacity = list == NULL ? 4 : list->capacity * 2;
        Exposure *grown = realloc(list, sizeof *grown + (size_t)capacity * sizeof grown->link[0]);
        if (grown == NULL)
            Py_FatalError("roamlet: out of memory while suspending a tasklet");
        if (list == NULL)
            grown->count = 0;
        grown->capacity = capacity;
        *exposure = list = grown;
    }
    list->link[list->count].frame = frame;
    list->link[list->count].previous = frame->previous;
    list->count++;
}

/* Bend the links of the chain that starts at `frame`. The stack is the running one (length 0) or a saved one. */
static void
frames_expose(SwitchState *sw, _PyInterpreterFrame *frame)
{
    while (frame != NULL && frame_is_entry(frame_saved_at(&sw->stack, frame)))
        frame = frame_saved_at(&sw->stack, frame)->previous;
    while (frame != NULL) {
        _PyInterpreterFrame *previous = frame->previous, *read;
        bool bent = false;
        while (previous != NULL && frame_is_entry(read = frame_saved_at(&sw->stack, previous))) {
            previous = read->previous;
            bent = true;
        }
        if (bent) {
            exposure_add(&sw->exposed, frame);
            frame->previous = previous;
        }
        frame = previous;
    }
}

/* Bend them back. The tasklet is about to run. */
static void
frames_conceal(SwitchState *sw)
{
    Exposure *list = sw->exposed;
    for (int i = 0; i < list->count; i++)
        list->link[i].frame->previous = list->link[i].previous;
    free(list);
    sw->exposed = NULL;
}

/* Whether any code can hold a frame object of the running chain. */
static inline bool
frames_seen(_PyInterpreterFrame *frame)
{
#ifdef FRAMES_ALWAYS_SEEN
    return true;
#endif
    for (; frame != NULL; frame = frame->previous)
        if (unlikely(!frame_is_entry(frame) && frame->frame_obj != NULL))
            return true;
    return false;
}

#endif

static PyObject *
switch_frame(Tasklet *tasklet)
{
    SwitchState *sw = &tasklet->sw;
    _PyInterpreterFrame *frame = version_frame(&sw->fields.version, saved_at, &sw->stack), *own;
    PyThreadState *tstate = PyThreadState_Get();
    PyFrameObject *object;
    int collecting;

#if ENTRY_FRAMES_ON_C_STACK
    if (sw->exposed == NULL && sw->stack.length > 0)
        frames_expose(sw, frame);
    while (frame != NULL && frame_is_entry(frame_saved_at(&sw->stack, frame)))
        frame = frame_saved_at(&sw->stack, frame)->previous;
#endif
    if (frame == NULL)
        Py_RETURN_NONE;
    /* The public function that makes a frame object looks at the current frame only. No collection in between. */
    collecting = PyGC_Disable();
    own = tstate_frame(tstate);
    tstate_set_frame(tstate, frame);
    object = PyThreadState_GetFrame(tstate);
    tstate_set_frame(tstate, own);
    if (collecting)
        PyGC_Enable();
    if (object == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    return (PyObject *)object;
}
