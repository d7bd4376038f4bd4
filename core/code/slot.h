// Slot: a vector in memory.
#pragma once

#include "code/recording.h"

namespace thalweg::code {

struct alignas(kVectorBytes) Slot {
  unsigned char bytes[kVectorBytes];
};

}  // namespace thalweg::code
