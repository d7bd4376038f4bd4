// Keeping the exceptions of interrupts.
#include "python/interrupt.h"

#include <deque>
#include <random>

#include "python/gil.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

constexpr const char* kMark = "interrupted by Python, number ";
constexpr size_t kMostKept = 16;

struct Kept {
  std::string mark;
  PyObject* exception;
};

// Guarded by the GIL. Never destroyed: the interpreter may be gone by then.
std::deque<Kept>& kept() {
  static auto* all = new std::deque<Kept>;
  return *all;
}

}  // namespace

Error interrupting(nb::object exception, const std::string& text) {
  // Begins at random: the message of an interrupt in another process must not find an exception here.
  static uint64_t last = uint64_t{std::random_device()()} << 32;
  std::string mark = cat(kMark, ++last, ";");
  kept().push_back({mark, exception.release().ptr()});
  if (kept().size() > kMostKept) {
    PyObject* oldest = kept().front().exception;
    kept().pop_front();
    Py_DECREF(oldest);
  }
  return Error(Code::cancelled, cat(text, " (", mark, ")"));
}

bool is_interrupt(const Error& error) { return error.message().find(kMark) != std::string::npos; }

nb::object interrupt_of(const Error& error) {
  if (!is_interrupt(error)) return {};
  for (auto each = kept().begin(); each != kept().end(); ++each) {
    if (error.message().find(each->mark) == std::string::npos) continue;
    PyObject* exception = each->exception;
    kept().erase(each);
    return nb::steal(exception);
  }
  return {};
}

}  // namespace thalweg
