/* A ticket: what a restored tasklet needs until it goes on. It lies in the bridge, the frame that will return into the innermost
   restored one, and there it is found when the tasklet is saved again before it has run. */

typedef struct {
    PyObject_HEAD
    Frame **frames; /* the outermost first; spliced into the chain by go_on() */
    Py_ssize_t count;
    PyObject **generators_handle; /* owned: for the frames of generators, what they handle */
    PyObject *handled;            /* owned: what the outermost frames handle; NULL: nothing */
    PyObject *returns;            /* owned: see Capture */
    PyObject *keeps;              /* owned: the channel, as its call would keep it */
    PyObject *records, *functions; /* owned, until the frames are built */
    Py_ssize_t before, end;
    DataStack below, above; /* as it was before the frames were built, and after it */
    bool built, spliced;
    PyObject *silence; /* owned: see Silence */
} Ticket;

static void ticket_unbuild(Ticket *ticket);

static int
Ticket_traverse(PyObject *self, visitproc visit, void *arg)
{
    Ticket *ticket = (Ticket *)self;
    Py_VISIT(Py_TYPE(self));
    for (Py_ssize_t i = 0; ticket->generators_handle != NULL && i < ticket->count; i++)
        Py_VISIT(ticket->generators_handle[i]);
    Py_VISIT(ticket->records);
    Py_VISIT(ticket->functions);
    Py_VISIT(ticket->handled);
    Py_VISIT(ticket->returns);
    Py_VISIT(ticket->keeps);
    return 0;
}

static void
Ticket_dealloc(PyObject *self)
{
    Ticket *ticket = (Ticket *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ticket_unbuild(ticket);
    Py_XDECREF(ticket->silence);
    for (Py_ssize_t i = 0; ticket->generators_handle != NULL && i < ticket->count; i++)
        Py_XDECREF(ticket->generators_handle[i]);
    PyMem_Free(ticket->frames);
    PyMem_Free(ticket->generators_handle);
    Py_XDECREF(ticket->records);
    Py_XDECREF(ticket->functions);
    Py_XDECREF(ticket->handled);
    Py_XDECREF(ticket->returns);
    Py_XDECREF(ticket->keeps);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot ticket_slots[] = {
    {Py_tp_traverse, Ticket_traverse},
    {Py_tp_dealloc, Ticket_dealloc},
    {0, NULL},
};

static PyType_Spec ticket_spec = {
    .name = "roamlet.snapshot._native.Ticket",
    .basicsize = sizeof(Ticket),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = ticket_slots,
};

static PyTypeObject *ticket_type;

/* While the bridge raises, no events may be sent: trace functions would take them for those of the innermost frame, or find no frame
   at all. It is silent for as long as its frame lives, which holds one of these. */
typedef struct {
    PyObject_HEAD
    bool silent;
} Silence;

static void
Silence_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (((Silence *)self)->silent)
        PyThreadState_LeaveTracing(PyThreadState_Get());
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot silence_slots[] = {
    {Py_tp_dealloc, Silence_dealloc},
    {0, NULL},
};

static PyType_Spec silence_spec = {
    .name = "roamlet.snapshot._native.Silence",
    .basicsize = sizeof(Silence),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, /* no collector sees it, so nothing else can hold it */
    .slots = silence_slots,
};

static PyTypeObject *silence_type;

/* Be silent until the bridge's frame, whose last variable is still empty, is gone. */
static void
ticket_silence(Ticket *ticket, Frame *bridge)
{
    Slot *last = &bridge->localsplus[frame_code(bridge)->co_nlocalsplus - 1];
    assert(slot_get(*last) == NULL && ticket->silence != NULL);
    *last = slot_own(ticket->silence);
    ticket->silence = NULL;
    ((Silence *)slot_get(*last))->silent = true;
    PyThreadState_EnterTracing(PyThreadState_Get());
}
