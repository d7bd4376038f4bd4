// GradientProgram: what a gradient function does to one op with certain shapes, as a list of native ops.
//
// Gradient functions are written once, in Python, and build their result of ordinary ops. A GradientTrace records these
// ops while such a function runs on the values of one call; later calls of the same op with the same shapes run
// the list without Python. So the results have the same bits. It is refused where the list might be another one for
// other values: if the function has looked at a value that is not known from the shapes, or has run ops that cannot be
// recorded.
//
// Operands have numbers: first the inputs of the op, its outputs, the gradients of the outputs, then constants and
// results. Under the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/eager_tensor.h"
#include "python/known_calls.h"

namespace thalweg {

class GradientProgram {
 public:
  static constexpr int kNone = -1, kZero = -2;  // results that are no operand
  struct Instruction {
    std::shared_ptr<Call> call;
    std::vector<int> operands;
    int first_output, num_outputs;
    std::vector<int> last_used;  // operands that nothing needs afterwards
  };

  // The gradients by input. `operands`: those of the op and the gradients of its outputs, null where not needed.
  // `recorders`: the open tapes, null if there are none.
  std::vector<nanobind::object> run(std::span<PyObject* const> operands, PyObject* recorders) const;
  // Whether the value of an input or output of the op is used.
  bool needs(size_t operand) const { return needed[operand]; }

  size_t num_given = 0;  // operands that are not made by the program
  size_t num_operands = 0;
  std::vector<std::pair<int, nanobind::object>> constants;
  std::vector<Instruction> instructions;
  std::vector<int> results;
  std::vector<bool> needed;
};

// The programs of an op for certain shapes of its inputs and outputs.
struct GradientVariant {
  // The program for gradients of these outputs, as bits; null if there is none.
  std::shared_ptr<GradientProgram> program(uint64_t present) const {
    for (const auto& [mask, program] : programs)
      if (mask == present) return program;
    return nullptr;
  }
  // A gradient function runs a few times before its program is worth recording; one that cannot be recorded is not
  // tried for ever. Counts the use.
  bool is_worth_a_trace() { return ++uses > 2 && refusals < 3; }

  int uses = 0, refusals = 0;
  std::vector<std::pair<uint64_t, std::shared_ptr<GradientProgram>>> programs;
};

// Records one run of a gradient function; among the open tapes while it runs.
class GradientTrace final : public ValueReader {
 public:
  // `operands`: the inputs and outputs of the op and the gradients of its outputs, null where there is none; no tensor
  // twice. `fixed`: for each whether it is the same in every call.
  GradientTrace(std::span<const nanobind::object> operands, const std::vector<bool>& fixed);
  ~GradientTrace() override;
  GradientTrace(const GradientTrace&) = delete;

  void record(const std::shared_ptr<Call>& call, PyObject* const* inputs, Py_ssize_t count, nanobind::handle outputs);
  // An op ran that is no known call.
  void refuse() { refused_ = true; }
  void reads(const Tensor& value) override;
  // The program, given what the function has returned; null if there cannot be one.
  std::shared_ptr<GradientProgram> finish(nanobind::handle results, nanobind::handle zero, size_t num_kept);

 private:
  int number_of(PyObject* tensor);
  int add_result(PyObject* tensor, bool is_fixed);

  std::shared_ptr<GradientProgram> program_;
  std::unordered_map<uint64_t, int> numbers_;  // by serial
  std::vector<bool> fixed_;                    // by number
  std::vector<nanobind::object> held_;
  std::unordered_set<const void*> changing_;  // the values that are not the same in every call, by address
  uint64_t runs_before_, recorded_ = 0;
  ValueReader* outer_;
  bool refused_ = false;
};

}  // namespace thalweg
