// EmbeddingTable: which rows leave, for good or to disk, and which come back ahead of their use.
#include <algorithm>

#include "embedding/batch.h"
#include "embedding/cold_rows.h"
#include "embedding/table.h"

namespace thalweg::embedding {
namespace {

// Rows looked at when one has to go.
constexpr int kSampled = 16;
// Batches waiting to be fetched ahead; the oldest goes first.
constexpr size_t kMostPrefetches = 16;

// A row that is used least, among some drawn at random, but neither `kept` nor one of the update `now`; kNone if there
// is none.
template <typename Less>
uint32_t drawn(const Shard& shard, uint32_t now, uint32_t kept, uint64_t seed, const Less& less) {
  uint32_t best = Shard::kNone;
  for (int i = 0, found = 0; i < 8 * kSampled && found < kSampled; ++i) {
    auto number = static_cast<uint32_t>((combine64(seed, static_cast<uint64_t>(i)) >> 32) * shard.end() >> 32);
    const RowHeader& head = shard.header(number);
    if (!head.live() || head.step == now || number == kept) continue;
    ++found;
    if (best == Shard::kNone || less(head, shard.header(best))) best = number;
  }
  return best;
}

bool older(const RowHeader& a, const RowHeader& b) { return a.step < b.step; }
bool rarer(const RowHeader& a, const RowHeader& b) {
  return a.count() != b.count() ? a.count() < b.count() : a.step < b.step;
}

}  // namespace

bool EmbeddingTable::room_for_one(Shard& shard, uint32_t now) {
  if (options_.eviction.max_rows <= 0) return true;
  const int64_t most = std::max<int64_t>(options_.eviction.max_rows / static_cast<int64_t>(shards_.size()), 1);
  const int64_t cold = shard.cold() ? shard.cold()->rows() : 0;
  while (shard.rows() + cold >= most) {
    const auto seed = combine64(now, static_cast<uint64_t>(evictions_.load(std::memory_order_relaxed)));
    const uint32_t victim = shard.rows() > 0 ? drawn(shard, now, Shard::kNone, seed, rarer) : Shard::kNone;
    if (victim == Shard::kNone) return false;
    shard.erase(victim);
    evictions_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

void EmbeddingTable::spill(Shard& shard, uint32_t now, uint32_t kept) {
  if (options_.ram_bytes <= 0 || shard.in_cut()) return;
  const auto parts = static_cast<int64_t>(shards_.size());
  const auto row_bytes = static_cast<int64_t>(layout_.stride()) + 6;
  const int64_t budget = std::max<int64_t>(options_.ram_bytes / parts / row_bytes, 16);
  if (shard.rows() <= budget) return;
  if (shard.cold() == nullptr)
    shard.set_cold(std::make_unique<ColdRows>(options_.folder, options_.key == DType::string, layout_.stride()));
  for (uint64_t i = 0; shard.rows() > budget; ++i) {
    uint32_t victim = drawn(shard, now, kept, combine64(now, i + static_cast<uint64_t>(shard.rows()) * 3), older);
    if (victim == Shard::kNone) break;
    shard.demote(victim);
  }
}

bool EmbeddingTable::outlived(const Shard& shard, uint32_t number, const Eviction& rules, uint32_t now,
                              std::vector<float>& scratch) {
  const RowHeader& head = shard.header(number);
  if (!head.live()) return false;
  const int64_t idle = static_cast<int64_t>(now) - head.step;
  if (rules.steps_to_live > 0 && idle >= rules.steps_to_live) return true;
  if (idle < std::max<int64_t>(rules.idle_steps, 1)) return false;
  if (rules.min_count > 0 && head.count() < rules.min_count) return true;
  if (!(rules.min_norm > 0)) return false;
  layout_.decode(RowLayout::value(shard.row(number)), scratch.data());
  float squares = 0;
  for (float x : scratch) squares += x * x;
  return squares < rules.min_norm * rules.min_norm;
}

// Looks at the next rows of one shard, which takes turns: the cursor has its number in the upper bits.
void EmbeddingTable::sweep(size_t rows, uint32_t now) {
  std::vector<float> scratch(static_cast<size_t>(options_.dim));
  uint64_t cursor = sweep_cursor_.load(std::memory_order_relaxed);
  Shard& shard = *shards_[(cursor >> 32) % shards_.size()];
  auto at = static_cast<uint32_t>(cursor);
  std::unique_lock lock(shard.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  int64_t evicted = 0;
  for (; rows > 0 && at < shard.end(); --rows, ++at) {
    if (!outlived(shard, at, options_.eviction, now, scratch)) continue;
    shard.erase(at);
    ++evicted;
  }
  evictions_.fetch_add(evicted, std::memory_order_relaxed);
  const uint64_t next = at < shard.end() ? (cursor & ~uint64_t{0xffffffff}) | at : ((cursor >> 32) + 1) << 32;
  sweep_cursor_.compare_exchange_strong(cursor, next, std::memory_order_relaxed);
}

int64_t EmbeddingTable::evict(const Eviction& rules) {
  require_initialized();
  auto layout_lock = shared_layout();
  const uint32_t now = step_.load(std::memory_order_relaxed);
  std::vector<float> scratch(static_cast<size_t>(options_.dim));
  int64_t evicted = 0;
  constexpr uint32_t kAtOnce = 4096;
  for (auto& shard : shards_) {
    for (uint32_t begin = 0;; begin += kAtOnce) {
      std::unique_lock lock(shard->mutex);
      if (begin >= shard->end()) break;
      for (uint32_t i = begin; i < std::min(begin + kAtOnce, shard->end()); ++i) {
        if (!outlived(*shard, i, rules, now, scratch)) continue;
        shard->erase(i);
        ++evicted;
      }
    }
    if (shard->cold() == nullptr) continue;
    // Rows on disk have not been updated for long: they come back to be judged.
    std::unique_lock lock(shard->mutex);
    std::string bytes(layout_.stride(), '\0');
    for (uint32_t place = 0; place < shard->cold()->end(); ++place) {
      if (!shard->cold()->in_use(place)) continue;
      shard->cold()->read(place, bytes.data());
      const RowHeader head = RowLayout::header(bytes.data());
      if (rules.steps_to_live <= 0 || static_cast<int64_t>(now) - head.step < rules.steps_to_live) continue;
      shard->erase(shard->promote(shard->key_of_row(head), head.step));
      ++evicted;
    }
  }
  if (rules.max_rows > 0) {
    const int64_t most = std::max<int64_t>(rules.max_rows / static_cast<int64_t>(shards_.size()), 1);
    for (auto& shard : shards_) {
      std::unique_lock lock(shard->mutex);
      if (shard->rows() <= most) continue;
      std::vector<uint32_t> numbers;
      for (uint32_t i = 0; i < shard->end(); ++i)
        if (shard->header(i).live()) numbers.push_back(i);
      auto last = numbers.begin() + (shard->rows() - most);
      std::nth_element(numbers.begin(), last, numbers.end(),
                       [&](uint32_t a, uint32_t b) { return rarer(shard->header(a), shard->header(b)); });
      for (auto i = numbers.begin(); i != last; ++i, ++evicted) shard->erase(*i);
    }
  }
  evictions_.fetch_add(evicted, std::memory_order_relaxed);
  return evicted;
}

void EmbeddingTable::prefetch(const Tensor& keys) {
  require_initialized();
  check_keys(keys);
  if (options_.ram_bytes <= 0) return;
  std::lock_guard lock(prefetch_mutex_);
  if (prefetches_.size() == kMostPrefetches) prefetches_.pop_front();
  prefetches_.push_back(keys.owned());
  if (!prefetcher_.joinable()) prefetcher_ = std::thread([this] { prefetch_loop(); });
  prefetch_wanted_.notify_one();
}

void EmbeddingTable::prefetch_loop() {
  for (;;) {
    Tensor keys;
    {
      std::unique_lock lock(prefetch_mutex_);
      prefetch_wanted_.wait(lock, [&] { return closing_ || !prefetches_.empty(); });
      if (closing_) return;
      keys = std::move(prefetches_.front());
      prefetches_.pop_front();
    }
    auto layout_lock = shared_layout();
    const uint32_t now = step_.load(std::memory_order_relaxed);
    Batch batch(keys, shards_.size());
    // First the disk learns of all rows, so that it can fetch many at a time.
    for (size_t s = 0; s < shards_.size(); ++s) {
      std::shared_lock lock(shards_[s]->mutex);
      const ColdRows* cold = shards_[s]->cold();
      if (cold == nullptr) continue;
      for (uint32_t position : batch.group(s))
        if (uint32_t place = cold->find(batch.key(position)); place != ColdRows::kNone) cold->prefetch(place);
    }
    for (size_t s = 0; s < shards_.size(); ++s) {
      Shard& shard = *shards_[s];
      std::unique_lock lock(shard.mutex);
      if (shard.cold() == nullptr) continue;
      try {
        for (uint32_t position : batch.group(s)) {
          const uint32_t number = shard.promote(batch.key(position), now);
          if (number == Shard::kNone) continue;
          promotions_.fetch_add(1, std::memory_order_relaxed);
          shard.header(number).step = now;  // So that it is not the first to go.
          spill(shard, now, number);
        }
      } catch (const Error&) {
        // The look-up that needs the row reports what is wrong with it.
      }
    }
  }
}

}  // namespace thalweg::embedding
