// EmbeddingTable: which rows leave, for good or to disk, and which come back ahead of their use.
#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "embedding/batch.h"
#include "embedding/cold_rows.h"
#include "embedding/table.h"
#include "embedding/visit_group.h"

namespace thalweg::embedding {
namespace {

// Rows looked at when one has to go for good, or to disk.
constexpr int kSampled = 16, kSampledForDisk = 8;
// Rows that are moved to disk one after the other.
constexpr size_t kDemotedAtOnce = 16;
// Batches of fewer keys are always fetched ahead. Of others so many keys are looked at, and so many rows on disk are
// read, to find out whether there is anything to wait for.
constexpr int64_t kFewKeys = 1024, kJudgedKeys = 512, kJudgedRows = 32;
// Batches waiting to be fetched ahead; the oldest goes first.
constexpr size_t kMostPrefetches = 16;

// The number of the i-th row that is drawn at random.
uint32_t nth_drawn(const Shard& shard, uint64_t seed, int i) {
  return static_cast<uint32_t>((combine64(seed, static_cast<uint64_t>(i)) >> 32) * shard.end() >> 32);
}

void prefetch_drawn(const Shard& shard, uint64_t seed, int sampled) {
  for (int i = 0; i < sampled; ++i) __builtin_prefetch(&shard.header(nth_drawn(shard, seed, i)));
}

// A row that is used least, among some drawn at random, but neither `kept` nor one of the update `now`; kNone if there
// is none.
template <typename Less>
uint32_t drawn(const Shard& shard, uint32_t now, uint32_t kept, uint64_t seed, int sampled, const Less& less) {
  uint32_t best = Shard::kNone;
  prefetch_drawn(shard, seed, sampled);
  for (int i = 0, found = 0; i < 8 * sampled && found < sampled; ++i) {
    const uint32_t number = nth_drawn(shard, seed, i);
    const RowHeader& head = shard.header(number);
    if (!head.live() || head.step == now || number == kept) continue;
    ++found;
    if (best == Shard::kNone || less(head, shard.header(best))) best = number;
  }
  return best;
}

// Whether a row has had fewer updates for the time since its last one: of two that were updated as often, the one that
// has been idle for longer.
struct LessUsed {
  uint64_t now;
  bool operator()(const RowHeader& a, const RowHeader& b) const {
    return (a.count() + uint64_t{1}) * idle(b) < (b.count() + uint64_t{1}) * idle(a);
  }
  // A row may have come with a later step, from a checkpoint.
  uint64_t idle(const RowHeader& row) const { return now > row.step ? now - row.step + 1 : 1; }
};
bool rarer(const RowHeader& a, const RowHeader& b) {
  return a.count() != b.count() ? a.count() < b.count() : a.step < b.step;
}

// Decides whether rows leave by the table's rules.
class Judge {
 public:
  Judge(const RowLayout& layout, const Eviction& rules, uint32_t now)
      : layout_(layout),
        rules_(rules),
        now_(now),
        value_(static_cast<size_t>(layout.dim())),
        row_(layout.stride(), 0) {}

  bool outlived(const char* row) {
    const RowHeader& head = RowLayout::header(row);
    const int64_t idle = static_cast<int64_t>(now_) - head.step;
    if (rules_.steps_to_live > 0 && idle >= rules_.steps_to_live) return true;
    if (idle < std::max<int64_t>(rules_.idle_steps, 1)) return false;
    if (rules_.min_count > 0 && head.count() < rules_.min_count) return true;
    if (!(rules_.min_norm > 0)) return false;
    layout_.decode(RowLayout::value(row), value_.data());
    float squares = 0;
    for (float x : value_) squares += x * x;
    return squares < rules_.min_norm * rules_.min_norm;
  }
  // Removes a row in memory if it has outlived; returns how many were removed.
  int64_t evict(Shard& shard, uint32_t number) {
    if (!shard.header(number).live() || !outlived(shard.row(number))) return 0;
    shard.erase(number);
    return 1;
  }
  // The same on disk. A row that cannot be read stays: the look-up that needs it reports what is wrong with it.
  int64_t evict_on_disk(Shard& shard, uint32_t place) {
    if (!shard.cold()->in_use(place)) return 0;
    try {
      shard.cold()->read(place, row_.data());
    } catch (const Error&) {
      return 0;
    }
    if (!outlived(row_.data())) return 0;
    shard.erase_on_disk(place, row_.data());
    return 1;
  }

