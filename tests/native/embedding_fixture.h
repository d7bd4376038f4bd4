// What the tests of embedding tables share: keys, a rule that adds, and a folder.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "embedding/table.h"

namespace thalweg::embedding_tests {

inline Tensor keys_of(std::vector<int64_t> keys) { return Tensor::vector<int64_t>(keys); }

// Adds the gradient to the value and to the only slot.
inline void add(const void*, const void* const* in, void* const* out, const void* gradients, int64_t n) {
  for (int k = 0; k < 2; ++k)
    for (int64_t i = 0; i < n; ++i)
      static_cast<float*>(out[k])[i] = static_cast<const float*>(in[k])[i] + static_cast<const float*>(gradients)[i];
}
inline const embedding::Slot kSlot[] = {{"sum", 0.0f}};
inline const embedding::RowStep kAdd{nullptr, add};

inline embedding::Options options(int64_t dim) {
  embedding::Options out;
  out.dim = dim;
  return out;
}

inline std::vector<float> look_up(embedding::EmbeddingTable& table, const Tensor& keys,
                                  const std::string& average = {}) {
  std::vector<float> out(static_cast<size_t>(keys.num_elements() * table.options().dim));
  table.lookup(keys, out.data(), average);
  return out;
}

inline std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

struct Folder {
  Folder() {
    char name[] = "/tmp/thalweg-rows-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace thalweg::embedding_tests
