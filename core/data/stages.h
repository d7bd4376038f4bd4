// Stages of which other stages are built.
#pragma once

#include "data/dataset.h"

namespace thalweg {

// A size or a number of calls that is left to the stage.
constexpr int64_t kAutotune = -1;

// An iterator over `input` that works up to `size` (> 0) elements ahead.
std::unique_ptr<DatasetIterator> prefetched(const Dataset& input, const Making& making, int64_t size);
// Batches of the input's elements.
DatasetPtr batched(Signature signature, DatasetPtr input, int64_t size, bool drop_remainder);

}  // namespace thalweg
