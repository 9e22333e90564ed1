/* Building the frames of a saved tasklet, inside a new one.

   The new tasklet runs base(), a function of loading/helpers.py, which calls build() and then bridge(), which calls go_on(). check() has made
   sure before that nothing can fail there but memory. build() puts the frames on the thread's data stack, below the bridge's; unbuild()
   gives them back, when a signal handler raises before go_on() is reached. go_on() relinks them: the bridge's caller is the innermost
   one now, and the outermost one's whoever called base(), whose frame is dropped. (On 3.11, where that frame's end is the business of C
   code, it stays.) Then the tasklet is suspended, and what it is woken with, the bridge returns into the innermost frame, or raises
   there. All of that happens in one run of the interpreter's loop, so that the frames are like any other. */

/* ---- records ---- */

typedef struct {
    PyFunctionObject *function;
    Py_ssize_t unit;
    int offset;
    PyObject *nulls, *slots;
    PyGenObject *generator; /* NULL: none */
    PyObject *handled;
} Record;

static int
record_bad(const char *what)
{
    PyErr_Format(PyExc_ValueError, "bad record of a frame: %s", what);
    return -1;
}

/* Read a record; all in it is borrowed. `functions` has those that are named by a number. `value`: one is to come for it.
   -1 with an exception set. */
static int
record_read(PyObject *object, PyObject *functions, bool value, Record *record)
{
    PyObject *function, *generator = NULL;
    PyCodeObject *code;
    *record = (Record){.handled = Py_None};
    if (!PyTuple_Check(object) || !PyArg_ParseTuple(object, "OniOO|OO", &function, &record->unit, &record->offset, &record->nulls,
                                                    &record->slots, &generator, &record->handled))
        return record_bad("it is no tuple of the right form");
    if (PyLong_CheckExact(function)) {
        Py_ssize_t number = PyLong_AsSsize_t(function);
        if (number < 0 || number >= PyList_GET_SIZE(functions))
            return record_bad("it names a function that is not there");
        function = PyList_GET_ITEM(functions, number);
    }
    if (!PyFunction_Check(function) || !PyTuple_Check(record->slots) ||
        !nulls_are_right(record->nulls, record->slots, (PyCodeObject *)((PyFunctionObject *)function)->func_code))
        return record_bad("something in it has another type");
    record->function = (PyFunctionObject *)function;
    code = (PyCodeObject *)record->function->func_code;
    if ((code->co_flags & (CO_GENERATOR | CO_COROUTINE)) != 0) {
        if (generator == NULL || !(PyGen_CheckExact(generator) || PyCoro_CheckExact(generator)))
            return record_bad("it lacks its generator");
        record->generator = (PyGenObject *)generator;
        if (!generator_is_new(record->generator) || frame_code(generator_frame(record->generator)) != code)
            return record_bad("its generator is another one");
    } else if (generator != NULL || (code->co_flags & (CO_ASYNC_GENERATOR | CO_OPTIMIZED)) != CO_OPTIMIZED)
        return record_bad("its code is of another kind");
    if (record->unit < -1 || record->unit > Py_SIZE(code) ||
        !position_fits(code, value ? record->unit : record->unit - !FRAME_KEEPS_NEXT, record->offset, PyTuple_GET_SIZE(record->slots), value)) {
        PyErr_Format(PyExc_ValueError, "the saved state of a frame of %U does not fit its code", code->co_qualname);
        return -1;
    }
    return 0;
}

/* ---- build and go on ---- */

/* What build() does for ticket->records at i. They were checked, but code may have run since and have begun their generators. -1 with an
   exception set. */
static int
record_again(Ticket *ticket, Py_ssize_t i, Record *record)
{
    return record_read(PyList_GET_ITEM(ticket->records, i), ticket->functions, i < ticket->count - 1 || ticket->before < 0, record);
}

/* Compare a record with its code: the instruction that its frame is in, what its slots have, and whether a generator's frame is what the frame
   before runs. `before`: it goes on before this unit; -1: it takes a value. `spared`: so many operands from the bottom are not
   compared. `around` has where the frame before stands, with opcode -1 for none, and then where this one does. -1 with an exception set. */
