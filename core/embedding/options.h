// What an embedding table is made with: the form of its rows, their first values, and when they come and go.
#pragma once

#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace thalweg::embedding {

// How the values of a row are kept. Slots of optimizers are always float32.
enum class Precision { float32, bfloat16, int8 };

// The first value of a row: a function of its key and the seed, so that the order of arrival does not matter.
struct FirstValue {
  enum class Kind { constant, uniform, normal, truncated_normal };
  Kind kind = Kind::constant;
  float a = 0, b = 0;  // The constant; the bounds; the mean and the standard deviation.
  uint64_t seed = 0;
};

// When rows leave; zeros mean never.
struct Eviction {
  int64_t steps_to_live = 0;  // without an update
  int64_t idle_steps = 1;     // without an update, before the next two apply
  int64_t min_count = 0;      // rows with fewer updates go
  float min_norm = 0;         // rows whose value is shorter go
  int64_t max_rows = 0;       // more than that: the least frequently updated go

  bool sweeps() const { return steps_to_live > 0 || min_count > 0 || min_norm > 0; }
};

struct Options {
  DType key = DType::int64;
  int64_t dim = 0;
  Precision precision = Precision::float32;
  FirstValue first;
  int64_t admit_after = 1;   // occurrences in updates
  int64_t filter_bytes = 0;  // of the counting filter; used if admit_after > 1
  Eviction eviction;
  int64_t ram_bytes = 0;  // for rows in memory; 0: no limit
  std::string folder;     // for the rows beyond it
};

}  // namespace thalweg::embedding
