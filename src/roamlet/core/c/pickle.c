/* Saving tasklets and channels with pickle. Where frames are involved roamlet.snapshot does it, which is above the core: it
   is named here as a pickle names what it needs, and imported when it is asked for. */

/* What roamlet.snapshot makes of an object with frames: a new reference, or NULL with an exception set. */
static PyObject *
snapshot_reduce(PyObject *object)
{
    PyObject *module = PyImport_ImportModule("roamlet.snapshot");
    PyObject *result = module != NULL ? PyObject_CallMethod(module, "_reduce", "O", object) : NULL;
    Py_XDECREF(module);
    return result;
}

/* The attributes that a subclass's instance may have, those in slots too, as object.__getstate__ gives them: None, a dict, or a pair
   of these. A new reference; NULL with an exception set. */
static PyObject *
instance_attributes(PyObject *self)
{
    return PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__getstate__", "O", self);
}

/* Put back what instance_attributes gave (borrowed). -1 with an exception set. */
static int
instance_restore(PyObject *self, PyObject *attributes)
{
    PyObject *plain = attributes, *slots = Py_None, *own, *result, *name, *value;
    Py_ssize_t at = 0;
    if (PyTuple_Check(attributes) && !PyArg_ParseTuple(attributes, "OO!:__setstate__", &plain, &PyDict_Type, &slots))
        return -1;
    if (plain != Py_None) {
        own = PyObject_GetAttrString(self, "__dict__");
        result = own != NULL ? PyObject_CallMethod(own, "update", "O", plain) : NULL;
        Py_XDECREF(own);
        Py_XDECREF(result);
        if (result == NULL)
            return -1;
    }
    while (slots != Py_None && PyDict_Next(slots, &at, &name, &value)) {
        int failed;
        Py_INCREF(name); /* a setter of the class may change the dict */
        Py_INCREF(value);
        failed = PyObject_SetAttr(self, name, value) < 0;
        Py_DECREF(name);
        Py_DECREF(value);
        if (failed)
            return -1;
    }
    return 0;
}

/* What pickle calls to make an object of `type` without its __init__, with `state` (stolen, NULL after an error) to be set
   on it: a new reference, or NULL with an exception set. */
static PyObject *
reduced(PyTypeObject *type, PyObject *state)
{
    PyObject *copyreg = state != NULL ? PyImport_ImportModule("copyreg") : NULL;
    PyObject *new_object = copyreg != NULL ? PyObject_GetAttrString(copyreg, "__newobj__") : NULL;
    PyObject *result = new_object != NULL ? Py_BuildValue("O(O)O", new_object, type, state) : NULL;
    Py_XDECREF(copyreg);
    Py_XDECREF(new_object);
    Py_XDECREF(state);
    return result;
}

static PyObject *
Tasklet_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Tasklet *tasklet = (Tasklet *)self;
    PyObject *none = Py_None, *attributes;
    if (tasklet->state == TASKLET_STARTED || tasklet == tasklet->scheduler->main)
        return snapshot_reduce(self);
    attributes = instance_attributes(self);
    if (attributes == NULL)
        return NULL;
    return reduced(Py_TYPE(self), Py_BuildValue("OOON", tasklet->function != NULL ? tasklet->function : none,
                                                tasklet->state == TASKLET_NEW ? tasklet->args : none,
                                                tasklet->state == TASKLET_NEW && tasklet->kwargs != NULL ? tasklet->kwargs : none,
                                                attributes));
}

static PyObject *
Tasklet_setstate(PyObject *self, PyObject *state)
{
    PyObject *function, *args, *kwargs, *attributes, *bound;
    if (!PyTuple_Check(state))
        return PyErr_Format(PyExc_TypeError, "__setstate__() takes what __reduce__() gave, not %R", state);
    if (!PyArg_ParseTuple(state, "OOOO:__setstate__", &function, &args, &kwargs, &attributes))
        return NULL;
    bound = PyObject_CallMethod(self, "bind", "OOO", function, args, kwargs);
    Py_XDECREF(bound);
    return bound != NULL && instance_restore(self, attributes) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *
Channel_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
    Channel *channel = (Channel *)self;
    PyObject *attributes, *values;
    PyObject *schedule_all = channel->schedule_all ? Py_True : Py_False, *closing = channel->closing ? Py_True : Py_False;
    if (channel->balance != 0 || channel->cases != NULL)
        return snapshot_reduce(self);
    attributes = instance_attributes(self);
    if (attributes == NULL)
        return NULL;
    if (channel->buffer == 0 && channel->buffered == 0)
        return reduced(Py_TYPE(self), Py_BuildValue("iOON", channel->preference, schedule_all, closing, attributes));
    values = buffer_list(channel);
    if (values == NULL) {
        Py_DECREF(attributes);
        return NULL;
    }
    return reduced(Py_TYPE(self), Py_BuildValue("iOONnN", channel->preference, schedule_all, closing, attributes, channel->buffer, values));
}

static PyObject *
Channel_setstate(PyObject *self, PyObject *state)
{
    Channel *channel = (Channel *)self;
    PyObject *attributes, *values = NULL;
    int preference, schedule_all, closing;
    Py_ssize_t buffer = 0;
    if (!PyTuple_Check(state))
        return PyErr_Format(PyExc_TypeError, "__setstate__() takes what __reduce__() gave, not %R", state);
    if (!PyArg_ParseTuple(state, "ippO|nO!:__setstate__", &preference, &schedule_all, &closing, &attributes, &buffer, &PyTuple_Type, &values))
        return NULL;
    if (values != NULL && buffer_restore(channel, buffer, values) < 0)
        return NULL;
    if (instance_restore(self, attributes) < 0)
        return NULL;
    channel->preference = (preference > 0) - (preference < 0);
    channel->schedule_all = schedule_all;
    channel->closing = closing;
    channel_settled(channel);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(setstate_doc, "__setstate__($self, state, /)\n--\n\nTake over what __reduce__() saved.");
PyDoc_STRVAR(tasklet_reduce_doc, "__reduce__($self, /)\n--\n\n"
"Save what a tasklet that has not started will call, or that it has ended; one under way as roamlet.snapshot does, TypeError where\n"
"that cannot.");
PyDoc_STRVAR(channel_reduce_doc, "__reduce__($self, /)\n--\n\n"
"Save the channel's settings and the values in its buffer; as roamlet.snapshot does where tasklets wait, TypeError where that cannot.");
