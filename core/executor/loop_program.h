// LoopProgram: a whole while-loop as one node: two straight lists of nodes, the condition's and the body's, run in
// turn.
//
// passes/lower_loops.py makes it of a loop whose nodes are all synchronous, with conditionals but without further
// loops. Running such a loop needs no frames, no tokens and no pending counts: per iteration the condition's nodes run
// in order, and while the predicate is true the body's, whose results are the loop variables of the next iteration. A
// loop over scalars and small tensors goes on in machine code after some iterations (executor/compiled_loop.h), unless
// the step is observed. Immutable; any number of steps may run it at once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/plan.h"

namespace thalweg {

struct NodeSite;
class CompiledLoop;

// Where a value inside the loop comes from: a loop variable, an invariant, or an output of a node, numbered in one row:
// variables first, then invariants, then nodes.
struct LoopSource {
  int32_t source;
  int32_t output;
};

class LoopProgram {
 public:
  // Inputs of the specs use LoopSource numbering. The first `num_condition` specs are the condition's. Inputs behind
  // those that the op reads are its guards: a node runs if all its inputs and guards have values, as they have unless
  // they come from the branch of a conditional (Switch) that is not taken. A Merge passes on the input that has one.
  LoopProgram(std::vector<NodeSpec> specs, int num_condition, int num_variables, int num_invariants,
              LoopSource predicate, const std::vector<LoopSource>& next, const KernelMaker& make_kernel,
              Device& device);

  ~LoopProgram();

  int num_variables() const { return num_variables_; }
  int num_invariants() const { return num_invariants_; }

  // The nodes, in the order in which they run.
  std::vector<const NodeDef*> nodes() const;

  // `variables` holds the initial values and receives the final ones; both spans may be written.
  void run(std::span<Tensor> variables, std::span<Tensor> invariants, Step& step) const;

 private:
  friend class LoopBuilder;
  struct Push {
    int32_t output;
    int32_t slot;
    bool last;
  };
  enum class Kind : uint8_t { compute, constant, choose, merge };
  struct Item {
    Kind kind = Kind::compute;
    bool may_be_dead = false;  // in a branch of a conditional
    std::shared_ptr<Kernel> kernel;
    NodeDef def;
    std::vector<LoopSource> inputs;
    int32_t first_slot = 0;
    int32_t num_inputs = 0;
    int32_t num_outputs = 0;
    std::vector<Push> pushes;
    // Inputs that are constants (bit i: input i): their slots are filled once, and not released.
    std::vector<std::pair<int32_t, Tensor>> constants;
    uint64_t constant_inputs = 0;
  };
  struct Scratch {
    std::vector<Tensor> slots;
    std::vector<Tensor> outputs;
  };
  std::unique_ptr<Scratch> take_scratch() const;
  // Goes on with the loop in machine code, if its operands and nodes allow that. True if it has ended; else the
  // variables are those of an iteration that is still to be done.
  bool run_code(std::span<Tensor> variables, std::span<Tensor> invariants, Step& step, bool is_worth_compiling) const;
  void run_branching(const Item& item, Tensor* inputs, Tensor* outputs, const NodeSite& site) const;
  void run_items(size_t first, size_t last, Scratch& scratch, const NodeSite& site) const;

  Device& device_;
  LoopSource predicate_;
  std::vector<LoopSource> next_;
  std::vector<Item> items_;
  size_t num_condition_;
  int num_variables_;
  int num_invariants_;
  int32_t predicate_slot_ = 0;
  int32_t next_slot_ = 0;  // of the first variable; the others follow
  int32_t num_slots_ = 0;
  int32_t max_outputs_ = 1;
  // For each variable and invariant, the slots to fill before the condition and before the body.
  std::vector<std::vector<int32_t>> before_condition_, before_body_;
  mutable std::mutex mutex_;  // guards everything below; compiled loops stay where they are
  mutable std::vector<std::unique_ptr<const CompiledLoop>> compiled_;
  mutable size_t failed_ = 0;  // combinations of shapes that no code could be made for
  mutable std::atomic<bool> is_compilable_{true};
  mutable std::atomic<uint32_t> iterations_{0};  // of all runs by nodes, counted up to what compiling takes
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace thalweg
