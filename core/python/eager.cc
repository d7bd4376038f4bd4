// Eager tensors and single ops for Python.
//
// An eager tensor is an object of a Python class (thalweg.graph.eager_tensor) whose slots are filled here: making one
// takes no call of Python code. Its value is in the slot `_native`, an object around a Tensor.
#include "python/eager.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <array>

#include "eager/eager_op.h"
#include "python/attributes.h"
#include "python/exact_key.h"
#include "python/gil.h"
#include "python/numpy_bridge.h"
#include "python/opaque.h"
#include "python/step_values.h"
#include "session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Ops on more elements than this give the lock of the interpreter to other threads.
constexpr int64_t kBigWork = 1 << 15;

// The class of eager tensors, and where its slots are. Kept for good.
struct EagerType {
  PyTypeObject* type = nullptr;
  Py_ssize_t native = 0, dtype = 0, handle_data = 0, dims = 0;
  std::array<PyObject*, 256> dtypes{};  // Python's DType objects
};
EagerType eager;

PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

Py_ssize_t offset_of(nb::handle descriptor) {
  if (Py_TYPE(descriptor.ptr()) != &PyMemberDescr_Type) throw nb::type_error("expected the descriptor of a slot");
  return reinterpret_cast<PyMemberDescrObject*>(descriptor.ptr())->d_member->offset;
}

void set_eager_type(nb::handle type, nb::handle native, nb::handle dtype, nb::handle handle_data, nb::handle dims,
                    nb::dict dtypes) {
  eager.type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  eager.native = offset_of(native);
  eager.dtype = offset_of(dtype);
  eager.handle_data = offset_of(handle_data);
  eager.dims = offset_of(dims);
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

nb::object make_eager(Tensor tensor) {
  nb::object made = make_empty(static_cast<size_t>(tensor.dtype()));
  slot(made.ptr(), eager.native) = opaque_from_tensor(std::move(tensor));
  return made;
}

// An eager tensor whose value comes later: Python code waits for it when the slot `_native` is read.
nb::object make_pending(int dtype) { return make_empty(static_cast<size_t>(dtype)); }

// The value of an eager tensor, waited for if it is still to come; null for any other object.
const Tensor* value_of(PyObject* object) {
  if (Py_TYPE(object) != eager.type && PyType_IsSubtype(Py_TYPE(object), eager.type) == 0) return nullptr;
  PyObject* native = slot(object, eager.native);
  if (native == nullptr) [[unlikely]] {
    const nb::object waited = nb::handle(object).attr("_native");
    native = slot(object, eager.native);
    if (native == nullptr) return nullptr;
  }
  return nb::inst_ptr<Tensor>(native);
}

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

class BoundOp {
 public:
  BoundOp(nb::object session, const std::string& name, const std::string& op, const std::string& device, nb::dict attrs,
          nb::sequence input_dtypes, nb::sequence output_dtypes)
      : owner_(shared_object(session)),
        op_(definition(name, op, device, attrs, input_dtypes, output_dtypes),
            nb::cast<Session&>(session).device(device)) {}

  nb::object run(nb::handle given) const {
    PyObject* items = PySequence_Fast(given.ptr(), "the inputs of an op are a sequence");
    if (items == nullptr) throw nb::python_error();
    nb::object holder = nb::steal(items);
    return run_on(PySequence_Fast_ITEMS(items), PySequence_Fast_GET_SIZE(items));
  }

  nb::object run_on(PyObject** given, Py_ssize_t count) const {
    constexpr size_t kFew = 8;
    const auto inputs = static_cast<size_t>(op_.num_inputs()), outputs = static_cast<size_t>(op_.num_outputs());
    std::array<Tensor, 2 * kFew> few;
    std::vector<Tensor> many;
    if (inputs > kFew || outputs > kFew) many.resize(inputs + outputs);
    Tensor* in = many.empty() ? few.data() : many.data();
    Tensor* out = in + (many.empty() ? kFew : inputs);
    const int64_t elements = take(given, count, in);
    if (elements >= kBigWork || op_.may_wait()) {
      WithoutGil unlocked;
      op_.run(in, out, check_signals);
    } else {
      op_.run(in, out, check_signals);
    }
    if (outputs == 1) return make_eager(std::move(out[0]));
    nb::list results = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(outputs)));
    for (size_t i = 0; i < outputs; ++i)
      PyList_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), make_eager(std::move(out[i])).release().ptr());
    return results;
  }

 private:
  static NodeDef definition(const std::string& name, const std::string& op, const std::string& device, nb::dict attrs,
                            nb::sequence input_dtypes, nb::sequence output_dtypes) {
    NodeDef def;
    def.name = name;
    def.op = op;
    def.device = device;
    for (auto [key, value] : attrs) def.attrs.emplace(nb::cast<nb::str>(key).c_str(), attr_from_python(value));
    for (nb::handle dtype : input_dtypes) def.input_dtypes.push_back(dtype_from_python(dtype));
    for (nb::handle dtype : output_dtypes) def.output_dtypes.push_back(dtype_from_python(dtype));
    return def;
  }

  // The inputs as tensors; how many elements they have together.
  int64_t take(PyObject** given, Py_ssize_t count, Tensor* inputs) const {
    require(count == op_.num_inputs(), op_.def().op, " takes ", op_.num_inputs(), " inputs, got ", count);
    int64_t elements = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const Tensor* value = value_of(given[i]);
      if (value == nullptr) throw nb::type_error("an input of an op that runs eagerly is no eager tensor");
      require(value->dtype() == op_.def().input_dtypes[static_cast<size_t>(i)], "input ", i, " of ", op_.def().op,
              " has type ", value->dtype(), ", expected ", op_.def().input_dtypes[static_cast<size_t>(i)]);
      elements += value->num_elements();
      inputs[i] = *value;
    }
    return elements;
  }

  std::shared_ptr<void> owner_;  // the session, whose devices the op uses
  EagerOp op_;
};

