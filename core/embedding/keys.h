// The keys of embedding tables: 64-bit integers or strings, and their hashes.
//
// The hash of a key leaves the process: it decides on which task a row lives, and (with a seed) the row's first value.
// Its formula is fixed.
#pragma once

#include <string_view>
#include <vector>

#include "strings/hash.h"
#include "tensor/tensor.h"

namespace thalweg::embedding {

// One key. `id` is the number itself, or a fingerprint of the text: it seeds the first value of the row.
struct Key {
  uint64_t id;
  std::string_view text;
  uint64_t hash;
};

inline Key key_of(int64_t number) {
  auto id = static_cast<uint64_t>(number);
  return {id, {}, combine64(id, 0)};
}
inline Key key_of(std::string_view text) {
  uint64_t id = fingerprint64(text);
  return {id, text, combine64(id, 1)};
}
inline Key key_at(const Tensor& keys, int64_t i) {
  return keys.dtype() == DType::string ? key_of(keys.strings()[i]) : key_of(keys.flat<int64_t>()[i]);
}

// Which of `parts` tasks has the row. Other bits than those that order rows within a table.
inline int64_t part_of(const Key& key, int64_t parts) {
  return static_cast<int64_t>((static_cast<unsigned __int128>(combine64(key.hash, 2)) * static_cast<uint64_t>(parts)) >>
                              64);
}

}  // namespace thalweg::embedding
