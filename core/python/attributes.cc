// Reading attribute values: DType, TensorShape, bytes, numbers, arrays and lists of them.
#include "python/attributes.h"

#include <nanobind/stl/shared_ptr.h>

#include "executor/loop_program.h"
#include "function/function.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

PartialShape shape_from_python(nb::handle shape) {
  PartialShape out;
  nb::object dims = nb::getattr(shape, "dims_tuple");
  if (dims.is_none()) return out;
  out.known_rank = true;
  for (nb::handle d : dims) out.dims.push_back(d.is_none() ? -1 : nb::cast<int64_t>(d));
  return out;
}

// A loop that a Python object owns. The pointer that nanobind makes asks for the GIL in its own way, which would end
// the process if a thread releases the last reference to a step while the interpreter ends (python/gil.h).
std::shared_ptr<const LoopProgram> loop_from_python(nb::handle value) {
  const LoopProgram* loop = nb::cast<LoopProgram*>(value);
  value.inc_ref();
  return {loop, [owner = value.ptr()](const LoopProgram*) { drop_reference(owner); }};
}

std::string bytes_from_python(nb::handle value) {
  char* data;
  Py_ssize_t size;
  if (PyUnicode_Check(value.ptr())) return nb::cast<nb::str>(value).c_str();
  if (PyBytes_AsStringAndSize(value.ptr(), &data, &size) != 0) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

bool has(nb::handle value, const char* name) { return PyObject_HasAttrString(value.ptr(), name) == 1; }

Tensor tensor_of(nb::handle array) {
  DType dtype = dtype_of_array(array.ptr());
  require(dtype != DType::invalid, "a tensor attribute has an element type that the core does not know");
  try {
    return tensor_from_python(array.ptr(), dtype, Sharing::borrow);
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

AttrValue list_from_python(nb::handle list) {
  Py_ssize_t n = PySequence_Size(list.ptr());
  if (n == 0) return std::vector<int64_t>{};
  AttrValue first = attr_from_python(list[0]);
  auto gather = [&]<typename T>(T) -> AttrValue {
    std::vector<T> out;
    for (nb::handle item : list) {
      AttrValue value = attr_from_python(item);
      if constexpr (std::is_same_v<T, double>) {
        if (const int64_t* whole = std::get_if<int64_t>(&value)) value = static_cast<double>(*whole);
      }
      const T* typed = std::get_if<T>(&value);
      require(typed != nullptr, "the elements of a list attribute have different types");
      out.push_back(*typed);
    }
    return out;
  };
  return std::visit(
      [&](auto&& value) -> AttrValue {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          std::vector<int64_t> out;
          for (nb::handle item : list) out.push_back(item.is(Py_True));
          return out;
        } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                             std::is_same_v<T, std::string> || std::is_same_v<T, DType> ||
                             std::is_same_v<T, PartialShape> || std::is_same_v<T, Tensor> ||
                             std::is_same_v<T, std::shared_ptr<Function>>) {
          return gather(T{});
        } else {
          fail(Code::invalid_argument, "a list attribute has elements of an unsupported type");
        }
      },
      first);
}

}  // namespace

DType dtype_from_python(nb::handle value) { return DType(nb::cast<int>(nb::getattr(value, "as_datatype_enum")) % 100); }

AttrValue attr_from_python(nb::handle value) {
  PyObject* p = value.ptr();
  if (value.is_none()) return std::monostate{};
  if (PyBool_Check(p)) return p == Py_True;
  if (PyLong_Check(p)) return nb::cast<int64_t>(value);
  if (PyFloat_Check(p)) return PyFloat_AS_DOUBLE(p);
  if (PyBytes_Check(p) || PyUnicode_Check(p)) return bytes_from_python(value);
  if (PyList_Check(p) || PyTuple_Check(p)) return list_from_python(value);
  if (has(value, "as_datatype_enum")) return dtype_from_python(value);
  if (has(value, "dims_tuple")) return shape_from_python(value);
  if (dtype_of_array(p) != DType::invalid) return tensor_of(value);
  if (nb::isinstance<LoopProgram>(value)) return loop_from_python(value);
  if (nb::isinstance<Function>(value)) return nb::cast<std::shared_ptr<Function>>(value);
  // Other values are read by Python kernels only.
  return std::monostate{};
}

}  // namespace thalweg