// Ops that have been made, by op type, element types and attributes as the program gives them: a call whose inputs are
// eager tensors, and whose like was made before, needs no Python code to be resolved. Each is kept with an object of
// the caller's. Under the lock of the interpreter.
class OpCache {
 public:
  // `exact`: see exact_key.
  explicit OpCache(nb::tuple exact) : exact_(std::move(exact)) {}

  // The result; NotImplemented if the op must be resolved first, or has no native op.
  nb::object run(nb::handle op_type, nb::tuple inputs, nb::dict attrs) {
    PyObject* found = look_up(op_type, inputs, attrs);
    if (found == nullptr || PyTuple_GET_ITEM(found, 0) == Py_None) return nb::borrow(Py_NotImplemented);
    nb::object kept = nb::borrow(found);  // Python code that runs meanwhile may clear the cache.
    const auto* op = nb::inst_ptr<BoundOp>(PyTuple_GET_ITEM(found, 0));
    return op->run_on(PySequence_Fast_ITEMS(inputs.ptr()), PyTuple_GET_SIZE(inputs.ptr()));
  }

  // The object that was kept with the op; None if there is none.
  nb::object find(nb::handle op_type, nb::tuple inputs, nb::dict attrs) {
    PyObject* found = look_up(op_type, inputs, attrs);
    return nb::borrow(found == nullptr ? Py_None : PyTuple_GET_ITEM(found, 1));
  }

  void keep(nb::handle op_type, nb::tuple inputs, nb::dict attrs, nb::handle op, nb::object object) {
    nb::object key = key_of(op_type, inputs, attrs);
    if (!key.is_valid()) return;
    if (!op.is_none() && !nb::isinstance<BoundOp>(op)) throw nb::type_error("an op to keep is an EagerOp or None");
    nb::object pair = nb::steal(PyTuple_Pack(2, op.ptr(), object.ptr()));
    if (!pair.is_valid() || PyDict_SetItem(ops_.ptr(), key.ptr(), pair.ptr()) != 0) throw nb::python_error();
  }

  void clear() { ops_.clear(); }
  size_t size() const { return ops_.size(); }

