// Recording ops, and walking back over them.
#include "python/gradient_tape.h"

#include <cstring>
#include <unordered_map>

#include "python/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace thalweg {
namespace {

// What the walk leaves to Python. Kept for good.
struct Functions {
  PyObject* input_gradients = nullptr;  // (op_def, attrs, inputs, outputs, backward, grads) -> gradients of the inputs
  PyObject* traced = nullptr;           // (trace, op_def, attrs, inputs, outputs, grads) -> the same, seen by a trace
  PyObject* aggregate = nullptr;        // (gradients) -> their sum
  PyObject* zero = nullptr;             // the marker of zeros
  PyObject* variable = nullptr;         // (handle) -> the trainable variable, or None
  PyObject* open_tapes = nullptr;       // () -> the tuple of open tapes
  PyObject* dense = nullptr;            // (gradient) -> it as one tensor
};
Functions functions;

// Values of more bytes than this are worth knowing at once whether a gradient needs them.
constexpr size_t kWorthATrace = 1 << 20;
// An op that is called with ever new shapes gets no more programs than this.
constexpr size_t kMostVariants = 256;

// The shapes of the tensors of an op, as bytes.
std::string shapes_of(std::span<const nb::object> tensors) {
  std::string key;
  for (const nb::object& tensor : tensors) {
    const Shape& shape = value_of(tensor.ptr())->shape();
    key.push_back(static_cast<char>(shape.rank()));
    key.append(reinterpret_cast<const char*>(shape.data()), sizeof(int64_t) * static_cast<size_t>(shape.rank()));
  }
  return key;
}

// The programs for these tensors; null if there can be none, or if values are still to come.
std::shared_ptr<GradientVariant> variant_of(Call& call, std::span<const nb::object> tensors) {
  if (!call.has_gradient) return nullptr;
  for (const nb::object& tensor : tensors)
    if (!has_value(tensor.ptr())) return nullptr;
  std::string key = shapes_of(tensors);
  auto found = call.variants.find(key);
  if (found != call.variants.end()) return found->second;
  if (call.variants.size() >= kMostVariants) return nullptr;
  return call.variants.emplace(std::move(key), std::make_shared<GradientVariant>()).first->second;
}

nb::object copy_of(const nb::object& tensor) {
  return tensor.is_valid() ? make_eager(*value_of(tensor.ptr())) : tensor;
}

nb::tuple tuple_of(std::span<const nb::object> items) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  if (!made.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].is_valid() ? items[i].ptr() : Py_None));
  return nb::borrow<nb::tuple>(made);
}

size_t bytes_of(std::span<const nb::object> tensors) {
  size_t bytes = 0;
  for (const nb::object& tensor : tensors) bytes += value_of(tensor.ptr())->bytes();
  return bytes;
}

bool is_handle(const nb::object& tensor) {
  const DType dtype = value_of(tensor.ptr())->dtype();
  return dtype == DType::resource || dtype == DType::variant;
}

nb::object open_tapes() { return nb::borrow(functions.open_tapes)(); }

}  // namespace

nb::object zero_gradient() { return nb::borrow(functions.zero); }

// Recording.

namespace {

// Ops whose gradients pass slices on as slices: for these they need what a program for dense gradients does not.
bool passes_slices(const std::string& op) { return op == "Cast" || op == "Concat" || op == "ConcatV2"; }

}  // namespace

bool Tape::depends_on_watched(PyObject* const* inputs, Py_ssize_t count) {
  bool found = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_eager_tensor(inputs[i])) continue;
    if (watched_.contains(serial_of(inputs[i]))) {
      found = true;
    } else if (watches_variables_ && is_resource(inputs[i])) {
      nb::object variable = nb::borrow(functions.variable)(nb::handle(inputs[i]));
      if (variable.is_none()) continue;
      watch_variable(variable, inputs[i]);
      found = true;
    }
  }
  return found;
}

void Tape::watch_variable(nb::handle variable, nb::handle handle) {
  watch(handle);
  variables_[nb::steal(PyLong_FromVoidPtr(variable.ptr()))] = variable;
}

void Tape::add(const EntryRef& entry) {
  for (size_t i = 0; i < entry->tensors.size(); ++i) {
    PyObject* tensor = entry->tensors[i].ptr();
    const bool known = is_eager_tensor(tensor);
    entry->serials.push_back(known ? serial_of(tensor) : 0);
    entry->differentiable.push_back(known && backpropagates(tensor));
    if (i >= entry->num_inputs && entry->differentiable.back()) watched_.insert(entry->serials.back());
  }
  entries_.push_back(entry);
}

