// Finding and running calls.
#include "python/known_calls.h"

#include "python/eager_tensor.h"
#include "python/gil.h"
#include "python/gradient_tape.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// Programs that call ops with ever new numbers must not fill the memory.
constexpr size_t kMostCalls = 20'000;

// Whether the tensor of an argument is the same in each call whose key is the same: of whole and other numbers.
bool is_number(PyObject* value, const KeyTypes& types, int depth = 0) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type) return true;
  if (reinterpret_cast<PyObject*>(type) == types.array.ptr() ||
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(types.scalar.ptr())) != 0)
    return true;
  if ((type != &PyList_Type && type != &PyTuple_Type) || depth > 2) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    if (!is_number(PySequence_Fast_GET_ITEM(value, i), types, depth + 1)) return false;
  return true;
}

// The tensors of the numbers among the arguments, by input; false if another argument became a tensor.
bool find_fixed(nb::tuple inputs, nb::tuple lists, nb::sequence tensors, const KeyTypes& types, Call& call) {
  const auto count = static_cast<size_t>(nb::len(tensors));
  auto same = [&](PyObject* given) {
    if (call.fixed.size() == count || tensors[call.fixed.size()].ptr() != given) return false;
    call.fixed.emplace_back();
    return true;
  };
  for (size_t i = 0; i < nb::len(inputs); ++i) {
    PyObject* given = nb::object(inputs[i]).ptr();
    if (is_eager_tensor(given)) {
      if (!same(given)) return false;
    } else if (Py_TYPE(given) == reinterpret_cast<PyTypeObject*>(types.variable.ptr())) {
      // Its value, and not its handle.
      if (call.fixed.size() == count) return false;
      PyObject* read = nb::object(tensors[call.fixed.size()]).ptr();
      if (!nb::handle(dtype_object_of(read)).is(nb::handle(given).attr("_dtype"))) return false;
      call.fixed.emplace_back();
    } else if (nb::cast<bool>(lists[i])) {
      for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(given); ++j)
        if (!is_eager_tensor(PySequence_Fast_GET_ITEM(given, j)) || !same(PySequence_Fast_GET_ITEM(given, j)))
          return false;
    } else {
      if (!is_number(given, types) || call.fixed.size() == count) return false;
      call.fixed.emplace_back(tensors[call.fixed.size()]);
      call.any_fixed = true;
    }
  }
  return call.fixed.size() == count;
}

}  // namespace

std::shared_ptr<Call> KnownCalls::find(const CallKey& key) const {
  auto found = calls_.find(key.bytes());
  return found == calls_.end() ? nullptr : found->second;
}

void KnownCalls::insert(const CallKey& key, std::shared_ptr<Call> call) {
  if (calls_.size() >= kMostCalls) calls_.clear();
  for (size_t i = 0; i < key.num_named(); ++i) call->named.push_back(nb::borrow(key.named()[i]));
  calls_.insert_or_assign(std::string(key.bytes()), std::move(call));
}

namespace {

// The inputs of the native op of a call.
class Inputs {
 public:
  Inputs(const CallKey& key, const Call& call) : first_(key.tensors()), count_(key.num_tensors()) {
    if (key.has_variables() || key.has_lists()) {
      for (Py_ssize_t i = 0; i < count_; ++i)
        held_.push_back(key.is_variable(i) ? nb::handle(first_[i]).attr("value")() : nb::borrow(first_[i]));
      for (const nb::object& value : held_) values_.push_back(value.ptr());
      first_ = values_.data();
    }
    if (!call.any_fixed) return;
    for (const nb::object& fixed : call.fixed) all_.push_back(fixed.is_valid() ? fixed.ptr() : *first_++);
    first_ = all_.data();
    count_ = static_cast<Py_ssize_t>(all_.size());
  }
  Inputs(const Inputs&) = delete;
  PyObject* const* data() const { return first_; }
  Py_ssize_t size() const { return count_; }
  nb::tuple as_tuple() const {
    nb::object made = nb::steal(PyTuple_New(count_));
    if (!made.is_valid()) throw nb::python_error();
    for (Py_ssize_t i = 0; i < count_; ++i) PyTuple_SET_ITEM(made.ptr(), i, Py_NewRef(first_[i]));
    return nb::borrow<nb::tuple>(made);
  }

 private:
  std::vector<nb::object> held_;
  std::vector<PyObject*> values_, all_;
  PyObject* const* first_;
  Py_ssize_t count_;
};

}  // namespace

nb::object KnownCalls::run(nb::handle op_type, nb::handle given, nb::handle attrs) {
  if (!mode_.runs_plainly()) return nb::borrow(Py_NotImplemented);
  const CallKey key(op_type.ptr(), given.ptr(), attrs.ptr(), types_);
  if (!key.ok()) return nb::borrow(Py_NotImplemented);
  // Held: code that runs meanwhile may forget it.
  const std::shared_ptr<Call> call = find(key);
  if (call == nullptr) return nb::borrow(Py_NotImplemented);
  const Inputs inputs(key, *call);
  nb::object outputs =
      mode_.is_asynchronous() ? call->queued(inputs.as_tuple()) : call->op().run_on(inputs.data(), inputs.size());
  if (PyObject* recorders = mode_.recorders(); recorders != nullptr)
    show(recorders, call, inputs.data(), inputs.size(), outputs);
  return call->results.is_none() ? outputs : call->results(outputs, inputs.as_tuple());
}

