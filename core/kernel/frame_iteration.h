// FrameIteration: which execution of a loop, and which iteration of it, a node runs in: the same two numbers in every
// process that takes part in the step.
//
// A frame is one execution of a loop. Its number depends on nothing but the name that the graph gives the loop
// (`frame_name` of its Enters) and the iteration of the surrounding frame that started it:
//
//     frame(loop in parent) = combine64(combine64(parent.frame, parent.iteration), fnv1a64(frame_name)), or 1 if that
//     is 0
//
// with the functions of strings/hash.h. Outside of loops both numbers are 0; iterations count from 0. Rendezvous keys
// end with the two ("frame:iteration").
#pragma once

#include <cstdint>

#include "strings/hash.h"

namespace thalweg {

struct FrameIteration {
  uint64_t frame = 0;
  int64_t iteration = 0;
  bool operator==(const FrameIteration&) const = default;
};

// The number of a frame that starts in iteration `parent`; `name` is the fnv1a64 of its loop's name.
constexpr uint64_t child_frame(FrameIteration parent, uint64_t name) {
  const uint64_t frame = combine64(combine64(parent.frame, static_cast<uint64_t>(parent.iteration)), name);
  return frame != 0 ? frame : 1;
}

}  // namespace thalweg