static int
record_is_sound(const Record *record, Py_ssize_t before, Py_ssize_t spared, Standing *around)
{
    PyCodeObject *code = (PyCodeObject *)record->function->func_code;
    bool runs_generator = around->instruction.opcode == FOR_ITER || around->instruction.opcode == SEND;
    if (record->generator != NULL && !(GENERATORS_BLOCK && runs_generator && is_exception_or_none(record->handled)))
        return frame_bad(code);
    if (before < 0)
        return frame_is_sound(code, STANDS_WITHIN, record->unit, record->offset, record->nulls, record->slots, spared, around);
    if (record->offset != 0 || instruction_begins(code, record->unit) != before) {
        PyErr_Clear(); /* memory may be out */
        return frame_bad(code);
    }
    return frame_is_sound(code, STANDS_BEFORE, before, 0, record->nulls, record->slots, spared, around);
}

/* Whether the innermost frame is in a loop over a channel that ends at this unit, and has what its end gives back to it. */
static bool
record_ends(const Record *innermost, const Standing *standing, Py_ssize_t end)
{
    return standing->instruction.opcode == FOR_ITER && instruction_target(&standing->instruction) == end &&
           PyTuple_GET_SIZE(innermost->slots) > !GENERATORS_BLOCK;
}

/* Let the exception that a `with` block is left with have a traceback, if only None: 3.11 hands it on without looking. Those of
   snapshots have none, and a frame may have been interrupted in between. -1 with an exception set. */
static int
record_completes_exception(const Record *innermost, Py_ssize_t before)
{
    Py_ssize_t last = PyTuple_GET_SIZE(innermost->slots) - 1;
    PyObject *error = PyTuple_GET_ITEM(innermost->slots, last), *traceback;
    Instruction instruction;
    if (instruction_at((PyCodeObject *)innermost->function->func_code, before, &instruction) < 0)
        return -1;
    if ((instruction.opcode != PUSH_EXC_INFO && instruction.opcode != WITH_EXCEPT_START) || !PyExceptionInstance_Check(error))
        return 0;
    traceback = PyException_GetTraceback(error);
    Py_XDECREF(traceback);
    return traceback == NULL ? PyException_SetTraceback(error, Py_None) : 0;
}

static PyObject *
native_check(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *functions, *records, *handled, *returns, *keeps;
    Py_ssize_t before, end, count, held = -1;
    Standing standing = {.instruction.opcode = -1};
    Record record = {0};
    Ticket *ticket;
    if (!PyArg_ParseTuple(args, "O!O!OnnOO|n:check", &PyList_Type, &functions, &PyList_Type, &records, &handled, &before, &end, &returns, &keeps,
                          &held))
        return NULL;
    if (!calls_are_inlined()) {
        PyErr_SetString(PyExc_RuntimeError, "a tasklet cannot be restored while a frame evaluator (PEP 523: a debugger, a compiler) is "
                                            "installed: Python calls leave the interpreter's loop then");
        return NULL;
    }
    count = PyList_GET_SIZE(records);
    if (tstate->RECURSION_LIMIT <= count + 8) {
        PyErr_Format(PyExc_RecursionError, "the snapshot's tasklet is %zd calls deep, more than the recursion limit allows: raise it with "
                                           "sys.setrecursionlimit()", count);
        return NULL;
    }
    if (!is_exception_or_none(handled)) {
        record_bad("it handles what is no exception");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        bool last = i == count - 1;
        Py_ssize_t spared = 0;
        if (record_read(PyList_GET_ITEM(records, i), functions, !last || before < 0, &record) < 0)
            return NULL;
        if (i == 0 && held >= 0)
            spared = PyTuple_GET_SIZE(record.slots) - ((PyCodeObject *)record.function->func_code)->co_nlocalsplus - held;
        if (record_is_sound(&record, last ? before : -1, spared, &standing) < 0)
            return NULL;
    }
    if (count > 0 && (before >= 0 || end >= 0)) {
        if (PyTuple_GET_SIZE(record.slots) == 0 || (before >= 0) == (end >= 0) || (end >= 0 && !record_ends(&record, &standing, end))) {
            record_bad("it goes on outside of its code");
            return NULL;
        }
        if (before >= 0 && record_completes_exception(&record, before) < 0)
            return NULL;
    }
    if (!(PyTuple_Check(returns) && PyTuple_GET_SIZE(returns) == 1) && !PyLong_Check(returns) && returns != Py_None) {
        record_bad("what its call returns has another type");
        return NULL;
    }
    ticket = (Ticket *)ticket_type->tp_alloc(ticket_type, 0);
    if (ticket == NULL)
        return NULL;
    ticket->frames = PyMem_Calloc((size_t)count + 1, sizeof(void *));
    ticket->generators_handle = PyMem_Calloc((size_t)count + 1, sizeof(void *));
    ticket->count = count;
    ticket->records = PyList_GetSlice(records, 0, count); /* of its own */
    ticket->functions = Py_NewRef(functions);
    ticket->handled = handled != Py_None ? Py_NewRef(handled) : NULL;
    ticket->returns = Py_NewRef(returns);
    ticket->keeps = Py_NewRef(keeps);
    ticket->before = before;
    ticket->end = end;
    ticket->silence = silence_type->tp_alloc(silence_type, 0);
    if (ticket->frames == NULL || ticket->generators_handle == NULL)
        PyErr_NoMemory();
    if (ticket->frames == NULL || ticket->generators_handle == NULL || ticket->records == NULL || ticket->silence == NULL)
        Py_CLEAR(ticket);
    return (PyObject *)ticket;
}

