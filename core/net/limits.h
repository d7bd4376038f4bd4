// Limits: how much of this task's memory, descriptors and threads peers can take.
//
// A peer that goes beyond a limit loses its connection, apart from limits on what it may ask for at once (steps,
// calls): further calls wait, or are answered with ResourceExhaustedError. Limits count per peer, so that nobody else
// is concerned. Defaults are far above what programs need.
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
  size_t step_bytes = size_t{16} << 30;       // of tensors of one peer that running steps have not taken yet
  size_t steps = 10000;                       // that one peer has started and that have not ended
  size_t calls = 1000;                        // of one peer that have not been answered
  size_t call_threads = 64;                   // that calls of one peer occupy; further calls wait
  size_t connections = 10000;                 // that peers have opened
  size_t handshakes = 64;                     // of callers at one address, at the same time
};

}  // namespace thalweg::net
