// Block: a function of whole values in memory, among the instructions of a recording.
//
// A recording's instructions compute on single vectors. A block reads and writes rows of them: products, reductions.
#pragma once

#include <vector>

#include "code/recording.h"

namespace thalweg::code {

struct Block {
  // Gets the state and the slots of the run; returns 0 if it failed, which ends the run.
  int (*function)(const void* state, void* slots);
  const void* state;
  // The code generator chooses where operands and result lie in the slots, each without gaps, and writes the numbers of
  // their first slots here, the result's last.
  int* places;
  std::vector<std::vector<int>> operands;  // values; an operand without any is the function's own affair
  int num_parts;                           // vectors of the result
};

class BlockRecording : public Recording {
 public:
  // The vectors of the result.
  std::vector<int> block(Block function, Lane lane);
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

}  // namespace thalweg::code
