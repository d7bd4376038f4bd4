// The mode of a thread, as Python's packages keep it: in thread-local objects of theirs, which are looked at from here
// without a call of Python code. Needs the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <array>

namespace thalweg {

class EagerMode {
 public:
  // Python's objects: the open blocks of default graphs, whether the process runs ops at once by default, who
  // intercepts ops, the scopes of the eager graph, the open tapes, the asynchronous queue. All but the second are
  // thread-local.
  EagerMode(nanobind::handle graphs, nanobind::handle process, nanobind::handle interception, nanobind::handle scopes,
            nanobind::handle tapes, nanobind::handle queue);

  // The graph whose operations run at once: it is made after this object.
  void set_graph(nanobind::handle graph) { graph_ = nanobind::borrow(graph); }
  // Whether ops of this thread run at once, with no interceptor and within no scope but that of names.
  bool runs_plainly() const;
  // The tuple of open tapes; null if there are none. Borrowed.
  PyObject* recorders() const;
  // Whether ops wait for their turn on another thread.
  bool is_asynchronous() const;

 private:
  enum Place : size_t { kGraphs, kInterception, kScopes, kTapes, kQueue, kPlaces };
  PyObject* value(Place place) const;

  std::array<nanobind::object, kPlaces> locals_;
  std::array<nanobind::object, kPlaces> names_;
  nanobind::object process_, enabled_, graph_;
  size_t number_;  // of this object among all
};

}  // namespace thalweg
