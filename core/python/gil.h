// The gate between the core and the interpreter: every way into Python and out of it goes through one of these classes.
//
// Until version 3.14 Python ends a daemon thread that asks for the lock after the main thread has finished: it unwinds
// the thread's stack, through C++ frames that drop references without the lock, or that let nothing pass. A program
// that leaves threads inside of steps would so end with a crash. Here such a thread rests for ever instead.
//
// A thread is *inside* while it has frames of the core on its stack and holds the lock, or has asked for it. Two
// things keep the end of the interpreter safe. `end_threads`, called by an exit handler of Python while the lock still
// works, closes the gate: a thread that asks for the lock from then on, or that enters the core with it, gives it away
// and rests; those inside are waited for. A thread that stays inside for longer than that, because a function of the
// user's takes long, rests when Python unwinds it as far as `or_rest`.
//
// So: functions bound to Python that call back into it, or release the lock, have the call guard `NativeCall`; native
// threads take the lock with `WithGil`, and give it away with `WithoutGil`; what runs a user's code, or NumPy's, on a
// thread of unknown origin calls it by `or_rest`. The other classes and macros for the lock (of nanobind and of Python)
// are not used, which tests/pure/test_gil_gate.py checks.
#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <atomic>
#include <cstdint>

#include "thread/denormals.h"

namespace thalweg {

class Gil {
 public:
  // Called on the thread that ends the interpreter, with the lock; gives it away meanwhile.
  static void end_threads();
  // Never returns. Without the lock.
  [[noreturn]] static void rest();
  // Whether this thread has the lock. Python says so of every thread when the interpreter is gone; that is asked last,
  // since a thread that has the lock keeps the interpreter from ending.
  static bool has_lock() { return PyGILState_Check() != 0 && (Py_IsInitialized() != 0 || is_ender()); }

 private:
  friend class NativeCall;
  friend class WithGil;
  friend class WithoutGil;
  // Counts the thread as inside, or no longer. The caller holds the lock that guards the count: a step passes here
  // several times, so that these are no atomic additions. `inside` is the thread's flag: finding it takes a call.
  static void enter(bool& inside) {
    inside = true;
    holders_.store(holders_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  static void leave(bool& inside) {
    inside = false;
    holders_.store(holders_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  // Takes the lock by `take`, and counts the thread as inside from before it asks. It counts itself, then reads the
  // flag; `end_threads` sets the flag, then reads the count: so one of them sees the other.
  template <typename Take>
  static void enter_by(bool& inside, const Take& take) {
    asked_.fetch_add(1);
    if (closed()) {
      asked_.fetch_sub(1);
      rest();
    }
    take();
    enter(inside);
    answered_.store(answered_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Whether this thread must not have the lock any more.
  static bool closed() { return ending_.load() && !is_ender(); }
  static bool is_ender();

  static std::atomic<bool> ending_;
  static std::atomic<int> holders_;  // the threads inside that have had the lock; they may be waiting for it in Python
  // How often a thread has asked for the lock, and has been given it (changed with the lock).
  static std::atomic<uint64_t> asked_, answered_;
  static constinit thread_local bool inside_;
};

// A function of the core, called by Python.
class NativeCall {
 public:
  NativeCall() : inside_(Gil::inside_), outermost_(!inside_) {
    if (outermost_) Gil::enter(inside_);
    if (!Gil::closed()) [[likely]]
      return;
    Gil::leave(inside_);
    PyEval_SaveThread();
    Gil::rest();
  }
  ~NativeCall() {
    if (outermost_) Gil::leave(inside_);
  }
  NativeCall(const NativeCall&) = delete;

 private:
  bool& inside_;
  const bool outermost_;
};

// Holds the lock, on any thread, also on one that has it. Python code computes with denormals.
class WithGil {
 public:
  WithGil() : entered_(!Gil::has_lock()) {
    const auto take = [this] { state_ = PyGILState_Ensure(); };
    entered_ ? Gil::enter_by(Gil::inside_, take) : take();
  }
  ~WithGil() {
    if (entered_) Gil::leave(Gil::inside_);
    PyGILState_Release(state_);
  }
  WithGil(const WithGil&) = delete;

 private:
  const bool entered_;
  KeepDenormals keep_;
  PyGILState_STATE state_;
};

// Gives the lock away for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : inside_(Gil::inside_), was_inside_(inside_) {
    if (was_inside_) Gil::leave(inside_);
    thread_ = PyEval_SaveThread();
  }
  ~WithoutGil() {
    Gil::enter_by(inside_, [this] { PyEval_RestoreThread(thread_); });
    if (!was_inside_) Gil::leave(inside_);
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  bool& inside_;
  const bool was_inside_;
  PyThreadState* thread_;
};

// Calls into Python, with the lock; a thread that Python ends meanwhile rests here. The call must not create objects
// that need the lock to be destroyed.
template <typename Call>
auto or_rest(const Call& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    Gil::rest();
  }
}

// Drops a reference, on any thread: steps end on threads that do not have the lock.
inline void drop_reference(PyObject* object) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  Py_DECREF(object);
}

}  // namespace thalweg
