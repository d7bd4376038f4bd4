// KnownCalls: calls of eager ops that have been made before. One like them, by its CallKey, needs no Python code to be
// resolved: its native op and the tensors of the numbers among its arguments are found here.
//
// A call is shown to the tapes that are open; a tape keeps the Call, which also knows the programs of its gradients
// (see gradient_program.h). All of it is under the lock of the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "python/bound_op.h"
#include "python/call_key.h"
#include "python/eager_mode.h"

namespace thalweg {

struct GradientVariant;

struct Call {
  const BoundOp& op() const { return *nanobind::inst_ptr<BoundOp>(native); }

  nanobind::object native;   // the EagerOp
  nanobind::object op_def;   // its definition
  nanobind::object attrs;    // its attributes in canonical form
  nanobind::object results;  // a function of outputs and inputs that returns the result; None if it is the output
  nanobind::object queued;   // runs it on a list of inputs in its turn, in asynchronous mode
  // What a program of a gradient may do with it: compute it once if its operands never change; and whether it has one.
  bool is_pure = false, has_gradient = false;
  // By input of the native op: the tensor of a number among the arguments; invalid for the tensors of the call.
  std::vector<nanobind::object> fixed;
  bool any_fixed = false;
  std::vector<nanobind::object> named;  // see CallKey
  // By the shapes of inputs and outputs.
  std::unordered_map<std::string, std::shared_ptr<GradientVariant>> variants;
};

class KnownCalls {
 public:
  KnownCalls(KeyTypes types, EagerMode mode) : types_(std::move(types)), mode_(std::move(mode)) {}
  EagerMode& mode() { return mode_; }

  // Runs a call, and shows it to the open tapes. NotImplemented if it is not known, or if this thread builds a graph
  // or is in a scope: Python's code then takes over.
  nanobind::object run(nanobind::handle op_type, nanobind::handle inputs, nanobind::handle attrs);
  // Keeps a call that has been resolved. `tensors`: the inputs of the native op; `lists`: for each argument, whether
  // it is a list of tensors. Returns false for calls that a key cannot tell, or whose tensors depend on more than it.
  bool keep(nanobind::handle op_type, nanobind::tuple inputs, nanobind::dict attrs, nanobind::tuple resolved,
            nanobind::sequence tensors, nanobind::tuple lists);
  // Keeps another call as a form of a known one: its tensors, then `others` are the inputs. For operators.
  bool keep_form(nanobind::handle name, nanobind::tuple inputs, nanobind::handle op_type, nanobind::tuple known_inputs,
                 nanobind::dict known_attrs);
  void clear() { calls_.clear(); }
  size_t size() const { return calls_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  std::shared_ptr<Call> find(const CallKey& key) const;
  void insert(const CallKey& key, std::shared_ptr<Call> call);

  KeyTypes types_;
  EagerMode mode_;
  std::unordered_map<std::string, std::shared_ptr<Call>, Hash, std::equal_to<>> calls_;
};

void bind_known_calls(nanobind::module_& m);

}  // namespace thalweg
