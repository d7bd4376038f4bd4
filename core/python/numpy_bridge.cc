// The conversions between NumPy arrays and tensors.
#include "python/numpy_bridge.h"

#define PY_ARRAY_UNIQUE_SYMBOL thalweg_numpy
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <array>

#include "python/gil.h"
#include "python/opaque.h"

namespace thalweg {
namespace {

// Below this many bytes a copy is cheaper than a reference to the Python object.
constexpr npy_intp kCopyBelow = 4096;

constexpr size_t kTypes = 24;
std::array<PyArray_Descr*, kTypes> descrs{};        // owned, by DType
std::array<DType, NPY_NTYPES_LEGACY> by_typenum{};  // built-in types

struct Ref {
  explicit Ref(PyObject* object) : object(object) {
    if (object == nullptr) throw PythonError{};
  }
  ~Ref() { Py_XDECREF(object); }
  Ref(const Ref&) = delete;
  PyObject* get() const { return object; }
  PyObject* release() { return std::exchange(object, nullptr); }
  PyObject* object;
};

PyArray_Descr* descr_of(DType dtype) {
  size_t index = static_cast<size_t>(dtype);
  if (index >= kTypes || descrs[index] == nullptr) fail(Code::unimplemented, "NumPy has no element type for ", dtype);
  return descrs[index];
}

PyArrayObject* as_array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

Shape shape_of(PyArrayObject* array) {
  int rank = PyArray_NDIM(array);
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  return Shape(std::span<const int64_t>(reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), rank));
}

void release_object(void* owner) { drop_reference(static_cast<PyObject*>(owner)); }

void bytes_of(PyObject* item, std::string& out) {
  char* data;
  Py_ssize_t size;
  if (PyBytes_Check(item)) {
    PyBytes_AsStringAndSize(item, &data, &size);
  } else if (PyUnicode_Check(item)) {
    data = const_cast<char*>(PyUnicode_AsUTF8AndSize(item, &size));
    if (data == nullptr) throw PythonError{};
  } else {
    fail(Code::invalid_argument, "expected bytes or str as the element of a string tensor, got ",
         Py_TYPE(item)->tp_name);
  }
  out.assign(data, static_cast<size_t>(size));
}

Tensor strings_from_python(PyObject* value) {
  PyArray_Descr* object = PyArray_DescrFromType(NPY_OBJECT);
  Ref array(or_rest(
      [&] { return PyArray_FromAny(value, object, 0, 0, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_FORCECAST, nullptr); }));
  PyArrayObject* items = as_array(array.get());
  Tensor out(DType::string, shape_of(items));
  PyObject** data = static_cast<PyObject**>(PyArray_DATA(items));
  for (int64_t i = 0; i < out.num_elements(); ++i) bytes_of(data[i], out.strings()[i]);
  return out;
}

PyObject* strings_to_python(const Tensor& tensor, bool scalars) {
  if (scalars && tensor.rank() == 0)
    return PyBytes_FromStringAndSize(tensor.strings()->data(), static_cast<Py_ssize_t>(tensor.strings()->size()));
  Ref array(PyArray_SimpleNew(tensor.rank(), reinterpret_cast<const npy_intp*>(tensor.shape().data()), NPY_OBJECT));
  PyObject** data = static_cast<PyObject**>(PyArray_DATA(as_array(array.get())));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const std::string& text = tensor.strings()[i];
    PyObject* item = PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    if (item == nullptr) throw PythonError{};
    Py_XSETREF(data[i], item);
  }
  return array.release();
}

bool same_type(PyArrayObject* array, DType dtype) {
  PyArray_Descr* have = PyArray_DESCR(array);
  PyArray_Descr* want = descr_of(dtype);
  if (have == want) return true;
  if (have->type_num != want->type_num) return false;
  // Built-in types may differ in byte order only; others (structured) need the full comparison.
  return PyArray_EquivTypes(have, want);
}

void release_buffer(PyObject* capsule) {
  static_cast<Buffer*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)))->unref();
}

// The name of what keeps the memory of an array that nobody can write.
constexpr const char* kView = "thalweg.view";

PyObject* wrap(const Tensor& tensor, int flags) {
  PyArray_Descr* descr = descr_of(tensor.dtype());
  Py_INCREF(descr);
  Ref array(PyArray_NewFromDescr(&PyArray_Type, descr, tensor.rank(),
                                 reinterpret_cast<const npy_intp*>(tensor.shape().data()), nullptr, tensor.raw(), flags,
                                 nullptr));
  const char* name = (flags & NPY_ARRAY_WRITEABLE) == 0 ? kView : nullptr;
  PyObject* capsule = PyCapsule_New(tensor.buffer(), name, release_buffer);
  if (capsule == nullptr) throw PythonError{};
  tensor.buffer()->ref();
  PyArray_SetBaseObject(as_array(array.get()), capsule);
  return array.release();
}

void check_rank(const Tensor& tensor) {
  if (tensor.rank() > NPY_MAXDIMS)
    fail(Code::invalid_argument, "a tensor of rank ", tensor.rank(), " does not fit a NumPy array (at most ",
         NPY_MAXDIMS, " dimensions)");
}

}  // namespace

