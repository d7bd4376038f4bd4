// StreamCode: a recording as a loop over arrays: reads vectors of the inputs, writes vectors of the output.
//
// Made for x86-64 with AVX2 and FMA; `compile` returns null elsewhere, for instructions without a vector form, and
// where the system allows no new code. Several vectors are computed in turns: while one waits for the result of an
// instruction, the others go on. Immutable, so any number of threads may run it.
#pragma once

#include <memory>

#include "code/executable.h"
#include "code/recording.h"

namespace thalweg::code {

class StreamCode {
 public:
  // The parameters of the recording are numbered: those below `num_streams` are arrays, the others splats.
  static std::unique_ptr<StreamCode> compile(const Recording& recording, int num_streams, int num_splats, int result);

  // Computes n bytes of the output, a multiple of 32. `splats` are the values of the other parameters, as the bits of a
  // lane of 32 bits. `out` may be one of the inputs.
  void run(const void* const* streams, std::span<const uint32_t> splats, void* out, int64_t n) const;

 private:
  StreamCode(std::unique_ptr<Executable> memory, int num_slots) : memory_(std::move(memory)), num_slots_(num_slots) {}
  std::unique_ptr<Executable> memory_;
  int num_slots_;
};

}  // namespace thalweg::code
