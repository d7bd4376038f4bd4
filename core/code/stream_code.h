// StreamCode: a recording as a loop over arrays: reads vectors of the inputs, writes vectors of the output.
//
// Made for x86-64 with AVX2 and FMA, or with AVX-512 where the caller knows that the processor has it: the bits are the
// same. `compile` returns null elsewhere, for instructions without a vector form, and where the system allows no new
// code. Several vectors are computed in turns: while one waits for the result of an
// instruction, the others go on. Immutable, so any number of threads may run it.
#pragma once

#include <memory>

#include "code/executable.h"
#include "code/memory.h"

namespace thalweg::code {

// The vectors that code is made for.
enum class Vectors : uint8_t { avx2, avx512 };
constexpr int bytes_of(Vectors vectors) { return vectors == Vectors::avx512 ? 64 : 32; }

class StreamCode {
 public:
  // What is computed: `result`, once for each element.
  struct Plan {
    // Of the arrays' elements; the first parameters are arrays, the others splats. Where it is not the lane's own type,
    // the recording widens what it reads (code/memory.h).
    std::vector<Memory> streams;
    int num_splats = 0;
    int result = 0;
    Memory out = Memory::lane;
    bool wide = false;  // lanes of 64 bits
  };
  static std::unique_ptr<StreamCode> compile(const Recording& recording, const Plan& plan, Vectors vectors);

  // Computes n elements, a multiple of as many as a vector has lanes. `splats` are the values of the other parameters,
  // as the bits of a lane. `out` may be one of the inputs.
  void run(const void* const* streams, std::span<const uint64_t> splats, void* out, int64_t n) const;

 private:
  StreamCode(std::unique_ptr<Executable> memory, int num_slots, bool wide, Vectors vectors)
      : memory_(std::move(memory)), num_slots_(num_slots), wide_(wide), vectors_(vectors) {}
  std::unique_ptr<Executable> memory_;
  int num_slots_;
  bool wide_;
  Vectors vectors_;
};

}  // namespace thalweg::code
