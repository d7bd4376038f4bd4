// Capturing the Python call stack, once per node of a graph.
#include "python/call_stack.h"

#include <array>

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Deeper stacks lose their outermost frames: the interesting ones are near the op.
constexpr int kMaxDepth = 60;

// The (code, offset of the last instruction) of each frame from the `skip`-th on, alternating, innermost first.
nb::tuple capture_stack(int skip) {
  auto frame = nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  const auto outer = [&frame] {
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
  };
  for (int i = 1; i < skip && frame.ptr() != nullptr; ++i) outer();
  if (frame.ptr() == nullptr) throw nb::value_error("call stack is not deep enough");
  std::array<nb::object, 2 * kMaxDepth> found;
  size_t size = 0;
  for (; size < found.size() && frame.ptr() != nullptr; outer()) {
    auto* here = reinterpret_cast<PyFrameObject*>(frame.ptr());
    found[size++] = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));
    found[size++] = nb::int_(PyFrame_GetLasti(here));
  }
  auto captured = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(size)));
  if (!captured.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < size; ++i) PyTuple_SET_ITEM(captured.ptr(), i, found[i].release().ptr());
  return captured;
}

}  // namespace

void bind_call_stack(nb::module_& m) {
  m.def("capture_stack", &capture_stack, "skip"_a = 1,
        "The call stack without its `skip` - 1 innermost Python frames, as a flat tuple of code objects and offsets of "
        "instructions, innermost first, cut off at 60 frames. Raises ValueError if there are fewer.");
}

}  // namespace thalweg
