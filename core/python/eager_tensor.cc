// Eager tensors, and how other libraries see their values.
#include "python/eager_tensor.h"

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <array>

#include "python/attributes.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"
#include "python/opaque.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {

thread_local ValueReader* value_reader = nullptr;

namespace {

// The class of eager tensors, and where its slots are. Kept for good.
struct EagerType {
  PyTypeObject* type = nullptr;
  Py_ssize_t native = 0, dtype = 0, handle_data = 0, dims = 0, serial = 0;
  std::array<PyObject*, 256> dtypes{};  // Python's DType objects
};
EagerType eager;

constexpr std::array kWithGradients{DType::float32,  DType::float64,   DType::float16,    DType::bfloat16,
                                    DType::resource, DType::complex64, DType::complex128, DType::variant};

PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

Py_ssize_t offset_of(nb::handle descriptor) {
  if (Py_TYPE(descriptor.ptr()) != &PyMemberDescr_Type) throw nb::type_error("expected the descriptor of a slot");
  return reinterpret_cast<PyMemberDescrObject*>(descriptor.ptr())->d_member->offset;
}

void set_eager_type(nb::handle type, nb::handle native, nb::handle dtype, nb::handle handle_data, nb::handle dims,
                    nb::handle serial, nb::dict dtypes) {
  eager.type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  eager.native = offset_of(native);
  eager.dtype = offset_of(dtype);
  eager.handle_data = offset_of(handle_data);
  eager.dims = offset_of(dims);
  eager.serial = offset_of(serial);
  for (auto [number, object] : dtypes) eager.dtypes.at(nb::cast<size_t>(number)) = object.inc_ref().ptr();
}

// An eager tensor without a value.
nb::object make_empty(size_t dtype) {
  if (eager.type == nullptr) fail(Code::internal, "the class of eager tensors is not known yet");
  nb::object made = nb::steal(eager.type->tp_alloc(eager.type, 0));
  if (!made.is_valid()) throw nb::python_error();
  slot(made.ptr(), eager.dtype) = Py_NewRef(eager.dtypes.at(dtype));
  slot(made.ptr(), eager.handle_data) = Py_NewRef(Py_None);
  slot(made.ptr(), eager.dims) = Py_NewRef(Py_None);
  return made;
}

// An eager tensor whose value comes later: Python code waits for it when the slot `_native` is read.
nb::object make_pending(int dtype) { return make_empty(static_cast<size_t>(dtype)); }

// What tells calls with tensors of different types or shapes apart, as bytes; None if an argument is no eager tensor
// that has its value.
nb::object types_and_shapes(nb::tuple arguments) {
  std::string key;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.ptr()); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments.ptr(), i);
    if (Py_TYPE(argument) != eager.type || slot(argument, eager.native) == nullptr) return nb::none();
    const Tensor& value = *nb::inst_ptr<Tensor>(slot(argument, eager.native));
    const std::array<int32_t, 2> kind{static_cast<int32_t>(value.dtype()), value.rank()};
    key.append(reinterpret_cast<const char*>(kind.data()), sizeof kind);
    for (int axis = 0; axis < value.rank(); ++axis) {
      const int64_t size = value.dim(axis);
      key.append(reinterpret_cast<const char*>(&size), sizeof size);
    }
  }
  return nb::bytes(key.data(), key.size());
}

nb::object array_of(const Tensor& tensor, bool scalars) {
  if (value_reader != nullptr) [[unlikely]]
    value_reader->reads(tensor);
  try {
    if (scalars && tensor.rank() == 0) return nb::steal(python_from_tensor(tensor));
    return nb::steal(view_from_tensor(tensor));
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

// The structures of DLPack, version 0.8, for values in the memory of the host.
struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* owner;
  void (*deleter)(DLManagedTensor*);
};
// A tensor that another library shares, and what DLPack refers to.
struct Lent {
  explicit Lent(const Tensor& shared) : value(shared), dims(shared.shape().to_vector()) {}
  Tensor value;
  std::vector<int64_t> dims;
  DLManagedTensor managed{};
};

DLDataType dlpack_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype) * 8);
  switch (dtype) {
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
      return {0, bits, 1};
    case DType::uint8:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
      return {1, bits, 1};
    case DType::float16:
    case DType::float32:
    case DType::float64:
      return {2, bits, 1};
    case DType::bfloat16:
      return {4, bits, 1};
    case DType::complex64:
    case DType::complex128:
      return {5, bits, 1};
    case DType::boolean:
      return {6, 8, 1};
    default:
      fail(Code::invalid_argument, "DLPack has no element type for ", dtype);
  }
}

