/* Taking the arguments of a vectorcall, and getters of plain fields, for all our extension modules. */
#ifndef ROAMLET_ARGUMENTS_H
#define ROAMLET_ARGUMENTS_H

#include <Python.h>
#include <stdbool.h>

/* Where the arguments of a vectorcall end. They lie on the operand stack of the caller's frame if an instruction makes the
   call, and then tell the collector how much is there; the backend looks whether they do. */
static inline PyObject *const *
arguments_end(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return args + count + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
}

/* Put the arguments of a vectorcall where they belong among `most` keywords, all of them optional; what is not given stays
   as it is. References are borrowed. -1 with an exception set. */
static inline int
arguments_take(const char *name, const char *const *keywords, Py_ssize_t most, PyObject **given, PyObject *const *args,
               Py_ssize_t count, PyObject *names)
{
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (count + named > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zd argument%s (%zd given)", name, most, most == 1 ? "" : "s", count + named);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        given[i] = args[i];
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *keyword = PyTuple_GET_ITEM(names, i);
        Py_ssize_t place = 0;
        while (place < most && PyUnicode_CompareWithASCIIString(keyword, keywords[place]) != 0)
            place++;
        if (place == most || place < count) {
            PyErr_Format(PyExc_TypeError, place == most ? "%s() got an unexpected keyword argument '%U'"
                                                        : "%s() got multiple values for argument '%U'", name, keyword);
            return -1;
        }
        given[place] = args[count + i];
    }
    return 0;
}

/* Getters of an object's field, for PyGetSetDef: the closure is FIELD(type, member). They return new references; of an object
   that is NULL, None. */
#define FIELD(type, member) ((void *)offsetof(type, member))

static inline PyObject *
get_bool(PyObject *self, void *field)
{
    return PyBool_FromLong(*(bool *)((char *)self + (size_t)field));
}

static inline PyObject *
get_size(PyObject *self, void *field)
{
    return PyLong_FromSsize_t(*(Py_ssize_t *)((char *)self + (size_t)field));
}

static inline PyObject *
get_object(PyObject *self, void *field)
{
    PyObject *object = *(PyObject **)((char *)self + (size_t)field);
    return Py_NewRef(object != NULL ? object : Py_None);
}

#endif