void Tape::record(const std::shared_ptr<Call>& call, nb::handle op_def, nb::handle attrs, PyObject* const* inputs,
                  Py_ssize_t count, nb::handle outputs) {
  if (!depends_on_watched(inputs, count)) return;
  auto entry = std::make_shared<Entry>();
  entry->call = call;
  entry->num_inputs = static_cast<size_t>(count);
  if (call == nullptr) {
    entry->op_def = nb::borrow(op_def);
    entry->attrs = nb::borrow(attrs);
  }
  for (Py_ssize_t i = 0; i < count; ++i) entry->tensors.push_back(nb::borrow(inputs[i]));
  if (PyList_Check(outputs.ptr())) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs.ptr()); ++i)
      entry->tensors.push_back(nb::borrow(PyList_GET_ITEM(outputs.ptr(), i)));
  } else {
    entry->tensors.push_back(nb::borrow(outputs));
  }
  add(entry);
  if (call == nullptr) return;
  entry->variant = variant_of(*call, entry->tensors);
  // With several outputs, those that get a gradient decide on the program.
  if (entry->variant == nullptr || entry->tensors.size() != entry->num_inputs + 1) return;
  if (passes_slices(call->op().type())) return;
  std::shared_ptr<GradientProgram> program = entry->variant->program(1);
  if (program == nullptr && call->is_pure && entry->variant->uses == 0 && bytes_of(entry->tensors) >= kWorthATrace) {
    ++entry->variant->uses;
    trace_at_once(*entry);
    program = entry->variant->program(1);
  }
  if (program == nullptr) return;
  for (size_t i = 0; i < entry->tensors.size(); ++i)
    if (!program->needs(i)) entry->tensors[i].reset();
}

// Finds out what the gradient of a large op needs before there is a gradient, so that the first step of a program, too,
// keeps no more than that.
void Tape::trace_at_once(const Entry& entry) {
  Tensor seed(value_of(entry.tensors.back().ptr())->dtype(), value_of(entry.tensors.back().ptr())->shape());
  std::memset(seed.raw(), 0, seed.bytes());
  const nb::object grad = make_eager(std::move(seed));
  try {
    // The first run may meet ops that are not known yet: those cannot be recorded.
    for (int i = 0; i < 2 && entry.variant->program(1) == nullptr; ++i) trace(entry, 1, {grad});
  } catch (nb::python_error& error) {
    // The gradient itself will say it, if it is asked for.
    if (!error.matches(PyExc_Exception)) throw;
    ++entry.variant->refusals;
  } catch (const Error&) {
    ++entry.variant->refusals;
  }
}

void Tape::record_call(nb::sequence inputs, nb::sequence outputs, nb::object backward) {
  const nb::object items = nb::steal(PySequence_Fast(inputs.ptr(), "the inputs of a call are a sequence"));
  if (!items.is_valid()) throw nb::python_error();
  if (!depends_on_watched(PySequence_Fast_ITEMS(items.ptr()), PySequence_Fast_GET_SIZE(items.ptr()))) return;
  auto entry = std::make_shared<Entry>();
  entry->backward = std::move(backward);
  for (nb::handle input : items) entry->tensors.push_back(nb::borrow(input));
  entry->num_inputs = entry->tensors.size();
  for (nb::handle output : outputs) entry->tensors.push_back(nb::borrow(output));
  add(entry);
}

void Tape::clear() {
  // What they hold may run code of Python when it goes.
  const std::vector<EntryRef> entries = std::exchange(entries_, {});
  watched_.clear();
  const nb::dict variables = std::exchange(variables_, nb::dict());
}

size_t Tape::num_kept() const {
  std::unordered_set<PyObject*> kept;
  for (const EntryRef& entry : entries_)
    for (const nb::object& tensor : entry->tensors)
      if (tensor.is_valid()) kept.insert(tensor.ptr());
  return kept.size();
}

int Tape::traverse(visitproc visit, void* arg) const {
  Py_VISIT(variables_.ptr());
  for (const EntryRef& entry : entries_) {
    if (entry.use_count() != 1) continue;  // A walk on some thread has it, too.
    Py_VISIT(entry->op_def.ptr());
    Py_VISIT(entry->attrs.ptr());
    Py_VISIT(entry->backward.ptr());
    for (const nb::object& tensor : entry->tensors) Py_VISIT(tensor.ptr());
  }
  return 0;
}