bool KnownCalls::keep(nb::handle op_type, nb::tuple inputs, nb::dict attrs, nb::tuple resolved, nb::sequence tensors,
                      nb::tuple lists) {
  const CallKey key(op_type.ptr(), inputs.ptr(), attrs.ptr(), types_);
  if (!key.ok()) return false;
  auto call = std::make_shared<Call>();
  call->native = resolved[0];
  if (!nb::isinstance<BoundOp>(call->native)) throw nb::type_error("a call to keep has an EagerOp");
  call->op_def = resolved[1];
  call->attrs = resolved[2];
  call->results = resolved[3];
  call->is_pure = nb::cast<bool>(resolved[4]);
  call->has_gradient = nb::cast<bool>(resolved[5]);
  call->queued = resolved[6];
  if (nb::len(lists) != nb::len(inputs) || !find_fixed(inputs, lists, tensors, types_, *call)) return false;
  insert(key, std::move(call));
  return true;
}

bool KnownCalls::keep_form(nb::handle name, nb::tuple inputs, nb::handle op_type, nb::tuple known_inputs,
                           nb::dict known_attrs) {
  const CallKey known(op_type.ptr(), known_inputs.ptr(), known_attrs.ptr(), types_);
  const nb::dict none;
  const CallKey key(name.ptr(), inputs.ptr(), none.ptr(), types_);
  const std::shared_ptr<Call> found = known.ok() && key.ok() ? find(known) : nullptr;
  if (found == nullptr || found->any_fixed || key.num_tensors() > known.num_tensors()) return false;
  auto call = std::make_shared<Call>(*found);
  call->variants.clear();
  for (Py_ssize_t i = 0; i < known.num_tensors(); ++i) {
    if (known.is_variable(i) || (i < key.num_tensors() && key.tensors()[i] != known.tensors()[i])) return false;
    if (i < key.num_tensors()) continue;
    call->fixed[static_cast<size_t>(i)] = nb::borrow(known.tensors()[i]);
    call->any_fixed = true;
  }
  for (size_t i = 0; i < known.num_named(); ++i) call->named.push_back(nb::borrow(known.named()[i]));
  insert(key, std::move(call));
  return true;
}

namespace {

// The function of Python that runs known calls: called for every op, so it is one without the bindings' conversions.
// An exception goes to Python by way of a function of the bindings, which know them all.
thread_local std::exception_ptr thrown;

PyObject* run_known(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  static PyObject* const rethrow =
      nb::object(nb::cpp_function([] { std::rethrow_exception(std::exchange(thrown, nullptr)); })).release().ptr();
  try {
    const NativeCall call;
    if (count != 3) throw nb::type_error("run(op_type, inputs, attrs)");
    return nb::inst_ptr<KnownCalls>(self)->run(given[0], given[1], given[2]).release().ptr();
  } catch (abi::__forced_unwind&) {
    Gil::rest();
  } catch (...) {
    thrown = std::current_exception();
  }
  return or_rest([] { return PyObject_CallNoArgs(rethrow); });
}

PyMethodDef run_definition = {
    "run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_known)), METH_FASTCALL,
    "run(op_type, inputs, attrs): runs a call that is known; NotImplemented if it is not, or Python has to look."};

}  // namespace

void bind_known_calls(nb::module_& m) {
  nb::class_<KnownCalls>(m, "KnownCalls", "Calls of ops that have been made, by their arguments and attributes.")
      .def(
          "__init__",
          [](KnownCalls* self, nb::tuple exact, nb::object array, nb::object scalar, nb::object variable,
             nb::handle graphs, nb::handle process, nb::handle interception, nb::handle scopes, nb::handle tapes,
             nb::handle queue) {
            KeyTypes types{{},
                           std::move(array),
                           std::move(scalar),
                           std::move(variable),
                           nb::steal(PyUnicode_InternFromString("_dtype"))};
            for (nb::handle type : exact) types.exact.push_back(Py_NewRef(type.ptr()));
            new (self) KnownCalls(std::move(types), EagerMode(graphs, process, interception, scopes, tapes, queue));
          },
          "exact"_a, "array"_a, "scalar"_a, "variable"_a, "graphs"_a, "process"_a, "interception"_a, "scopes"_a,
          "tapes"_a, "queue"_a)
      .def(
          "set_graph", [](KnownCalls& self, nb::handle graph) { self.mode().set_graph(graph); }, "graph"_a)
      .def(
          "runner", [](nb::object self) { return nb::steal(PyCFunction_New(&run_definition, self.ptr())); },
          "The function (op_type, inputs, attrs) that runs a call that is known: its result; NotImplemented if it is "
          "not known, or Python's code has to look.")
      .def("keep", &KnownCalls::keep, "op_type"_a, "inputs"_a, "attrs"_a, "resolved"_a, "tensors"_a, "lists"_a,
           nb::call_guard<NativeCall>(), "Keeps a call that has been resolved; whether it could.")
      .def("keep_form", &KnownCalls::keep_form, "name"_a, "inputs"_a, "op_type"_a, "known_inputs"_a, "known_attrs"_a,
           nb::call_guard<NativeCall>(), "Keeps another form of a known call; whether it could.")
      .def("clear", &KnownCalls::clear)
      .def("__len__", &KnownCalls::size);
}

}  // namespace thalweg
