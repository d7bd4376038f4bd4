// Interrupts: exceptions of Python that end a step without being its failure, such as KeyboardInterrupt.
//
// The core knows errors only, and keeps no more of one than its code, its message and its node. So an interrupt goes
// through it as an Error whose message has a number, by which the exception itself is found again when the error comes
// back to Python. The last few exceptions are kept; one whose error never comes back is dropped after them.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "error.h"

namespace thalweg {

// The error to throw in the place of an exception. With the GIL.
Error interrupting(nanobind::object exception, const std::string& text);
bool is_interrupt(const Error& error);
// The exception that an error stands for, which is forgotten then; an invalid object if it stands for none. With the
// GIL.
nanobind::object interrupt_of(const Error& error);

}  // namespace thalweg
