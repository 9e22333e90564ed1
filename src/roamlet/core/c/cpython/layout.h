/* What `roamlet ps` has to know of CPython's own structs, as numbers for layout.c: those of frames and thread states where the
   version is known, those of objects everywhere. */
#ifndef ROAMLET_CPYTHON_LAYOUT_H
#define ROAMLET_CPYTHON_LAYOUT_H

#include "../layout.h"

#ifndef AWAITED_OPERAND
#define AWAITED_OPERAND 1 /* which operand of a coroutine, from the top, is what it awaits */
#endif
#if ROAMLET_VERSION_KNOWN
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#pragma GCC diagnostic pop
#define FRAMES_LAYOUT                                                                                                     \
    RUNNING_FRAME_LAYOUT, LAYOUT_AT("frame.previous", _PyInterpreterFrame, previous),                                     \
        LAYOUT_AT("frame.owner", _PyInterpreterFrame, owner), LAYOUT_AT("frame.locals", _PyInterpreterFrame, localsplus), \
        {"frame.entry_owner", ENTRY_FRAME_OWNER}, {"frame.code_tags", CODE_TAGS},                                         \
        LAYOUT_AT("tstate.chunk", PyThreadState, datastack_chunk), LAYOUT_AT("chunk.previous", _PyStackChunk, previous),  \
        LAYOUT_AT("frame.globals", _PyInterpreterFrame, f_globals), STACK_TOP_LAYOUT,                                     \
        LAYOUT_AT("coroutine.state", PyCoroObject, cr_frame_state), LAYOUT_AT("coroutine.frame", PyCoroObject, cr_iframe), \
        {"coroutine.completed", FINISHED_STATE}, {"coroutine.executing", FRAME_EXECUTING},                                \
        {"coroutine.awaited", AWAITED_OPERAND},                                                                           \
        LAYOUT_AT("code.first_traceable", PyCodeObject, _co_firsttraceable),                                              \
        LAYOUT_AT("keys.log2_index_bytes", struct _dictkeysobject, dk_log2_index_bytes),                                  \
        LAYOUT_AT("keys.entries", struct _dictkeysobject, dk_nentries),                                                   \
        LAYOUT_AT("keys.indices", struct _dictkeysobject, dk_indices), GIL_LAYOUT
#else
#define FRAMES_LAYOUT
#define GIL_ADDRESSES
#endif