 private:
  const RowLayout& layout_;
  const Eviction& rules_;
  const uint32_t now_;
  std::vector<float> value_;
  std::string row_;
};

// The least frequently updated of some rows on disk, drawn at random; its bytes are in `row` then. kNone if none can be
// read.
uint32_t drawn_on_disk(const Shard& shard, uint64_t seed, std::string* row) {
  constexpr int kRead = 4;
  const ColdRows& cold = *shard.cold();
  uint32_t best = ColdRows::kNone;
  std::string bytes(shard.stride(), '\0');
  for (int i = 0, found = 0; cold.rows() > 0 && i < 8 * kRead && found < kRead; ++i) {
    auto place = static_cast<uint32_t>((combine64(seed, static_cast<uint64_t>(i)) >> 32) * cold.end() >> 32);
    if (!cold.in_use(place)) continue;
    ++found;
    try {
      cold.read(place, bytes.data());
    } catch (const Error&) {
      continue;
    }
    if (best != ColdRows::kNone && !rarer(RowLayout::header(bytes.data()), RowLayout::header(row->data()))) continue;
    best = place;
    row->assign(bytes);
  }
  return best;
}

// In the cursor of sweeps: from here on, places on disk.
constexpr uint32_t kOnDisk = 1u << 31;

}  // namespace

bool EmbeddingTable::room_for_one(Shard& shard, uint32_t now) {
  if (options_.eviction.max_rows <= 0) return true;
  const int64_t most = std::max<int64_t>(options_.eviction.max_rows / static_cast<int64_t>(shards_.size()), 1);
  std::string on_disk;
  while (shard.all_rows() >= most) {
    const auto seed = combine64(now, static_cast<uint64_t>(evictions_.load(std::memory_order_relaxed)));
    const uint32_t victim = shard.rows() > 0 ? drawn(shard, now, Shard::kNone, seed, kSampled, rarer) : Shard::kNone;
    const uint32_t place = shard.cold() ? drawn_on_disk(shard, seed, &on_disk) : ColdRows::kNone;
    if (victim == Shard::kNone && place == ColdRows::kNone) return false;
    if (place != ColdRows::kNone &&
        (victim == Shard::kNone || rarer(RowLayout::header(on_disk.data()), shard.header(victim))))
      shard.erase_on_disk(place, on_disk.data());
    else
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
  const LessUsed less_used{now == kNoStep ? step_.load(std::memory_order_relaxed) : now};
  // Rows are drawn before they are moved, so that their bytes, and the headers of those drawn next, are on their way
  // from memory meanwhile.
  std::array<uint32_t, kDemotedAtOnce> victims;
  for (uint64_t i = 0; shard.rows() > budget;) {
    const auto extra = std::min<int64_t>(shard.rows() - budget, kDemotedAtOnce);
    size_t count = 0;
    uint64_t seed = combine64(now, i + static_cast<uint64_t>(shard.rows()) * 3);
    for (int64_t k = 0; k < extra; ++k) {
      const uint64_t next = combine64(now, ++i + static_cast<uint64_t>(shard.rows()) * 3);
      if (k + 1 < extra) prefetch_drawn(shard, next, kSampledForDisk);
      const uint32_t victim = drawn(shard, now, kept, std::exchange(seed, next), kSampledForDisk, less_used);
      const auto end = victims.begin() + static_cast<ptrdiff_t>(count);
      if (victim == Shard::kNone || std::find(victims.begin(), end, victim) != end) continue;
      const char* row = shard.row(victim);
      for (size_t line = 0; line < shard.stride(); line += 64) __builtin_prefetch(row + line);
      victims[count++] = victim;
    }
    if (count == 0) break;
    for (size_t k = 0; k < count; ++k) shard.demote(victims[k]);
  }
}

// Looks at the next rows of one shard, which takes turns: the cursor has its number in the upper bits. Of the rows on
// disk only some are looked at, because they are read for it.
void EmbeddingTable::sweep(size_t rows, uint32_t now) {
  uint64_t cursor = sweep_cursor_.load(std::memory_order_relaxed);
  Shard& shard = *shards_[(cursor >> 32) % shards_.size()];
  auto at = static_cast<uint32_t>(cursor);
  std::unique_lock lock(shard.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Judge judge(layout_, options_.eviction, now);
  int64_t evicted = 0;
  for (; rows > 0 && at < shard.end(); --rows, ++at) evicted += judge.evict(shard, at);
  if (at < kOnDisk && at >= shard.end()) at = kOnDisk;
  const uint32_t end = kOnDisk + (shard.cold() ? shard.cold()->end() : 0);
  for (size_t reads = (rows + 63) / 64; reads > 0 && at >= kOnDisk && at < end; --reads, ++at)
    evicted += judge.evict_on_disk(shard, at - kOnDisk);
  evictions_.fetch_add(evicted, std::memory_order_relaxed);
  const bool done = at >= end;
  if (done) shard.compact_disk();
  const uint64_t next = done ? ((cursor >> 32) + 1) << 32 : (cursor & ~uint64_t{0xffffffff}) | at;
  sweep_cursor_.compare_exchange_strong(cursor, next, std::memory_order_relaxed);
}

int64_t EmbeddingTable::evict(const Eviction& rules) {
  require_initialized();
  auto layout_lock = shared_layout();
  Judge judge(layout_, rules, step_.load(std::memory_order_relaxed));
  int64_t evicted = 0;
  constexpr uint32_t kAtOnce = 4096;
  for (auto& shard : shards_) {
    for (uint32_t begin = 0;; begin += kAtOnce) {
      std::unique_lock lock(shard->mutex);
      if (begin >= shard->end()) break;
      for (uint32_t i = begin; i < std::min(begin + kAtOnce, shard->end()); ++i) evicted += judge.evict(*shard, i);
    }
    std::unique_lock lock(shard->mutex);
    for (uint32_t i = 0; shard->cold() && i < shard->cold()->end(); ++i) evicted += judge.evict_on_disk(*shard, i);
    shard->compact_disk();
    if (rules.max_rows > 0)
      evicted += keep_most(*shard, std::max<int64_t>(rules.max_rows / static_cast<int64_t>(shards_.size()), 1));
  }
  evictions_.fetch_add(evicted, std::memory_order_relaxed);
  return evicted;
}

int64_t EmbeddingTable::keep_most(Shard& shard, int64_t most) {
  const int64_t extra = shard.all_rows() - most;
  if (extra <= 0) return 0;
  std::vector<std::pair<RowHeader, uint32_t>> all;  // rows on disk have numbers from kOnDisk on
  for (uint32_t i = 0; i < shard.end(); ++i)
    if (shard.header(i).live()) all.emplace_back(shard.header(i), i);
  std::string row(shard.stride(), '\0');
  for (uint32_t i = 0; shard.cold() && i < shard.cold()->end(); ++i) {
    if (!shard.cold()->in_use(i)) continue;
    shard.cold()->read(i, row.data());
    all.emplace_back(RowLayout::header(row.data()), kOnDisk + i);
  }
  std::nth_element(all.begin(), all.begin() + extra, all.end(),
                   [](const auto& a, const auto& b) { return rarer(a.first, b.first); });
  for (auto i = all.begin(); i != all.begin() + extra; ++i) {
    if (i->second < kOnDisk) {
      shard.erase(i->second);
      continue;
    }
    shard.cold()->read(i->second - kOnDisk, row.data());
    shard.erase_on_disk(i->second - kOnDisk, row.data());
  }
  shard.compact_disk();
  return extra;
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
    if (keys.num_elements() > kFewKeys && !waits_for_disk(keys)) continue;
    const uint32_t now = step_.load(std::memory_order_relaxed);
    Batch batch(keys, shards_.size());
    // First the rows that are in the system's memory. The disk learns of all others, so that it can fetch many at a
    // time.
    std::vector<std::vector<uint32_t>> later(shards_.size());
    for (size_t s = 0; s < shards_.size(); ++s) fetch_group(*shards_[s], batch, batch.group(s), now, &later[s]);
    for (size_t s = 0; s < shards_.size(); ++s) fetch_group(*shards_[s], batch, later[s], now, nullptr);
  }
}

// Rows that are in the system's memory are better left to the look-up, which reads them on several threads at once: to
// bring them back from here would take as much time, of a core that the step before may need, and locks.
bool EmbeddingTable::waits_for_disk(const Tensor& keys) const {
  const int64_t n = keys.num_elements(), stride = std::max<int64_t>(n / kJudgedKeys, 1);
  std::string row(layout_.stride(), '\0');
  int64_t read = 0;
  for (int64_t i = 0; i < n && read < kJudgedRows; i += stride) {
    const Key key = key_at(keys, i);
    const Shard& shard = *shards_[key.hash & (shards_.size() - 1)];
    std::shared_lock lock(shard.mutex);
    if (shard.cold() == nullptr || shard.find(key) != Shard::kNone) continue;
    const uint32_t place = shard.cold()->find(key);
    if (place == ColdRows::kNone) continue;
    try {
      if (!shard.cold()->read_at_once(place, key, row.data())) return true;
    } catch (const Error&) {
      return true;  // The look-up that needs the row reports what is wrong with it.
    }
    ++read;
  }
  return false;
}

void EmbeddingTable::fetch_group(Shard& shard, const Batch& batch, std::span<const uint32_t> group, uint32_t now,
                                 std::vector<uint32_t>* later) {
  // Rows are read under a shared lock: look-ups do not wait for the disk.
  FoundOnDisk found;
  const size_t stride = layout_.stride();
  {
    std::shared_lock lock(shard.mutex);
    const ColdRows* cold = shard.cold();
    if (cold == nullptr) return;
    found.version = cold->version();
    std::vector<uint32_t> candidates;
    visit_group(shard, batch, group, sizeof(RowHeader), [&](uint32_t position) {
      const Key key = batch.key(position);
      if (shard.find(key) != Shard::kNone) return;
      cold->prefetch_slot(key);
      candidates.push_back(position);
    });
    std::unordered_set<uint32_t> places;
    for (const uint32_t position : candidates) {
      const Key key = batch.key(position);
      const uint32_t place = cold->find(key);
      if (place == ColdRows::kNone || !places.insert(place).second) continue;
      try {
        char* row = found.next(stride);
        if (later == nullptr) {
          cold->read(place, key, row);
        } else if (!cold->read_at_once(place, key, row)) {
          cold->prefetch(place);
          later->push_back(position);
          continue;
        }
        found.rows.emplace_back(position, place);
      } catch (const Error&) {
        // The look-up that needs the row reports what is wrong with it.
      }
    }
  }
  install_found(shard, batch, found, now);
}

void EmbeddingTable::install_found(Shard& shard, const Batch& batch, const FoundOnDisk& found, uint32_t now) {
  if (found.rows.empty()) return;
  const size_t stride = layout_.stride();
  uint64_t version = found.version;
  std::unique_lock lock(shard.mutex);
  try {
    for (size_t i = 0; i < found.rows.size(); ++i) {
      const auto [position, place] = found.rows[i];
      const Key key = batch.key(position);
      if (shard.cold() == nullptr || shard.find(key) != Shard::kNone) continue;
      const bool same = shard.cold()->version() == version;
      const uint32_t number = same ? shard.install(key, place, found.bytes.data() + i * stride) : shard.promote(key);
      if (number == Shard::kNone) continue;
      if (same) ++version;  // Its own leaving; if the file was compacted, the places are no longer right.
      promotions_.fetch_add(1, std::memory_order_relaxed);
      // So that it is not the first to go. Where rows leave for good by their age, only updates count.
      if (!options_.eviction.sweeps()) shard.header(number).step = now;
    }
    spill(shard, now, Shard::kNone);
  } catch (const Error&) {
    // A full disk: the update that needs room reports it.
  }
}

}  // namespace thalweg::embedding