/* Take memory for all frames and the bridge's. -1 with an exception set, and nothing taken. */
static int
frames_take(Ticket *ticket, PyThreadState *tstate)
{
    Record record;
    ticket->below = data_stack(tstate);
    for (Py_ssize_t i = 0; i < ticket->count; i++) {
        if (record_again(ticket, i, &record) < 0 || code_follow_events((PyCodeObject *)record.function->func_code) < 0)
            ticket->frames[i] = NULL;
        else
            ticket->frames[i] = record.generator != NULL
                                    ? generator_frame(record.generator)
                                    : data_stack_take(tstate, frame_words((PyCodeObject *)record.function->func_code));
        if (ticket->frames[i] == NULL) {
            data_stack_rewind(tstate, &ticket->below);
            return -1;
        }
    }
    if (data_stack_take(tstate, 0) != NULL) {
        ticket->above = data_stack(tstate);
        return 0;
    }
    data_stack_rewind(tstate, &ticket->below);
    return -1;
}

/* Give back what build() has made, unless go_on() took it over. Runs code of finalizers. */
static void
ticket_unbuild(Ticket *ticket)
{
    PyThreadState *tstate = PyThreadState_Get();
    if (!ticket->built || ticket->spliced)
        return;
    ticket->built = false;
    for (Py_ssize_t i = ticket->count - 1; i >= 0; i--)
        if (ticket->generators_handle[i] == NULL)
            frame_drop(ticket->frames[i]);
        else
            ticket->frames[i]->previous = NULL;
    if (tstate->datastack_chunk == ticket->above.chunk && tstate->datastack_top == ticket->above.top)
        data_stack_rewind(tstate, &ticket->below);
}

static PyObject *
native_build(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyThreadState *tstate = PyThreadState_Get();
    Ticket *ticket = (Ticket *)object;
    Record record;
    if (!Py_IS_TYPE(object, ticket_type) || ticket->built) {
        PyErr_Format(PyExc_TypeError, "build() takes a new ticket, not %R", object);
        return NULL;
    }
    if (tstate->RECURSION_REMAINING <= ticket->count + 8) {
        PyErr_SetString(PyExc_RecursionError, "the snapshot's tasklet is too deep for the recursion limit, which was just lowered");
        return NULL;
    }
    if (frames_take(ticket, tstate) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < ticket->count; i++) {
        Frame *frame = ticket->frames[i];
        if (record_again(ticket, i, &record) < 0)
            Py_FatalError("roamlet: the records of a snapshot were changed while it was restored");
        if (record.generator != NULL) {
            generator_fill(record.generator, record.unit, record.offset, record.nulls, record.slots);
            ticket->generators_handle[i] = Py_NewRef(record.handled);
        } else {
            frame_begin(frame, record.function);
            slots_fill(frame->localsplus, record.nulls, record.slots);
            frame_set_count(frame, PyTuple_GET_SIZE(record.slots));
            FRAME_AT(frame) = _PyCode_CODE((PyCodeObject *)record.function->func_code) + record.unit;
            frame_set_offset(frame, record.offset);
        }
        frame->previous = i > 0 ? ticket->frames[i - 1] : NULL;
    }
    ticket->built = true;
    Py_CLEAR(ticket->records); /* the frames alone hold what is theirs */
    Py_CLEAR(ticket->functions);
    Py_RETURN_NONE;
}

