"""Small extension modules in C, compiled by the tests for this interpreter."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))

_MULTI = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
%(declarations)s
static PyObject *answer(PyObject *self, PyObject *unused) { return PyLong_FromLong(%(value)s); }
static PyMethodDef %(name)s_methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {0}};
static int %(name)s_exec(PyObject *module) { return PyModule_AddStringConstant(module, "phase", "multi"); }
static PyModuleDef_Slot %(name)s_slots[] = {{Py_mod_exec, %(name)s_exec}, {0}};
static PyModuleDef %(name)s_def = {
    PyModuleDef_HEAD_INIT, "%(name)s", NULL, 0, %(name)s_methods, %(name)s_slots};
PyMODINIT_FUNC PyInit_%(name)s(void) { return PyModuleDef_Init(&%(name)s_def); }
"""

_SINGLE = """
static PyMethodDef %(name)s_methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {0}};
static PyModuleDef %(name)s_def = {PyModuleDef_HEAD_INIT, "%(name)s", NULL, -1, %(name)s_methods};
PyMODINIT_FUNC PyInit_%(name)s(void) {
    PyObject *module = PyModule_Create(&%(name)s_def);
    if (module != NULL && PyModule_AddStringConstant(module, "phase", "single") < 0) Py_CLEAR(module);
    return module;
}
"""


def multi(name: str, value: str = "42", declarations: str = "") -> str:
    """A module in C with multi-phase initialisation; answer() gives `value`."""
    return _MULTI % {"name": name, "value": value, "declarations": declarations}


def single(name: str) -> str:
    """A second module for the same source, with single-phase initialisation."""
    return _SINGLE % {"name": name}


def compile_shared(source: str, path: Path, *more: str, include: str | None = None) -> Path:
    """Compile C to the shared object at `path`, or skip the test where no compiler is."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    path.parent.mkdir(parents=True, exist_ok=True)
    include = include or sysconfig.get_path("include")
    words: Sequence[str] = [compiler, "-shared", "-fPIC", "-O0", "-w", "-I", include, "-x", "c", "-", "-o", str(path)]
    subprocess.run([*words, "-x", "none", *more], input=source.encode(), check=True)
    return path