// The backward walk.

class Tape::Walk {
 public:
  Walk(nb::sequence targets, nb::sequence seeds, nb::sequence sources) {
    for (nb::handle source : sources)
      if (is_eager_tensor(source.ptr())) wanted_.insert(serial_of(source.ptr()));
    auto seed = seeds.begin();
    for (nb::handle target : targets) {
      if (!(*seed).is_none()) collect(serial_of(target.ptr()), nb::borrow(*seed));
      ++seed;
    }
  }

  // The entries that depend on a source.
  std::vector<EntryRef> active(const std::vector<EntryRef>& entries) const {
    std::unordered_set<uint64_t> reached = wanted_;
    std::vector<EntryRef> found;
    for (const EntryRef& entry : entries) {
      const auto begin = entry->serials.begin(), outputs = begin + static_cast<std::ptrdiff_t>(entry->num_inputs);
      if (std::none_of(begin, outputs, [&](uint64_t serial) { return reached.contains(serial); })) continue;
      found.push_back(entry);
      for (size_t i = entry->num_inputs; i < entry->serials.size(); ++i)
        if (entry->differentiable[i]) reached.insert(entry->serials[i]);
    }
    return found;
  }

  void pass(const Entry& entry) {
    std::vector<nb::object> grads;
    bool any = false;
    for (size_t i = entry.num_inputs; i < entry.serials.size(); ++i) {
      grads.push_back(total(entry.serials[i]));
      if (!grads.back().is_valid()) continue;
      any = true;
      if (wanted_.contains(entry.serials[i])) found_[entry.serials[i]] = grads.back();
    }
    if (!any) return;
    std::vector<nb::object> gradients = input_gradients(entry, std::move(grads));
    for (size_t i = 0; i < entry.num_inputs; ++i)
      if (gradients[i].is_valid() && entry.differentiable[i]) collect(entry.serials[i], std::move(gradients[i]));
  }

  nb::list results(nb::sequence sources) {
    nb::list made;
    for (nb::handle source : sources) {
      if (!is_eager_tensor(source.ptr())) {
        made.append(nb::none());
        continue;
      }
      const uint64_t serial = serial_of(source.ptr());
      nb::object& found = found_[serial];
      if (!found.is_valid()) found = total(serial);
      made.append(found.is_valid() ? found : nb::none());
    }
    return made;
  }

 private:
  void collect(uint64_t serial, nb::object grad) { collected_[serial].push_back(std::move(grad)); }

  // The sum of the gradients that have reached a tensor; invalid if none has.
  nb::object total(uint64_t serial) {
    auto place = collected_.find(serial);
    if (place == collected_.end()) return {};
    std::vector<nb::object> grads = std::move(place->second);
    collected_.erase(place);
    if (grads.size() == 1) return std::move(grads[0]);
    const nb::object zero = zero_gradient();
    std::erase_if(grads, [&](const nb::object& grad) { return grad.is(zero); });
    if (grads.empty()) return zero;
    if (grads.size() == 1) return std::move(grads[0]);
    return nb::borrow(functions.aggregate)(nb::list(tuple_of(grads)));
  }

  std::unordered_set<uint64_t> wanted_;
  std::unordered_map<uint64_t, std::vector<nb::object>> collected_;
  std::unordered_map<uint64_t, nb::object> found_;
};

nb::list Tape::gradients(nb::sequence targets, nb::sequence seeds, nb::sequence sources, bool keep) {
  Walk walk(targets, seeds, sources);
  std::vector<EntryRef> active = walk.active(entries_);
  if (!keep) {
    const std::vector<EntryRef> dropped = std::exchange(entries_, {});
    watched_.clear();
  }
  while (!active.empty()) {
    const EntryRef entry = std::move(active.back());
    active.pop_back();
    walk.pass(*entry);
  }
  return walk.results(sources);
}

namespace {

constexpr uint64_t kWithSlices = ~uint64_t{0};

// Which outputs have a gradient, as bits; `kWithSlices` if one is no tensor, or there are very many. Gradients that are
// zero do not count, and are taken out.
uint64_t present_among(std::vector<nb::object>& grads) {
  const nb::object zero = zero_gradient();
  uint64_t present = 0;
  bool with_slices = false;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].is_valid() && grads[i].is(zero)) grads[i].reset();
    if (!grads[i].is_valid()) continue;
    if (i < 63) present |= uint64_t{1} << i;
    with_slices = with_slices || i >= 63 || !is_eager_tensor(grads[i].ptr());
  }
  return with_slices ? kWithSlices : present;
}