#define OBJECTS_LAYOUT                                                                                                    \
    LAYOUT_AT("object.type", PyObject, ob_type), LAYOUT_AT("object.size", PyVarObject, ob_size),                          \
        LAYOUT_AT("type.name", PyTypeObject, tp_name), LAYOUT_AT("type.flags", PyTypeObject, tp_flags),                   \
        LAYOUT_AT("type.basicsize", PyTypeObject, tp_basicsize), {"type.heap_flag", Py_TPFLAGS_HEAPTYPE},                 \
        LAYOUT_AT("type.base", PyTypeObject, tp_base), LAYOUT_AT("tstate.thread_id", PyThreadState, thread_id),           \
        LAYOUT_AT("tstate.native_id", PyThreadState, native_thread_id), LAYOUT_AT("tstate.next", PyThreadState, next),    \
        LAYOUT_AT("tstate.previous", PyThreadState, prev), LAYOUT_AT("code.name", PyCodeObject, co_name),                 \
        LAYOUT_AT("code.qualname", PyCodeObject, co_qualname), LAYOUT_AT("code.filename", PyCodeObject, co_filename),     \
        LAYOUT_AT("code.first_line", PyCodeObject, co_firstlineno), LAYOUT_AT("code.lines", PyCodeObject, co_linetable),  \
        LAYOUT_AT("code.bytecode", PyCodeObject, co_code_adaptive),                                                       \
        LAYOUT_AT("code.locals", PyCodeObject, co_nlocalsplus),                                                           \
        LAYOUT_AT("code.stack_size", PyCodeObject, co_stacksize), LAYOUT_AT("object.references", PyObject, ob_refcnt),    \
        LAYOUT_AT("code.local_names", PyCodeObject, co_localsplusnames),                                                  \
        LAYOUT_AT("code.local_kinds", PyCodeObject, co_localspluskinds), LAYOUT_AT("code.names", PyCodeObject, co_names), \
        LAYOUT_AT("function.qualname", PyFunctionObject, func_qualname),                                                  \
        LAYOUT_AT("method.function", PyMethodObject, im_func), LAYOUT_AT("bytes.data", PyBytesObject, ob_sval),           \
        LAYOUT_AT("builtin.method", PyCFunctionObject, m_ml), LAYOUT_AT("builtin.self", PyCFunctionObject, m_self),       \
        LAYOUT_AT("unbound.method", PyMethodDescrObject, d_method),                                                       \
        LAYOUT_AT("tuple.items", PyTupleObject, ob_item), LAYOUT_AT("list.items", PyListObject, ob_item),                 \
        LAYOUT_AT("float.value", PyFloatObject, ob_fval), LAYOUT_AT("dict.used", PyDictObject, ma_used),                  \
        LAYOUT_AT("dict.keys", PyDictObject, ma_keys), LAYOUT_AT("dict.values", PyDictObject, ma_values),                 \
        LAYOUT_AT("set.mask", PySetObject, mask), LAYOUT_AT("set.table", PySetObject, table),                             \
        LAYOUT_AT("weakref.object", PyWeakReference, wr_object),                                                          \
        LAYOUT_AT("str.length", PyASCIIObject, length),                                                                   \
        {"str.state", offsetof(PyASCIIObject, hash) + sizeof(Py_hash_t)}, {"str.ascii_data", sizeof(PyASCIIObject)},      \
        {"str.data", sizeof(PyCompactUnicodeObject)}, {"str.width_bit", 0}, {"str.compact_bit", 0}, {"str.ascii_bit", 0},

#define OBJECTS_ADDRESSES                                                                                                 \
    {"type.type", &PyType_Type}, {"type.code", &PyCode_Type}, {"type.function", &PyFunction_Type},                        \
        {"type.method", &PyMethod_Type}, {"type.builtin", &PyCFunction_Type},                                             \
        {"type.unbound", &PyMethodDescr_Type}, {"type.str", &PyUnicode_Type}, {"type.bytes", &PyBytes_Type},              \
        {"type.int", &PyLong_Type}, {"type.float", &PyFloat_Type}, {"type.bool", &PyBool_Type},                           \
        {"type.tuple", &PyTuple_Type}, {"type.list", &PyList_Type}, {"type.dict", &PyDict_Type},                          \
        {"type.cell", &PyCell_Type}, {"type.coroutine", &PyCoro_Type}, {"type.weakref", &_PyWeakref_RefType},             \
        {"type.set", &PySet_Type}, {"type.generator", &PyGen_Type}, {"none", &_Py_NoneStruct},                            \
        {"true", &_Py_TrueStruct}, {"false", &_Py_FalseStruct},

/* The lowest of the bits that are set in the state of a string. */
static inline uint64_t
layout_string_bit(const PyASCIIObject *string)
{
    uint32_t state;
    memcpy(&state, (const char *)string + offsetof(PyASCIIObject, hash) + sizeof(Py_hash_t), sizeof state);
    return state != 0 ? (uint64_t)__builtin_ctz(state) : 0;
}

/* Fill in what no initialiser can say: where bit fields are. Their order differs between versions. */
static inline void
layout_complete(LayoutNumber *numbers, uint32_t count)
{
    PyASCIIObject width, compact, ascii;
    memset(&width, 0, sizeof width);
    memset(&compact, 0, sizeof compact);
    memset(&ascii, 0, sizeof ascii);
    width.state.kind = 1;
    compact.state.compact = 1;
    ascii.state.ascii = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(numbers[i].name, "str.width_bit") == 0)
            numbers[i].value = layout_string_bit(&width);
        else if (strcmp(numbers[i].name, "str.compact_bit") == 0)
            numbers[i].value = layout_string_bit(&compact);
        else if (strcmp(numbers[i].name, "str.ascii_bit") == 0)
            numbers[i].value = layout_string_bit(&ascii);
    }
}

#endif
