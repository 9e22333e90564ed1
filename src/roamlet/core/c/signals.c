/* Signals that ask for a dump: a handler in C that writes a byte to a pipe, so that a thread of roamlet.diagnose's may answer while the
   main thread computes or hangs in C. Python's own handlers run in the main thread alone, between two instructions.

   A second signal that comes before the first was answered means that no thread gets the GIL: faulthandler's handler is called
   then, which needs none, and writes the stacks of the threads. */
#include <signal.h>

#define SIGNALS 65

static struct {
    void (*last_resort)(int);
    int fd; /* what the handler writes to; 0: this signal is not ours */
    volatile sig_atomic_t unanswered;
} noted[SIGNALS];

/* Only what a signal handler may call. */
static void
signal_noted(int number)
{
    int error = errno;
    unsigned char byte = (unsigned char)number;
    if (noted[number].unanswered && noted[number].last_resort != NULL)
        noted[number].last_resort(number);
    noted[number].unanswered = 1;
    if (write(noted[number].fd, &byte, 1) < 0) {
        /* The pipe is full of requests that were not answered, or closed as the process ends. */
    }
    errno = error;
}

static PyObject *
core_note_signal(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct sigaction action = {.sa_handler = signal_noted, .sa_flags = SA_RESTART | SA_ONSTACK}, before;
    int number, fd;
    if (!PyArg_ParseTuple(args, "ii:note_signal", &number, &fd))
        return NULL;
    if (number < 1 || number >= SIGNALS || fd <= 0)
        return PyErr_Format(PyExc_ValueError, "note_signal(%d, %d): there is no such signal, or no such descriptor", number, fd);
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (before.sa_handler != signal_noted)
        noted[number].last_resort = before.sa_flags & SA_SIGINFO || before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN ? NULL : before.sa_handler;
    noted[number].fd = fd;
    noted[number].unanswered = 0;
    if (sigaction(number, &action, NULL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *
core_signal_answered(PyObject *Py_UNUSED(module), PyObject *arg)
{
    long number = PyLong_AsLong(arg);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (number < 1 || number >= SIGNALS)
        return PyErr_Format(PyExc_ValueError, "signal_answered(%ld): there is no such signal", number);
    noted[number].unanswered = 0;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(note_signal_doc, "note_signal(signalnum, fd, /)\n--\n\n"
"For roamlet.diagnose: have a handler in C write a byte, the signal's number, to fd whenever this signal comes.\n\n"
"The handler before, if it is one in C, is called for a second signal that comes before signal_answered(). ValueError, OSError\n"
"for what is no signal that can be handled.");
PyDoc_STRVAR(signal_answered_doc, "signal_answered(signalnum, /)\n--\n\nFor roamlet.diagnose: what the last signal asked for was begun.");
