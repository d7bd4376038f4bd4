// Batch: the keys of one operation on a table, in groups by shard.
//
// A shard is locked once for all keys of a batch that fall into it; within a group keys keep their order.
#pragma once

#include <span>

#include "embedding/keys.h"

namespace thalweg::embedding {

class Batch {
 public:
  // `shards` is a power of two. The tensor must outlive the batch.
  Batch(const Tensor& keys, size_t shards) : keys_(keys), text_(keys.dtype() == DType::string) {
    const auto n = static_cast<size_t>(keys.num_elements());
    require(n < (uint64_t{1} << 32), "a batch of ", n, " keys is too large");
    hashes_.resize(n);
    if (text_) ids_.resize(n);
    starts_.assign(shards + 1, 0);
    const size_t mask = shards - 1;
    for (size_t i = 0; i < n; ++i) {
      const Key key = key_at(keys, static_cast<int64_t>(i));
      hashes_[i] = key.hash;
      if (text_) ids_[i] = key.id;
      ++starts_[(key.hash & mask) + 1];
    }
    for (size_t s = 0; s < shards; ++s) starts_[s + 1] += starts_[s];
    order_.resize(n);
    std::vector<uint32_t> at(starts_.begin(), starts_.end() - 1);
    for (size_t i = 0; i < n; ++i) order_[at[hashes_[i] & mask]++] = static_cast<uint32_t>(i);
  }

  size_t size() const { return order_.size(); }
  std::span<const uint32_t> group(size_t shard) const {
    return std::span(order_).subspan(starts_[shard], starts_[shard + 1] - starts_[shard]);
  }
  uint64_t hash(uint32_t position) const { return hashes_[position]; }
  Key key(uint32_t position) const {
    if (text_) return {ids_[position], keys_.strings()[position], hashes_[position]};
    return {static_cast<uint64_t>(keys_.flat<int64_t>()[position]), {}, hashes_[position]};
  }

 private:
  const Tensor& keys_;
  const bool text_;
  std::vector<uint64_t> hashes_, ids_;
  std::vector<uint32_t> starts_, order_;
};

}  // namespace thalweg::embedding
