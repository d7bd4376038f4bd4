// Calls of single ops.
#include "python/bound_op.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "python/attributes.h"
#include "python/eager_tensor.h"
#include "python/gil.h"
#include "python/step_values.h"
#include "session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Ops on more elements than this give the lock of the interpreter to other threads.
constexpr int64_t kBigWork = 1 << 15;
thread_local uint64_t runs = 0;

NodeDef definition(const std::string& name, const std::string& op, const std::string& device, nb::dict attrs,
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

// Room for the inputs and outputs of a call. Most have few: then nothing is allocated, and only what is used is made.
class Operands {
 public:
  explicit Operands(size_t count) : count_(count) {
    Tensor* place = first();
    if (count > kFew) {
      many_.resize(count);
      return;
    }
    for (size_t i = 0; i < count; ++i) new (place + i) Tensor;
  }
  ~Operands() {
    if (count_ > kFew) return;
    for (size_t i = 0; i < count_; ++i) first()[i].~Tensor();
  }
  Operands(const Operands&) = delete;
  Tensor* data() { return count_ > kFew ? many_.data() : first(); }

 private:
  static constexpr size_t kFew = 8;
  Tensor* first() { return reinterpret_cast<Tensor*>(few_.data()); }

  size_t count_;
  alignas(Tensor) std::array<std::byte, kFew * sizeof(Tensor)> few_;
  std::vector<Tensor> many_;
};

}  // namespace

BoundOp::BoundOp(nb::object session, const std::string& name, const std::string& op, const std::string& device,
                 nb::dict attrs, nb::sequence input_dtypes, nb::sequence output_dtypes)
    : owner_(shared_object(session)),
      op_(definition(name, op, device, attrs, input_dtypes, output_dtypes),
          nb::cast<Session&>(session).device(device)) {}

uint64_t BoundOp::runs_of_thread() { return runs; }

nb::object BoundOp::run(nb::handle given) const {
  PyObject* items = PySequence_Fast(given.ptr(), "the inputs of an op are a sequence");
  if (items == nullptr) throw nb::python_error();
  nb::object holder = nb::steal(items);
  return run_on(PySequence_Fast_ITEMS(items), PySequence_Fast_GET_SIZE(items));
}

nb::object BoundOp::run_on(PyObject* const* given, Py_ssize_t count) const {
  ++runs;
  const auto inputs = static_cast<size_t>(op_.num_inputs()), outputs = static_cast<size_t>(op_.num_outputs());
  Operands operands(inputs + outputs);
  Tensor *in = operands.data(), *out = in + inputs;
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

// The inputs as tensors; how many elements they have together.
int64_t BoundOp::take(PyObject* const* given, Py_ssize_t count, Tensor* inputs) const {
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

void bind_bound_op(nb::module_& m) {
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
}

}  // namespace thalweg
