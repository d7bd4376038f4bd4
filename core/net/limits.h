// Limits: how much of this task's memory, descriptors and threads peers can take.
//
// A peer that goes beyond a limit loses its connection; limits count per peer, so other peers keep theirs. Defaults are
// far above what programs need.
#pragma once

#include <cstddef>

namespace thalweg::net {

struct Limits {
  size_t head = (size_t{1} << 31) - 1;        // descriptors and body of one frame, in bytes
  size_t elements = size_t{1} << 38;          // of the tensors of one frame, in bytes
  size_t backlog = size_t{1} << 36;           // that waits to be written to one peer, in bytes
  size_t early_steps = 10000;                 // steps not started yet for which one peer has sent tensors
  size_t early_bytes = size_t{4} << 30;       // of these tensors
  size_t collectives = 10000;                 // messages of one peer for collective operations that have not begun here
  size_t collective_bytes = size_t{1} << 36;  // of these messages; what is lent in shared memory does not count
  size_t calls = 1000;                        // of one peer that have not been answered
  size_t connections = 10000;                 // that peers have opened
  size_t handshakes = 64;                     // of callers at one address, at the same time
};

}  // namespace thalweg::net
