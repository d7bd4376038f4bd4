// visit_group: a loop over the keys of a batch that fall into one shard, with what it needs fetched ahead.
#pragma once

#include <algorithm>
#include <span>

#include "embedding/batch.h"
#include "embedding/shard.h"

namespace thalweg::embedding {

// Calls visit(position) for the keys of a group, in order, with the memory that it will need fetched ahead: first the
// slots of the index, then so many bytes of the rows.
template <typename Visit>
void visit_group(const Shard& shard, const Batch& batch, std::span<const uint32_t> group, size_t bytes,
                 const Visit& visit) {
  // So many keys ahead the index is fetched, and then the row.
  constexpr size_t kIndexAhead = 24, kRowAhead = 12;
  const size_t n = group.size();
  for (size_t i = 0; i < std::min(kIndexAhead, n); ++i) shard.prefetch_slot(batch.hash(group[i]));
  for (size_t i = 0; i < std::min(kRowAhead, n); ++i) shard.prefetch_row(batch.hash(group[i]), bytes);
  for (size_t i = 0; i < n; ++i) {
    if (i + kIndexAhead < n) shard.prefetch_slot(batch.hash(group[i + kIndexAhead]));
    if (i + kRowAhead < n) shard.prefetch_row(batch.hash(group[i + kRowAhead]), bytes);
    visit(group[i]);
  }
}

}  // namespace thalweg::embedding