void init_numpy() {
  if (PyArray_ImportNumPyAPI() < 0) throw PythonError{};
  static const std::pair<DType, int> types[] = {
      {DType::float32, NPY_FLOAT32},     {DType::float64, NPY_FLOAT64},       {DType::int32, NPY_INT32},
      {DType::uint8, NPY_UINT8},         {DType::int16, NPY_INT16},           {DType::int8, NPY_INT8},
      {DType::complex64, NPY_COMPLEX64}, {DType::int64, NPY_INT64},           {DType::boolean, NPY_BOOL},
      {DType::uint16, NPY_UINT16},       {DType::complex128, NPY_COMPLEX128}, {DType::float16, NPY_FLOAT16},
      {DType::uint32, NPY_UINT32},       {DType::uint64, NPY_UINT64}};
  for (auto [dtype, typenum] : types) {
    descrs[static_cast<size_t>(dtype)] = PyArray_DescrFromType(typenum);
    by_typenum[typenum] = dtype;
  }
  // NumPy has two 64-bit integers on Linux.
  by_typenum[NPY_LONGLONG] = DType::int64;
  by_typenum[NPY_ULONGLONG] = DType::uint64;
  by_typenum[NPY_OBJECT] = by_typenum[NPY_STRING] = by_typenum[NPY_UNICODE] = DType::string;
}

void register_descr(DType dtype, PyObject* descr) {
  size_t index = static_cast<size_t>(dtype);
  if (index >= kTypes || !PyArray_DescrCheck(descr)) fail(Code::invalid_argument, "not a NumPy dtype");
  Py_INCREF(descr);
  descrs[index] = reinterpret_cast<PyArray_Descr*>(descr);
}

DType dtype_of_array(PyObject* array) {
  if (!PyArray_Check(array)) return DType::invalid;
  int typenum = PyArray_TYPE(as_array(array));
  if (typenum < NPY_NTYPES_LEGACY && by_typenum[typenum] != DType::invalid) return by_typenum[typenum];
  for (size_t i = 0; i < kTypes; ++i)
    if (descrs[i] != nullptr && PyArray_EquivTypes(descrs[i], PyArray_DESCR(as_array(array)))) return DType(i);
  return DType::invalid;
}

Tensor tensor_from_python(PyObject* value, DType dtype, Sharing sharing) {
  if (const Tensor* opaque = opaque_tensor(value)) {
    require(opaque->dtype() == dtype, "expected a value of type ", dtype, ", got one of type ", opaque->dtype());
    return *opaque;
  }
  if (dtype == DType::string) return strings_from_python(value);
  if (!is_plain(dtype))
    fail(Code::invalid_argument, "a value of type ", dtype, " can only come from a fetched tensor of that type");
  PyObject* array = value;
  if (PyArray_CheckExact(value) && same_type(as_array(value), dtype) && PyArray_ISCARRAY_RO(as_array(value))) {
    Py_INCREF(array);
  } else {
    PyArray_Descr* descr = descr_of(dtype);
    Py_INCREF(descr);
    array = or_rest(
        [&] { return PyArray_FromAny(value, descr, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr); });
  }
  Ref holder(array);
  PyArrayObject* source = as_array(array);
  Shape shape = shape_of(source);
  npy_intp bytes = PyArray_NBYTES(source);
  if (sharing == Sharing::copy || bytes < kCopyBelow) {
    Tensor out(dtype, std::move(shape));
    if (bytes > 0) std::memcpy(out.raw(), PyArray_DATA(source), static_cast<size_t>(bytes));
    return out;
  }
  void* data = PyArray_DATA(source);
  Buffer* buffer = Buffer::borrow(data, static_cast<size_t>(bytes), holder.release(), release_object);
  return Tensor(dtype, std::move(shape), buffer, data);
}

PyObject* python_from_tensor(Tensor tensor, bool scalars) {
  check_rank(tensor);
  if (tensor.dtype() == DType::string) return strings_to_python(tensor, scalars);
  if (!is_plain(tensor.dtype())) return opaque_from_tensor(std::move(tensor));
  PyArray_Descr* descr = descr_of(tensor.dtype());
  if (scalars && tensor.rank() == 0) return PyArray_Scalar(tensor.raw(), descr, nullptr);
  npy_intp bytes = static_cast<npy_intp>(tensor.bytes());
  if (bytes >= kCopyBelow && tensor.writable()) return wrap(tensor, NPY_ARRAY_CARRAY);
  Py_INCREF(descr);
  Ref array(PyArray_NewFromDescr(&PyArray_Type, descr, tensor.rank(),
                                 reinterpret_cast<const npy_intp*>(tensor.shape().data()), nullptr, nullptr, 0,
                                 nullptr));
  if (bytes > 0) std::memcpy(PyArray_DATA(as_array(array.get())), tensor.raw(), static_cast<size_t>(bytes));
  return array.release();
}

bool is_view_of_tensor(PyObject* array) {
  if (!PyArray_CheckExact(array) || PyArray_ISWRITEABLE(as_array(array))) return false;
  PyObject* base = PyArray_BASE(as_array(array));
  return base != nullptr && PyCapsule_IsValid(base, kView) != 0;
}

PyObject* view_from_tensor(const Tensor& tensor) {
  check_rank(tensor);
  if (tensor.dtype() == DType::string) return strings_to_python(tensor, false);
  if (!is_plain(tensor.dtype())) return opaque_from_tensor(tensor);
  return wrap(tensor, NPY_ARRAY_CARRAY_RO);
}

}  // namespace thalweg
