// Recording and running gradients of single ops.
#include "python/gradient_program.h"

#include "python/gradient_tape.h"

namespace nb = nanobind;

namespace thalweg {
namespace {

// Constants that a program keeps instead of computing them each time.
constexpr int64_t kMostKept = 1024;

// Whether an op reads nothing of its inputs but their shapes, which are part of what a program is for.
bool reads_shapes_only(const std::string& op) {
  return op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank" || op == "ZerosLike" || op == "OnesLike";
}

template <typename Visit>
void each_output(nb::handle outputs, const Visit& visit) {
  if (!PyList_Check(outputs.ptr())) return visit(outputs.ptr());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs.ptr()); ++i) visit(PyList_GET_ITEM(outputs.ptr(), i));
}

bool is_small(nb::handle outputs) {
  int64_t elements = 0;
  each_output(outputs, [&](PyObject* output) { elements += value_of(output)->num_elements(); });
  return elements <= kMostKept;
}

}  // namespace

std::vector<nb::object> GradientProgram::run(std::span<PyObject* const> given, PyObject* recorders) const {
  std::vector<nb::object> values(num_operands);
  std::vector<PyObject*> operands(num_operands);
  for (size_t i = 0; i < given.size(); ++i) operands[i] = given[i];
  for (const auto& [number, constant] : constants) operands[static_cast<size_t>(number)] = constant.ptr();
  std::vector<PyObject*> inputs;
  for (const Instruction& instruction : instructions) {
    inputs.clear();
    for (int operand : instruction.operands) inputs.push_back(operands[static_cast<size_t>(operand)]);
    nb::object outputs = instruction.call->op().run_on(inputs.data(), static_cast<Py_ssize_t>(inputs.size()));
    if (recorders != nullptr)
      show(recorders, instruction.call, inputs.data(), static_cast<Py_ssize_t>(inputs.size()), outputs);
    auto at = static_cast<size_t>(instruction.first_output);
    each_output(outputs, [&](PyObject* output) {
      values[at] = nb::borrow(output);
      operands[at++] = output;
    });
    for (int operand : instruction.last_used) values[static_cast<size_t>(operand)].reset();
  }
  std::vector<nb::object> found;
  found.reserve(results.size());
  for (int result : results) {
    if (result == kNone)
      found.emplace_back();
    else if (result == kZero)
      found.push_back(zero_gradient());
    else if (auto place = static_cast<size_t>(result); place >= num_given && !values[place].is_valid())
      found.push_back(
          make_eager(*value_of(operands[place])));  // A constant: the program must not see one object twice.
    else
      found.push_back(nb::borrow(operands[place]));
  }
  return found;
}

GradientTrace::GradientTrace(std::span<const nb::object> operands, const std::vector<bool>& fixed)
    : program_(std::make_shared<GradientProgram>()), fixed_(fixed), runs_before_(BoundOp::runs_of_thread()) {
  program_->num_given = program_->num_operands = operands.size();
  for (size_t i = 0; i < operands.size(); ++i) {
    held_.push_back(operands[i]);
    if (!operands[i].is_valid()) continue;
    refused_ = refused_ || !numbers_.emplace(serial_of(operands[i].ptr()), static_cast<int>(i)).second;
    if (!fixed[i]) changing_.insert(value_of(operands[i].ptr())->raw());
  }
  outer_ = std::exchange(value_reader, this);
}

GradientTrace::~GradientTrace() { value_reader = outer_; }

void GradientTrace::reads(const Tensor& value) {
  if (value.num_elements() != 0 && changing_.contains(value.raw())) refused_ = true;
}

// The operand that a tensor is; a tensor that nothing recorded has made is a constant.
int GradientTrace::number_of(PyObject* tensor) {
  auto [known, is_new] = numbers_.try_emplace(serial_of(tensor), static_cast<int>(program_->num_operands));
  if (is_new) {
    program_->constants.emplace_back(known->second, nb::borrow(tensor));
    ++program_->num_operands;
    fixed_.push_back(true);
    held_.push_back(nb::borrow(tensor));
  }
  return known->second;
}

int GradientTrace::add_result(PyObject* tensor, bool is_fixed) {
  const auto number = static_cast<int>(program_->num_operands++);
  numbers_.emplace(serial_of(tensor), number);
  fixed_.push_back(is_fixed);
  held_.push_back(nb::borrow(tensor));
  if (is_fixed)
    program_->constants.emplace_back(number, nb::borrow(tensor));
  else
    changing_.insert(value_of(tensor)->raw());
  return number;
}

void GradientTrace::record(const std::shared_ptr<Call>& call, PyObject* const* inputs, Py_ssize_t count,
                           nb::handle outputs) {
  ++recorded_;
  if (refused_) return;
  GradientProgram::Instruction instruction{call, {}, 0, 0, {}};
  bool is_fixed = call->is_pure && is_small(outputs);
  const bool by_shapes = reads_shapes_only(call->op().type());
  for (Py_ssize_t i = 0; i < count; ++i) {
    instruction.operands.push_back(number_of(inputs[i]));
    is_fixed = is_fixed && (by_shapes || fixed_[static_cast<size_t>(instruction.operands.back())]);
  }
  instruction.first_output = static_cast<int>(program_->num_operands);
  each_output(outputs, [&](PyObject* output) {
    add_result(output, is_fixed);
    ++instruction.num_outputs;
  });
  if (!is_fixed) program_->instructions.push_back(std::move(instruction));
}

std::shared_ptr<GradientProgram> GradientTrace::finish(nb::handle results, nb::handle zero, size_t num_kept) {
  if (recorded_ != BoundOp::runs_of_thread() - runs_before_) refused_ = true;
  GradientProgram& program = *program_;
  for (nb::handle result : results) {
    if (result.is_none())
      program.results.push_back(GradientProgram::kNone);
    else if (result.is(zero))
      program.results.push_back(GradientProgram::kZero);
    else if (is_eager_tensor(result.ptr()))
      program.results.push_back(number_of(result.ptr()));
    else
      refused_ = true;
  }
  if (refused_) return nullptr;
  std::vector<int> last(program.num_operands, -1);
  std::vector<bool> used(program.num_operands, false);
  for (size_t i = 0; i < program.instructions.size(); ++i)
    for (int operand : program.instructions[i].operands) last[static_cast<size_t>(operand)] = static_cast<int>(i);
  for (int result : program.results)
    if (result >= 0) {
      last[static_cast<size_t>(result)] = -1;
      used[static_cast<size_t>(result)] = true;
    }
  for (size_t operand = 0; operand < last.size(); ++operand) {
    if (last[operand] < 0) continue;
    used[operand] = true;
    if (operand >= program.num_given)
      program.instructions[static_cast<size_t>(last[operand])].last_used.push_back(static_cast<int>(operand));
  }
  program.needed.assign(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(num_kept));
  std::erase_if(program.constants, [&](const auto& each) { return !used[static_cast<size_t>(each.first)]; });
  return program_;
}

}  // namespace thalweg