#if ENTRY_FRAMES_ON_C_STACK
/* Whether nothing but C called base(), and nothing of the data stack is given back with its frame. */
static bool
base_can_go(Frame *base, PyThreadState *tstate)
{
    for (_PyStackChunk *chunk = tstate->datastack_chunk; chunk != NULL; chunk = chunk->previous)
        if ((PyObject **)base == &chunk->data[0])
            return false;
    return base->previous != NULL && frame_is_entry(base->previous);
}
#endif

/* How many calls of ours the tasklet's depth does not count: base(), the bridge, and that of go_on(), where 3.11 counts those of C and
   the tasklet is in none of its own. */
static int
ticket_uncounted(Ticket *ticket)
{
    return 2 + (!ENTRY_FRAMES_ON_C_STACK && ticket->before >= 0);
}

/* Link the frames in between base() and the bridge, which is running; or without base(), whose frame would be alone with what is raised
   through it: trace functions are not made for a frame that does not count as complete with no other around it. */
static void
ticket_splice(Ticket *ticket, PyThreadState *tstate)
{
    Frame *bridge = tstate_frame(tstate), *base = bridge->previous, *outer = base;
    if (frame_code(bridge) != bridge_code || base == NULL || frame_code(base) != base_code || ticket->spliced)
        Py_FatalError("roamlet: go_on() was called by somebody else than the bridge");
    ticket->spliced = true;
    frame_own(bridge);
#if ENTRY_FRAMES_ON_C_STACK
    if (base_can_go(base, tstate)) {
        outer = base->previous;
        frame_forget(tstate, base);
        frame_drop(base);
    }
#endif
    if (outer == base)
        for (int i = 0; i < frame_count(base); i++) /* it would hold the ticket for as long as it lives */
            if (slot_get(base->localsplus[i]) == (PyObject *)ticket)
                slot_clear(&base->localsplus[i]);
    bridge->previous = outer;
    if (ticket->count > 0) {
        ticket->frames[0]->previous = outer;
        bridge->previous = ticket->frames[ticket->count - 1];
    }
    tstate->RECURSION_REMAINING += ticket_uncounted(ticket) - (int)ticket->count;
    Py_XSETREF(tstate->exc_info->exc_value, Py_XNewRef(ticket->handled));
    for (Py_ssize_t i = 0; i < ticket->count; i++) {
        PyGenObject *generator;
        PyObject *handled = ticket->generators_handle[i];
        if (handled == NULL)
            continue;
        generator = frame_generator(ticket->frames[i]);
        generator->gi_exc_state.exc_value = handled != Py_None ? Py_NewRef(handled) : NULL;
        generator->gi_exc_state.previous_item = tstate->exc_info;
        tstate->exc_info = &generator->gi_exc_state;
        generator->gi_frame_state = FRAME_EXECUTING;
    }
}

/* Let the frame go on at this unit once a value was returned to it. */
static void
frame_go_to(Frame *frame, Py_ssize_t unit)
{
    FRAME_AT(frame) = _PyCode_CODE(frame_code(frame)) + unit - !FRAME_KEEPS_NEXT;
    frame_set_offset(frame, 0);
}

/* Take what is on top of the frame's slots, an operand or its last variable: returned to the frame it is there again, and nothing
   else has happened. `empty`, borrowed, stands for an empty slot. For a number, which no C function can return, comes what the bridge
   has for that: it then returns what its first variable has, which is the number. A new reference. */
static PyObject *
frame_take_top(Frame *frame, Frame *bridge, PyObject *empty)
{
    Slot top = frame_pop(frame);
    PyObject *object;
    if (slot_is_number(top)) {
        slot_clear(&bridge->localsplus[0]); /* go_on(), which its module has too */
        bridge->localsplus[0] = top;
        return Py_NewRef(slot_get(bridge->localsplus[2]));
    }
    object = slot_take(top);
    return object != NULL ? object : Py_NewRef(empty);
}

