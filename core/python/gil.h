// The interpreter's lock, and threads that ask for it while the interpreter ends.
//
// Python ends a daemon thread that asks for the lock after the main thread has finished: it unwinds the thread's stack,
// which C++ answers by ending the process. A program that leaves queue runners behind would so end with an abort. Here
// such a thread rests instead: `end_threads`, called by an exit handler of Python while the lock still works, makes
// every thread that asks from then on wait for ever, and lets those through that have asked before.
#pragma once

#include <Python.h>

#include <atomic>

#include "thread/denormals.h"

namespace thalweg {

class Gil {
 public:
  // Called on the thread that ends the interpreter, with the lock; gives it away meanwhile.
  static void end_threads();

 private:
  friend class WithGil;
  friend class WithoutGil;
  // Returns if the thread may have the lock; `left` follows when it is done with it, or has it back.
  static void entering();
  static void left() { inside_.fetch_sub(1); }
  static std::atomic<bool> ending_;
  static std::atomic<int> inside_;
};

// Holds the lock, on any thread. Python code computes with denormals.
class WithGil {
 public:
  WithGil() {
    Gil::entering();
    state_ = PyGILState_Ensure();
  }
  ~WithGil() {
    PyGILState_Release(state_);
    Gil::left();
  }
  WithGil(const WithGil&) = delete;

 private:
  KeepDenormals keep_;
  PyGILState_STATE state_;
};

// Drops a reference, on any thread: steps end on threads that do not have the lock.
inline void drop_reference(PyObject* object) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  Py_DECREF(object);
}

// Gives the lock away for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    Gil::entering();
    PyEval_RestoreThread(thread_);
    Gil::left();
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

}  // namespace thalweg
