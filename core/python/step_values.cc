// Feeds from Python, fetches to Python.
#include "python/step_values.h"

#include <nanobind/stl/string.h>

#include "python/attributes.h"
#include "python/gil.h"
#include "python/interrupt.h"
#include "python/numpy_bridge.h"
#include "python/python_kernel.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

Tensor fed_value(const FeedSpec& spec, PyObject* value) {
  Tensor tensor;
  if (value == Py_None) {  // NumPy would make a NaN of it.
    std::string text = cat("The value of the feed for Tensor '", spec.name, "' is None");
    throw nb::type_error(text.c_str());
  }
  try {
    tensor = tensor_from_python(value, spec.dtype, Sharing::borrow);
  } catch (const PythonError&) {
    throw nb::python_error();
  }
  if (!spec.shape.accepts(tensor.shape())) [[unlikely]] {
    std::string text = cat("Cannot feed value of shape ", tensor.shape(), " for Tensor '", spec.name,
                           "', which has shape ", spec.shape);
    throw nb::value_error(text.c_str());
  }
  return tensor;
}

}  // namespace

std::vector<FeedSpec> feeds_from_python(nb::list feeds) {
  std::vector<FeedSpec> specs;
  for (nb::handle feed : feeds) {
    AttrValue shape = attr_from_python(feed[2]);
    specs.push_back({nb::cast<std::string>(feed[0]), dtype_from_python(feed[1]), std::get<PartialShape>(shape)});
  }
  return specs;
}

std::vector<Tensor> fed_values(const std::vector<FeedSpec>& specs, nb::handle values) {
  std::vector<Tensor> feeds;
  feeds.reserve(specs.size());
  Py_ssize_t given = PySequence_Size(values.ptr());
  require(given == static_cast<Py_ssize_t>(specs.size()), "expected ", specs.size(), " feeds, got ", given);
  for (size_t i = 0; i < specs.size(); ++i) {
    nb::object value = nb::steal(PySequence_GetItem(values.ptr(), static_cast<Py_ssize_t>(i)));
    feeds.push_back(fed_value(specs[i], value.ptr()));
  }
  return feeds;
}

nb::object to_python(Tensor tensor) {
  // A fed array must not come back as an alias of the user's memory, nor as the shared zeros of the null device.
  if (tensor.buffer() && tensor.buffer()->kind() != Buffer::Kind::own) tensor = tensor.clone();
  try {
    return nb::steal(python_from_tensor(std::move(tensor)));
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

nb::list to_python(std::vector<Tensor> fetched) {
  nb::list out = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(fetched.size())));
  for (size_t i = 0; i < fetched.size(); ++i)
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), to_python(std::move(fetched[i])).release().ptr());
  return out;
}

void check_signals() {
  WithGil gil;
  if (or_rest([] { return PyErr_CheckSignals(); }) == 0) return;
  // Whatever the handler has raised, it was not called by the step.
  nb::python_error exception;
  throw interrupting(nb::borrow(exception.value()), "interrupted");
}

std::shared_ptr<void> shared_object(nb::object object) {
  return {object.release().ptr(), [](PyObject* last) {
            // Python's own threads have the lock, also while the interpreter ends.
            if (Gil::has_lock() && Py_IsInitialized() != 0)
              Py_DECREF(last);
            else
              drop_reference(last);
          }};
}

}  // namespace thalweg