 private:
  // The pair that was kept; null if there is none. Borrowed.
  PyObject* look_up(nb::handle op_type, nb::tuple inputs, nb::dict attrs) {
    nb::object key = key_of(op_type, inputs, attrs);
    if (!key.is_valid()) return nullptr;
    PyObject* found = PyDict_GetItemWithError(ops_.ptr(), key.ptr());
    if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found;
  }

  // An invalid object if an input is no eager tensor, or an attribute of a type that is not known.
  nb::object key_of(nb::handle op_type, nb::tuple inputs, nb::dict attrs) const {
    const Py_ssize_t count = PyTuple_GET_SIZE(inputs.ptr()), given = PyDict_GET_SIZE(attrs.ptr());
    nb::object key = nb::steal(PyTuple_New(1 + count + 3 * given));
    if (!key.is_valid()) throw nb::python_error();
    PyTuple_SET_ITEM(key.ptr(), 0, Py_NewRef(op_type.ptr()));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* input = PyTuple_GET_ITEM(inputs.ptr(), i);
      if (Py_TYPE(input) != eager.type) return {};
      PyTuple_SET_ITEM(key.ptr(), 1 + i, Py_NewRef(slot(input, eager.dtype)));
    }
    Py_ssize_t place = 0, at = 1 + count;
    PyObject *name = nullptr, *value = nullptr, *type = nullptr, *rest = nullptr;
    while (PyDict_Next(attrs.ptr(), &place, &name, &value) != 0) {
      if (!exact_key(value, exact_.ptr(), type, rest)) return {};
      PyTuple_SET_ITEM(key.ptr(), at++, Py_NewRef(name));
      PyTuple_SET_ITEM(key.ptr(), at++, type);
      PyTuple_SET_ITEM(key.ptr(), at++, rest);
    }
    return key;
  }

  nb::tuple exact_;
  nb::dict ops_;
};

}  // namespace

void bind_eager(nb::module_& m) {
  m.def("set_eager_type", &set_eager_type, "type"_a, "native"_a, "dtype"_a, "handle_data"_a, "dims"_a, "dtypes"_a,
        "Tells the class of eager tensors, the descriptors of its slots, and the DType objects by number.");
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
  m.def("dlpack_of", &dlpack_of, "tensor"_a, "A DLPack capsule that shares the tensor's memory.");
  m.def(
      "forget_resource",
      [](Session& session, const std::string& device, const std::string& container, const std::string& name) {
        return session.device(device)->resources.erase(container, name);
      },
      "session"_a, "device"_a, "container"_a, "name"_a, nb::call_guard<NativeCall>(),
      "Takes a resource out of its container: it lives on as long as its handles.");
  nb::class_<BoundOp>(m, "EagerOp", "One op for certain attributes, types and device, that runs at once.")
      .def(nb::init<nb::object, const std::string&, const std::string&, const std::string&, nb::dict, nb::sequence,
                    nb::sequence>(),
           "session"_a, "name"_a, "op"_a, "device"_a, "attrs"_a, "input_dtypes"_a, "output_dtypes"_a,
           nb::call_guard<NativeCall>())
      .def("run", &BoundOp::run, "inputs"_a, nb::call_guard<NativeCall>(),
           "Runs it on eager tensors: the output, or a list if there is not exactly one.");
  nb::class_<OpCache>(m, "OpCache", "Ops that have been made, by op type, element types and attributes as given.")
      .def(nb::init<nb::tuple>(), "exact"_a)
      .def("run", &OpCache::run, "op_type"_a, "inputs"_a, "attrs"_a, nb::call_guard<NativeCall>(),
           "Runs an op that was kept: as EagerOp.run; NotImplemented if there is none.")
      .def("find", &OpCache::find, "op_type"_a, "inputs"_a, "attrs"_a, nb::call_guard<NativeCall>(),
           "The object that was kept for calls like this one; None if there is none.")
      .def("keep", &OpCache::keep, "op_type"_a, "inputs"_a, "attrs"_a, "op"_a.none(), "object"_a,
           nb::call_guard<NativeCall>(), "Keeps an EagerOp, or None, and an object for calls like this one.")
      .def("clear", &OpCache::clear)
      .def("__len__", &OpCache::size);
}

}  // namespace thalweg
