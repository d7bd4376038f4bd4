// LoopCode: a recording as a while-loop: the values that it computes are the parameters of its next iteration.
//
// Made for x86-64 with AVX2 and FMA; `compile` returns null elsewhere, and where the system allows no new code.
// Immutable, so any number of threads may run it.
#pragma once

#include <memory>
#include <vector>

#include "code/block.h"
#include "code/executable.h"
#include "code/slot.h"

namespace thalweg::code {

// What a recording computes, once per iteration.
struct LoopPlan {
  int num_variables;      // the first parameters
  int num_parameters;     // the others keep their values
  int condition_end;      // instructions before this one belong to the condition
  int predicate;          // all lanes true: goes on
  std::vector<int> next;  // of each variable
};

class LoopCode {
 public:
  static std::unique_ptr<LoopCode> compile(const BlockRecording& recording, const LoopPlan& plan);

  int num_slots() const { return num_slots_; }
  // The first slots are the parameters; those of the variables are changed, up to the beginning of an iteration that
  // did not take place: because the condition was false, `limit` iterations were done, or it divides by zero, an
  // array refuses an index or a block fails in it.
  enum class Outcome : int { ended, limit, failed };
  struct Result {
    Outcome outcome;
    int64_t iterations;  // that took place
  };
  Result run(Slot* slots, int64_t limit) const;

 private:
  LoopCode(std::unique_ptr<Executable> memory, int num_slots) : memory_(std::move(memory)), num_slots_(num_slots) {}
  std::unique_ptr<Executable> memory_;
  int num_slots_;
};

}  // namespace thalweg::code
