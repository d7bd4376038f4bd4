// Recording blocks.
#include "code/block.h"

#include <utility>

namespace thalweg::code {

std::vector<int> BlockRecording::block(Block function, Lane lane) {
  const int number = add({Opcode::block, lane, kNone, kNone, kNone, static_cast<int64_t>(blocks_.size())});
  std::vector<int> parts;
  for (int i = 0; i < function.num_parts; ++i) parts.push_back(add({Opcode::part, lane, number, kNone, kNone, i}));
  blocks_.push_back(std::move(function));
  return parts;
}

}  // namespace thalweg::code