static PyObject *
native_go_on(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *object = count == 1 ? args[0] : Py_None;
    PyThreadState *tstate = PyThreadState_Get();
    Ticket *ticket = (Ticket *)object;
    Frame *innermost;
    PyObject *value = NULL;
    int woken;
    if (!Py_IS_TYPE(object, ticket_type) || !ticket->built) {
        PyErr_Format(PyExc_TypeError, "go_on() takes a built ticket, not %R", object);
        return NULL;
    }
    ticket_splice(ticket, tstate);
    woken = api->pause(arguments_end(args, count, NULL), &value);
    tstate->RECURSION_REMAINING -= ticket_uncounted(ticket) - 1; /* what ends now gives one back for each, but base() */
    if (woken < 0)
        ticket_silence(ticket, tstate_frame(tstate));
    innermost = ticket->count > 0 ? ticket->frames[ticket->count - 1] : NULL;
    if (innermost == NULL)
        return woken < 0 ? NULL : value != NULL ? value : Py_NewRef(Py_None);
    if (woken < 0) {
        if (ticket->before >= 0 && FRAME_KEEPS_NEXT) /* handlers are looked for by the unit before */
            frame_go_to(innermost, ticket->before + 1);
        return NULL;
    }
    if (ticket->before >= 0) {
        Py_XDECREF(value);
        frame_go_to(innermost, ticket->before);
        return frame_take_top(innermost, tstate_frame(tstate), object);
    }
    if (woken > 0 && ticket->end >= 0) {
        frame_go_to(innermost, ticket->end);
#if GENERATORS_BLOCK
        Py_RETURN_NONE; /* END_FOR takes it, and the iterator */
#else
        slot_drop(frame_pop(innermost));
        return frame_take_top(innermost, tstate_frame(tstate), object);
#endif
    }
    if (value != NULL)
        return value;
    if (PyLong_Check(ticket->returns))
        return Py_XNewRef(api->current());
    return Py_NewRef(PyTuple_Check(ticket->returns) ? PyTuple_GET_ITEM(ticket->returns, 0) : Py_None);
}

/* Read where a tasklet is to come: (tasklet, direction, channel, value, flags, depth), or (tasklet,) for a new one that comes to the end of
   the run queue. All is borrowed. -1 with an exception set when it is in no state for that. */
static int
place_read(PyObject *place, PyObject **tasklet, RoamletState *state)
{
    PyObject *channel = Py_None, *value = Py_None;
    RoamletState now;
    int flags = 0;
    bool is_new = PyTuple_GET_SIZE(place) == 1;
    *state = (RoamletState){0};
    if (!PyArg_ParseTuple(place, "O|iOOii:settle", tasklet, &state->direction, &channel, &value, &flags, &state->atomic) ||
        api->inspect(*tasklet, &now) < 0)
        return -1;
    if ((is_new ? now.state != 1 : now.state != 2) || now.direction != 0 || now.scheduled || now.waits || now.current ||
        (state->direction != 0 && !PyObject_TypeCheck(channel, channel_type)) || state->direction < -1 || state->direction > 1 ||
        state->atomic < 0 || ((flags & FLAG_RAISES) && !PyExceptionInstance_Check(value))) {
        PyErr_Format(PyExc_ValueError, "%R cannot be put into this state", *tasklet);
        return -1;
    }
    if (is_new) {
        *state = now;
        state->scheduled = true;
        return 0;
    }
    state->channel = state->direction != 0 ? channel : NULL;
    state->raises = (flags & FLAG_RAISES) != 0;
    state->sends_error = (flags & FLAG_SENDS_ERROR) != 0;
    state->iterates = (flags & FLAG_ITERATES) != 0;
    state->ended = (flags & FLAG_ENDED) != 0;
    state->atomic_flag = (flags & FLAG_ATOMIC) != 0;
    state->scheduled = (flags & FLAG_SCHEDULED) != 0;
    state->value = (flags & FLAG_HAS_VALUE) != 0 ? value : NULL;
    return 0;
}

static PyObject *
native_settle(PyObject *Py_UNUSED(module), PyObject *place)
{
    PyObject *tasklet;
    RoamletState state;
    if (place_read(place, &tasklet, &state) < 0)
        return NULL;
    api->settle(tasklet, &state);
    Py_RETURN_NONE;
}

static PyObject *
native_settle_all(PyObject *Py_UNUSED(module), PyObject *places)
{
    PyObject *tasklet;
    RoamletState state;
    if (!PyList_Check(places)) {
        PyErr_Format(PyExc_TypeError, "expected a list of tuples, not %R", places);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(places); i++) {
        PyObject *place = PyList_GET_ITEM(places, i);
        if (!PyTuple_Check(place)) {
            PyErr_Format(PyExc_TypeError, "expected a tuple, not %R", place);
            return NULL;
        }
        if (place_read(place, &tasklet, &state) < 0)
            return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(places); i++) {
        if (place_read(PyList_GET_ITEM(places, i), &tasklet, &state) < 0) /* named twice: no snapshot has that */
            return NULL;
        api->settle(tasklet, &state);
    }
    Py_RETURN_NONE;
}