std::vector<nb::object> run_program(const GradientProgram& program, std::span<const nb::object> tensors,
                                    std::span<const nb::object> grads, const nb::object& recorders) {
  std::vector<PyObject*> operands;
  for (const nb::object& tensor : tensors) operands.push_back(tensor.ptr());
  for (const nb::object& grad : grads) operands.push_back(grad.ptr());
  return program.run(operands, PyTuple_GET_SIZE(recorders.ptr()) == 0 ? nullptr : recorders.ptr());
}

}  // namespace

std::vector<nb::object> Tape::input_gradients(const Entry& entry, std::vector<nb::object> grads) {
  uint64_t present = present_among(grads);
  if (present == 0) return std::vector<nb::object>(entry.num_inputs, zero_gradient());
  const nb::object recorders = open_tapes();
  if (entry.variant != nullptr) {
    const std::shared_ptr<GradientProgram> alone = entry.variant->program(1);
    if (present == kWithSlices && !entry.is_whole() && !alone->instructions.empty()) {
      // As the gradient function would do with slices: of what it needs for them nothing has been kept.
      grads[0] = nb::borrow(functions.dense)(grads[0]);
      present = 1;
    }
    const std::shared_ptr<GradientProgram> program =
        present == kWithSlices && !entry.is_whole() ? alone : entry.variant->program(present);
    if (program != nullptr) return run_program(*program, entry.tensors, grads, recorders);
  }
  const bool traced = entry.variant != nullptr && present != kWithSlices && PyTuple_GET_SIZE(recorders.ptr()) == 0 &&
                      entry.variant->is_worth_a_trace();
  const nb::object made = traced ? trace(entry, present, grads) : call_function(entry, grads);
  std::vector<nb::object> found(entry.num_inputs);
  size_t i = 0;
  for (nb::handle grad : made) {
    if (i == found.size()) break;
    if (!grad.is_none()) found[i] = nb::borrow(grad);
    ++i;
  }
  return found;
}

// Calls the gradient function.
nb::object Tape::call_function(const Entry& entry, const std::vector<nb::object>& grads) {
  const std::span tensors(entry.tensors);
  const nb::object none = nb::none();
  const nb::object& op_def = entry.call ? entry.call->op_def : entry.op_def;
  return nb::borrow(functions.input_gradients)(
      op_def.is_valid() ? op_def : none, op_def.is_valid() ? (entry.call ? entry.call->attrs : entry.attrs) : none,
      tuple_of(tensors.first(entry.num_inputs)), tuple_of(tensors.subspan(entry.num_inputs)),
      entry.backward.is_valid() ? entry.backward : none, tuple_of(grads));
}

// Calls the gradient function, and keeps what it does as a program, if it can be one.
nb::object Tape::trace(const Entry& entry, uint64_t present, const std::vector<nb::object>& grads) {
  // It gets copies, so that operands which are one tensor this time are told from each other.
  std::vector<nb::object> operands;
  std::vector<bool> fixed;
  for (const nb::object& tensor : entry.tensors) {
    operands.push_back(is_handle(tensor) ? tensor : copy_of(tensor));
    fixed.push_back(fixed.size() < entry.call->fixed.size() && entry.call->fixed[fixed.size()].is_valid());
  }
  for (const nb::object& grad : grads) operands.push_back(copy_of(grad));
  fixed.resize(operands.size());
  GradientTrace record(operands, fixed);
  const std::span all(operands);
  const nb::object made = nb::borrow(functions.traced)(nb::cast(&record, nb::rv_policy::reference), entry.call->op_def,
                                                       entry.call->attrs, tuple_of(all.first(entry.num_inputs)),
                                                       tuple_of(all.subspan(entry.num_inputs, grads.size())),
                                                       tuple_of(all.subspan(entry.tensors.size())));
  if (auto program = record.finish(made, zero_gradient(), entry.tensors.size()); program != nullptr)
    entry.variant->programs.emplace_back(present, std::move(program));
  else
    ++entry.variant->refusals;
  return made;
}

