// Looking at thread-local objects of Python.
#include "python/eager_mode.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

// The dictionaries in which a thread's values are. They belong to the thread as Python knows it.
struct Dictionaries {
  uint64_t thread = 0;
  size_t mode = 0;
  std::array<PyObject*, 5> found{};
};
thread_local Dictionaries dictionaries;
size_t modes = 0;

nb::object name_of(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }

}  // namespace

EagerMode::EagerMode(nb::handle graphs, nb::handle process, nb::handle interception, nb::handle scopes,
                     nb::handle tapes, nb::handle queue)
    : locals_{nb::borrow(graphs), nb::borrow(interception), nb::borrow(scopes), nb::borrow(tapes), nb::borrow(queue)},
      names_{name_of("stack"), name_of("innermost"), name_of("plain"), name_of("open"), name_of("queue")},
      process_(process.attr("__dict__")),
      enabled_(name_of("enabled")),
      number_(++modes) {}

// What the thread has stored; null if nothing yet.
PyObject* EagerMode::value(Place place) const {
  static_assert(kPlaces == std::tuple_size_v<decltype(Dictionaries::found)>);
  const uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  if (dictionaries.thread != thread || dictionaries.mode != number_) [[unlikely]]
    dictionaries = {thread, number_, {}};
  PyObject*& dictionary = dictionaries.found[place];
  if (dictionary == nullptr) [[unlikely]] {
    const nb::object made = locals_[place].attr("__dict__");
    dictionary = made.ptr();  // The thread keeps it.
  }
  PyObject* found = PyDict_GetItemWithError(dictionary, names_[place].ptr());
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return found;
}

bool EagerMode::runs_plainly() const {
  PyObject* stack = value(kGraphs);
  if (stack != nullptr && PyList_GET_SIZE(stack) != 0) {
    if (PyList_GET_ITEM(stack, PyList_GET_SIZE(stack) - 1) != graph_.ptr()) return false;
  } else if (PyDict_GetItemWithError(process_.ptr(), enabled_.ptr()) != Py_True) {
    return false;
  }
  PyObject* interceptor = value(kInterception);
  if (interceptor != nullptr && interceptor != Py_None) return false;
  PyObject* plain = value(kScopes);
  return plain == nullptr || plain == Py_True;
}

PyObject* EagerMode::recorders() const {
  PyObject* open = value(kTapes);
  return open == nullptr || PyTuple_GET_SIZE(open) == 0 ? nullptr : open;
}

bool EagerMode::is_asynchronous() const {
  PyObject* queue = value(kQueue);
  return queue != nullptr && queue != Py_None;
}

}  // namespace thalweg