nb::object dlpack_of(const Tensor& tensor) {
  if (value_reader != nullptr) value_reader->reads(tensor);
  const DLDataType dtype = dlpack_type(tensor.dtype());
  auto lent = std::make_unique<Lent>(tensor);
  lent->managed.tensor = {tensor.raw(), {1, 0}, tensor.rank(), dtype, lent->dims.data(), nullptr, 0};
  lent->managed.owner = lent.get();
  lent->managed.deleter = [](DLManagedTensor* managed) { delete static_cast<Lent*>(managed->owner); };
  PyObject* capsule = PyCapsule_New(&lent->managed, "dltensor", [](PyObject* unused) {
    // A taken capsule has been renamed; then its taker deletes the tensor.
    if (PyCapsule_IsValid(unused, "dltensor") == 0) return;
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(unused, "dltensor"));
    managed->deleter(managed);
  });
  if (capsule == nullptr) throw nb::python_error();
  lent.release();
  return nb::steal(capsule);
}

}  // namespace

bool is_eager_tensor(PyObject* object) {
  return Py_TYPE(object) == eager.type || (eager.type != nullptr && PyType_IsSubtype(Py_TYPE(object), eager.type) != 0);
}

nb::object make_eager(Tensor tensor) {
  nb::object made = make_empty(static_cast<size_t>(tensor.dtype()));
  slot(made.ptr(), eager.native) = opaque_from_tensor(std::move(tensor));
  return made;
}

const Tensor* value_of(PyObject* object) {
  if (!is_eager_tensor(object)) return nullptr;
  PyObject* native = slot(object, eager.native);
  if (native == nullptr) [[unlikely]] {
    const nb::object waited = nb::handle(object).attr("_native");
    native = slot(object, eager.native);
    if (native == nullptr) return nullptr;
  }
  return nb::inst_ptr<Tensor>(native);
}

bool has_value(PyObject* tensor) { return slot(tensor, eager.native) != nullptr; }

PyObject* dtype_object_of(PyObject* tensor) { return slot(tensor, eager.dtype); }

bool is_resource(PyObject* tensor) {
  return slot(tensor, eager.dtype) == eager.dtypes[static_cast<size_t>(DType::resource)];
}

bool backpropagates(PyObject* tensor) {
  for (const DType dtype : kWithGradients)
    if (eager.dtypes[static_cast<size_t>(dtype)] == slot(tensor, eager.dtype)) return true;
  return false;
}

uint64_t serial_of(PyObject* tensor) {
  static uint64_t last = 0;
  if (!is_eager_tensor(tensor)) throw nb::type_error("a tape knows eager tensors only");
  PyObject*& serial = slot(tensor, eager.serial);
  if (serial == nullptr) {
    serial = PyLong_FromUnsignedLongLong(++last);
    if (serial == nullptr) throw nb::python_error();
  }
  return PyLong_AsUnsignedLongLong(serial);
}

void bind_eager_tensors(nb::module_& m) {
  m.def("set_eager_type", &set_eager_type, "type"_a, "native"_a, "dtype"_a, "handle_data"_a, "dims"_a, "serial"_a,
        "dtypes"_a, "Tells the class of eager tensors, the descriptors of its slots, and the DType objects by number.");
  m.def(
      "eager_from_array",
      [](nb::handle value, int dtype, bool share) {
        try {
          return make_eager(tensor_from_python(value.ptr(), DType(dtype), share ? Sharing::borrow : Sharing::copy));
        } catch (const PythonError&) {
          throw nb::python_error();
        }
      },
      "value"_a, "dtype"_a, "share"_a = false, nb::call_guard<NativeCall>(),
      "An eager tensor of what NumPy can convert; `share`: of the memory of an array that nobody writes.");
  m.def(
      "eager_from_native", [](const Tensor& tensor) { return make_eager(tensor); }, "tensor"_a,
      "An eager tensor of a value of the core.");
  m.def(
      "array_of", [](const Tensor& tensor, bool scalars) { return array_of(tensor, scalars); }, "tensor"_a,
      "scalars"_a = true, nb::call_guard<NativeCall>(),
      "A read-only array that shares the tensor's memory; a copy of strings, and of a scalar if `scalars`.");
  m.def("eager_pending", &make_pending, "dtype"_a, "An eager tensor without a value: who makes it sets `_native`.");
  m.def("types_and_shapes", &types_and_shapes, "arguments"_a,
        nb::sig("def types_and_shapes(arguments: tuple) -> bytes | None"),
        "What tells calls with tensors of different types or shapes apart; None if not all are eager tensors.");
  m.def(
      "is_view_of_tensor", [](nb::handle value) { return is_view_of_tensor(value.ptr()); }, "value"_a,
      "Whether an array shares the memory of a tensor, and can never be written.");
  m.def("dlpack_of", &dlpack_of, "tensor"_a, "A DLPack capsule that shares the tensor's memory.");
}

}  // namespace thalweg
