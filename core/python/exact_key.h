// Keys that are equal only for values that are the same, type and bits: 1, 1.0 and True differ, and so do 0.0 and -0.0.
//
// Python's equality would find one for the other in a dictionary. Under the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

// Sets `type` and `rest`, new references, to the type of `value` and what tells it from others of the type. `exact`
// has the further types whose objects are told apart by identity and never change. False, and nothing written, if the
// value is of a type that is not known here; the caller then has no key.
bool exact_key(PyObject* value, PyObject* exact, PyObject*& type, PyObject*& rest);

}  // namespace thalweg