void show(PyObject* recorders, const std::shared_ptr<Call>& call, PyObject* const* inputs, Py_ssize_t count,
          nb::handle outputs) {
  const nb::object held = nb::borrow(recorders);
  static PyTypeObject* const tape_type = reinterpret_cast<PyTypeObject*>(nb::type<Tape>().ptr());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(recorders); ++i) {
    PyObject* recorder = PyTuple_GET_ITEM(recorders, i);
    if (Py_TYPE(recorder) == tape_type) {
      nb::inst_ptr<Tape>(recorder)->record(call, nb::handle(), nb::handle(), inputs, count, outputs);
    } else if (nb::isinstance<GradientTrace>(recorder)) {
      nb::inst_ptr<GradientTrace>(recorder)->record(call, inputs, count, outputs);
    } else {
      nb::object given = nb::steal(PyTuple_New(count));
      for (Py_ssize_t j = 0; j < count; ++j) PyTuple_SET_ITEM(given.ptr(), j, Py_NewRef(inputs[j]));
      nb::object listed = PyList_Check(outputs.ptr()) ? nb::borrow(outputs) : nb::object(nb::make_tuple(outputs));
      nb::handle(recorder).attr("record")(call->op_def, given, call->attrs, listed);
    }
  }
}

namespace {

int traverse_tape(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Tape>(self)->traverse(visit, arg) : 0;
}

int clear_tape(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Tape>(self)->clear();
  return 0;
}

PyType_Slot tape_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_tape)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_tape)},
    {0, nullptr},
};

}  // namespace

void bind_gradient_tape(nb::module_& m) {
  m.def(
      "set_gradient_functions",
      [](nb::object input_gradients, nb::object traced, nb::object aggregate, nb::object zero, nb::object variable,
         nb::object open_tapes, nb::object dense) {
        functions = {input_gradients.release().ptr(),
                     traced.release().ptr(),
                     aggregate.release().ptr(),
                     zero.release().ptr(),
                     variable.release().ptr(),
                     open_tapes.release().ptr(),
                     dense.release().ptr()};
      },
      "input_gradients"_a, "traced"_a, "aggregate"_a, "zero"_a, "variable"_a, "open_tapes"_a, "dense"_a,
      "Says what the backward walk leaves to Python.");
  nb::class_<Tape>(m, "Tape", nb::type_slots(tape_slots), "What a gradient tape keeps of the ops that run.")
      .def(nb::init<bool>(), "watches_variables"_a)
      .def(
          "record",
          [](Tape& self, nb::handle op_def, nb::sequence inputs, nb::handle attrs, nb::list outputs) {
            const nb::object items = nb::steal(PySequence_Fast(inputs.ptr(), "the inputs of an op are a sequence"));
            if (!items.is_valid()) throw nb::python_error();
            self.record(nullptr, op_def, attrs, PySequence_Fast_ITEMS(items.ptr()),
                        PySequence_Fast_GET_SIZE(items.ptr()), outputs);
          },
          "op_def"_a, "inputs"_a, "attrs"_a, "outputs"_a, nb::call_guard<NativeCall>(),
          "Records an op that has run, if it depends on what is watched.")
      .def("record_call", &Tape::record_call, "inputs"_a, "outputs"_a, "backward"_a, nb::call_guard<NativeCall>(),
           "Records a call of a function with a gradient of its own.")
      .def("watch", &Tape::watch, "tensor"_a)
      .def("watch_variable", &Tape::watch_variable, "variable"_a, "handle"_a, nb::call_guard<NativeCall>())
      .def("clear", &Tape::clear, nb::call_guard<NativeCall>(), "Forgets everything.")
      .def("gradients", &Tape::gradients, "targets"_a, "seeds"_a, "sources"_a, "keep"_a, nb::call_guard<NativeCall>(),
           "The gradients of the sources, None or the marker of zeros among them.")
      .def_prop_ro("variables", &Tape::variables)
      .def_prop_ro("num_kept", &Tape::num_kept, "How many tensors it keeps.")
      .def("__len__", &Tape::size);
  nb::class_<GradientTrace>(m, "GradientTrace", "Records what a gradient function does, as one of the open tapes.")
      .def(
          "record", [](GradientTrace& self, nb::handle, nb::handle, nb::handle, nb::handle) { self.refuse(); },
          "op_def"_a, "inputs"_a, "attrs"_a, "outputs"_a)
      .def(
          "record_call", [](GradientTrace& self, nb::handle, nb::handle, nb::handle) { self.refuse(); }, "inputs"_a,
          "outputs"_a, "backward"_a);
}

}  // namespace thalweg
