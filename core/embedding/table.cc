// EmbeddingTable: look-ups, updates, and rows in and out.
#include "embedding/table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "embedding/batch.h"
#include "embedding/cold_rows.h"
#include "embedding/visit_group.h"
#include "thread/parallel.h"

namespace thalweg::embedding {
namespace {

// Batches of fewer keys stay on one thread.
constexpr size_t kSerial = 2048;

// A power of two. The thread sanitizer knows at most 64 locks that a thread holds, and a cut takes those of all shards.
#ifdef __SANITIZE_THREAD__
constexpr int64_t kShards = 32;
#else
constexpr int64_t kShards = 64;
#endif

size_t shards_for(const Options& options) {
  // Few rows at most: few shards, so that each has room for some.
  const int64_t most = options.eviction.max_rows;
  return std::bit_floor(static_cast<size_t>(most > 0 ? std::clamp<int64_t>(most / 256, 1, kShards) : kShards));
}

}  // namespace

EmbeddingTable::EmbeddingTable(std::string name, Options options)
    : name_(std::move(name)), options_(std::move(options)), layout_(options_) {
  for (size_t i = shards_for(options_); i > 0; --i) shards_.push_back(std::make_unique<Shard>(options_, layout_));
  if (options_.admit_after > 1) filter_ = std::make_unique<CountingFilter>(static_cast<size_t>(options_.filter_bytes));
}

EmbeddingTable::~EmbeddingTable() {
  {
    std::lock_guard lock(prefetch_mutex_);
    closing_ = true;
  }
  prefetch_wanted_.notify_all();
  if (prefetcher_.joinable()) prefetcher_.join();
  // The work may hold the last reference to the table, and then ends with it.
  if (background_.get_id() == std::this_thread::get_id())
    background_.detach();
  else if (background_.joinable())
    background_.join();
}

void EmbeddingTable::run_in_background(std::function<void()> work) {
  std::lock_guard lock(background_mutex_);
  if (background_busy_->exchange(true)) return;
  if (background_.joinable()) background_.join();
  background_ = std::thread([work = std::move(work), busy = background_busy_] {
    work();
    busy->store(false);
  });
}

void EmbeddingTable::require_initialized() const {
  if (!initialized())
    fail(Code::failed_precondition, "embedding table '", name_,
         "' is not initialized: run its initializer, or restore it from a checkpoint");
}

void EmbeddingTable::check_keys(const Tensor& keys) const {
  require(keys.dtype() == options_.key, "embedding table '", name_, "' has keys of type ", options_.key, ", got ",
          keys.dtype());
}

void EmbeddingTable::initialize() {
  std::lock_guard saving_lock(saving);
  auto layout_lock = exclusive_layout();
  for (auto& shard : shards_) {
    std::unique_lock lock(shard->mutex);
    shard->clear();
  }
  if (filter_) filter_->clear();
  chain.clear();
  loaded.clear();
  step_ = 0;
  for (auto& clock : clocks_) clock = 0;
  initialized_.store(true, std::memory_order_release);
}

void EmbeddingTable::for_groups(const Batch& batch, const std::function<void(size_t)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto shards = static_cast<int64_t>(shards_.size());
  parallel_for(shards, batch.size() < kSerial ? shards : 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      if (batch.group(static_cast<size_t>(s)).empty()) continue;
      try {
        body(static_cast<size_t>(s));
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    }
  });
  if (first) std::rethrow_exception(first);
}

EmbeddingTable::Reading EmbeddingTable::reading(const std::string& average) const {
  if (average.empty()) return {};
  for (size_t i = 0; i < layout_.averages().size(); ++i) {
    const int slot = layout_.averages()[i];
    if (layout_.slots()[static_cast<size_t>(slot)].name == average) return {slot, clocks_[i].load()};
  }
  // Nothing has been averaged yet: averages begin with the values.
  return {};
}

void EmbeddingTable::settle(char* row) const {
  for (size_t i = 0; i < layout_.averages().size(); ++i)
    layout_.settle(row, layout_.averages()[i], clocks_[i].load(std::memory_order_relaxed));
}

void EmbeddingTable::average(const std::string& name, double decay) {
  require_initialized();
  require(decay >= 0 && decay <= 1, "the decay of an average must be between 0 and 1, got ", decay);
  const Slot slots[] = {{name, 0, Slot::Kind::average}, {name + "/clock", 0, Slot::Kind::clock}};
  int numbers[2];
  auto layout_lock = with_slots(slots, numbers);
  const auto& all = layout_.averages();
  const auto found = std::find(all.begin(), all.end(), numbers[0]);
  require(found != all.end(), "embedding table '", name_, "' has a slot '", name, "' that is not an average");
  // Less is left of the old average than floats tell apart: a clock that stops at no number.
  const double passed = std::log(std::max(decay, 1e-30));
  std::atomic<double>& clock = clocks_[static_cast<size_t>(found - all.begin())];
  clock.fetch_add(passed, std::memory_order_relaxed);
}

void EmbeddingTable::lookup(const Tensor& keys, float* out, const std::string& average) {
  require_initialized();
  check_keys(keys);
  auto layout_lock = shared_layout();
  Batch batch(keys, shards_.size());
  const Reading read = reading(average);
  // The updates of a training step read the rows of its look-ups once more: they had better be in memory.
  const bool fetch = options_.ram_bytes > 0 && lookups_since_update_.load(std::memory_order_relaxed) < kServing;
  if (fetch) lookups_since_update_.fetch_add(1, std::memory_order_relaxed);
  for_groups(batch, [&](size_t shard) { lookup_group(shard, batch, read, fetch, out); });
}

void EmbeddingTable::lookup_group(size_t number, const Batch& batch, const Reading& read, bool fetch, float* out) {
  Shard& shard = *shards_[number];
  const auto group = batch.group(number);
  const size_t bytes = read.slot < 0 ? sizeof(RowHeader) + layout_.value_bytes() : layout_.stride();
  std::vector<uint32_t> elsewhere;  // positions of keys without a row in memory
  FoundOnDisk cold;
  {
    std::shared_lock lock(shard.mutex);
    if (shard.cold()) cold.version = shard.cold()->version();
    visit_group(shard, batch, group, bytes, [&](uint32_t position) {
      const Key key = batch.key(position);
      if (const uint32_t found = shard.find(key); found != Shard::kNone) {
        read(layout_, shard.row(found), out + static_cast<int64_t>(position) * options_.dim);
        return;
      }
      if (shard.cold()) shard.cold()->prefetch_slot(key);
      elsewhere.push_back(position);
    });
    const size_t misses = lookup_elsewhere(shard, batch, elsewhere, read, fetch, cold, out);
    hits_.fetch_add(static_cast<int64_t>(group.size() - misses), std::memory_order_relaxed);
    misses_.fetch_add(static_cast<int64_t>(misses), std::memory_order_relaxed);
  }
  install_found(shard, batch, cold, step_.load(std::memory_order_relaxed));
}

size_t EmbeddingTable::lookup_elsewhere(const Shard& shard, const Batch& batch, std::span<const uint32_t> positions,
                                        const Reading& read, bool fetch, FoundOnDisk& found, float* out) const {
  size_t misses = 0;
  std::string row;
  for (const uint32_t position : positions) {
    const Key key = batch.key(position);
    float* to = out + static_cast<int64_t>(position) * options_.dim;
    const uint32_t place = shard.cold() ? shard.cold()->find(key) : ColdRows::kNone;
    if (place != ColdRows::kNone) {
      char* bytes = found.next(layout_.stride());
      shard.cold()->read(place, key, bytes);
      read(layout_, bytes, to);
      if (fetch) found.rows.emplace_back(position, place);
      continue;
    }
    ++misses;
    first_value(options_.first, key.id, to, options_.dim);
    if (options_.precision == Precision::float32) continue;
    // As it would be read from the row.
    row.resize(layout_.value_bytes());
    layout_.encode(to, row.data(), key.id);
    layout_.decode(row.data(), to);
  }
  return misses;
}

std::shared_lock<std::shared_mutex> EmbeddingTable::with_slots(std::span<const Slot> slots, std::span<int> numbers) {
  // Whether an optimizer says only now what a slot begins with.
  auto is_news = [&](const Slot& slot, int number) {
    return number >= 0 && layout_.slots()[static_cast<size_t>(number)].provisional && !slot.provisional;
  };
  for (;;) {
    auto shared = shared_layout();
    bool complete = true;
    for (size_t i = 0; i < slots.size(); ++i) {
      numbers[i] = layout_.find_slot(slots[i].name);
      complete &= numbers[i] >= 0 && !is_news(slots[i], numbers[i]);
    }
    if (complete) return shared;
    shared.unlock();
    // No checkpoint is being written while rows change their form.
    std::lock_guard saving_lock(saving);
    auto exclusive = exclusive_layout();
    const size_t had = layout_.slots().size();
    for (const Slot& slot : slots) {
      const int number = layout_.find_slot(slot.name);
      if (number < 0)
        layout_.add_slot(slot);
      else if (is_news(slot, number))
        layout_.set_initial(number, slot.initial);
    }
    if (layout_.slots().size() == had) continue;
    try {
      for (auto& shard : shards_) shard->prepare_slots(had);
    } catch (...) {
      for (auto& shard : shards_) shard->cancel_slots();
      layout_.keep_slots(had);
      throw;
    }
    for (auto& shard : shards_) shard->add_slots(had);
    while (clocks_.size() < layout_.averages().size()) clocks_.emplace_back(0.0);
    chain.clear();  // Segments have rows of one form: the next one is full.
  }
}

uint32_t EmbeddingTable::find_or_make(Shard& shard, const Key& key, uint32_t now, bool admit_all) {
  uint32_t number = shard.find(key);
  if (number != Shard::kNone) return number;
  number = shard.promote(key);
  if (number != Shard::kNone) {
    promotions_.fetch_add(1, std::memory_order_relaxed);
    if (now != kNoStep) {
      shard.before_change(number);
      shard.header(number).step = now;
    }
    spill(shard, now, number);
    return number;
  }
  const bool admitted = admit_all || !filter_ || filter_->add(key.hash) >= options_.admit_after;
  if (!(admitted && room_for_one(shard, now)) && !admit_all) {
    rejections_.fetch_add(1, std::memory_order_relaxed);
    return Shard::kNone;
  }
  number = shard.insert(key, now == kNoStep ? step_.load(std::memory_order_relaxed) : now);
  admissions_.fetch_add(1, std::memory_order_relaxed);
  spill(shard, now, number);
  return number;
}

void EmbeddingTable::apply(const Tensor& keys, const float* gradients, std::span<const Slot> slots,
                           const RowStep& step) {
  require_initialized();
  check_keys(keys);
  int numbers[kMostSlots] = {};
  auto layout_lock = with_slots(slots, {numbers, slots.size()});
  const uint32_t now = step_.fetch_add(1, std::memory_order_relaxed) + 1;
  lookups_since_update_.store(0, std::memory_order_relaxed);
  Batch batch(keys, shards_.size());
  for_groups(batch, [&](size_t shard) { apply_group(shard, batch, gradients, {numbers, slots.size()}, step, now); });
  if (options_.eviction.sweeps()) sweep(2 * batch.size() + 64, now);
}

void EmbeddingTable::apply_group(size_t shard_number, const Batch& batch, const float* gradients,
                                 std::span<const int> slots, const RowStep& step, uint32_t now) {
  Shard& shard = *shards_[shard_number];
  const auto group = batch.group(shard_number);
  const int64_t dim = options_.dim;
  const size_t bytes = layout_.stride();
  std::vector<std::pair<uint32_t, uint32_t>> updates;  // row, position
  updates.reserve(group.size());
  std::vector<float> value(static_cast<size_t>(layout_.precision() == Precision::float32 ? 0 : dim)), sum;
  bool repeated = false;

  std::unique_lock lock(shard.mutex);
  visit_group(shard, batch, group, bytes, [&](uint32_t position) {
    const uint32_t row = find_or_make(shard, batch.key(position), now, false);
    if (row == Shard::kNone) return;
    RowHeader& head = shard.header(row);
    // A row made or touched by this very update has its step: only one update has this number.
    repeated |= head.step == now && head.count() > 0;
    shard.before_change(row);
    head.step = now;
    head.set(head.count() + 1, head.epoch(), true);
    updates.emplace_back(row, position);
  });
  if (repeated) std::sort(updates.begin(), updates.end());

  for (size_t i = 0; i < updates.size();) {
    const uint32_t number = updates[i].first;
    const float* gradient = gradients + static_cast<int64_t>(updates[i].second) * dim;
    if (++i < updates.size() && repeated && updates[i].first == number) {
      sum.assign(gradient, gradient + dim);
      for (; i < updates.size() && updates[i].first == number; ++i) {
        const float* more = gradients + static_cast<int64_t>(updates[i].second) * dim;
        for (int64_t k = 0; k < dim; ++k) sum[static_cast<size_t>(k)] += more[k];
      }
      gradient = sum.data();
    }
    char* row = shard.row(number);
    settle(row);
    void* state[1 + kMostSlots];
    const bool direct = layout_.precision() == Precision::float32;
    if (!direct) layout_.decode(RowLayout::value(row), value.data());
    state[0] = direct ? reinterpret_cast<float*>(RowLayout::value(row)) : value.data();
    for (size_t s = 0; s < slots.size(); ++s) state[s + 1] = layout_.slot(row, slots[s]);
    step.run(step.rule, state, state, gradient, dim);
    if (!direct) layout_.encode(value.data(), RowLayout::value(row), combine64(shard.header(number).key, now));
  }
}

void EmbeddingTable::insert(const Tensor& keys, const float* values) {
  require_initialized();
  check_keys(keys);
  auto layout_lock = shared_layout();
  Batch batch(keys, shards_.size());
  for_groups(batch, [&](size_t s) {
    Shard& shard = *shards_[s];
    std::unique_lock lock(shard.mutex);
    for (uint32_t position : batch.group(s)) {
      const uint32_t number = find_or_make(shard, batch.key(position), kNoStep, true);
      shard.before_change(number);
      settle(shard.row(number));
      layout_.encode(values + static_cast<int64_t>(position) * options_.dim, RowLayout::value(shard.row(number)),
                     batch.key(position).id);
    }
  });
}

void EmbeddingTable::remove(const Tensor& keys) {
  require_initialized();
  check_keys(keys);
  auto layout_lock = shared_layout();
  Batch batch(keys, shards_.size());
  for_groups(batch, [&](size_t s) {
    Shard& shard = *shards_[s];
    std::unique_lock lock(shard.mutex);
    for (uint32_t position : batch.group(s)) {
      const Key key = batch.key(position);
      uint32_t number = shard.find(key);
      if (number == Shard::kNone) number = shard.promote(key);
      if (number != Shard::kNone) shard.erase(number);
    }
  });
}

EmbeddingTable::Rows EmbeddingTable::export_rows(std::span<const std::string> slots, const std::string& average) {
  require_initialized();
  auto layout_lock = shared_layout();
  std::vector<int> numbers;
  for (const std::string& slot : slots) {
    numbers.push_back(layout_.find_slot(slot));
    require(numbers.back() >= 0 && layout_.slots()[static_cast<size_t>(numbers.back())].kind == Slot::Kind::constant,
            "embedding table '", name_, "' has no slot '", slot, "' of an optimizer");
  }
  const Reading read = reading(average);
  const bool text = options_.key == DType::string;
  const int64_t dim = options_.dim;
  std::vector<int64_t> ids;
  std::vector<std::string> texts;
  std::vector<float> values;
  std::vector<int64_t> counts, steps;
  std::vector<std::vector<float>> of_slots(slots.size());
  auto add = [&](const Shard& shard, const char* row) {
    const RowHeader& head = RowLayout::header(row);
    const Key key = shard.key_of_row(head);
    if (text)
      texts.emplace_back(key.text);
    else
      ids.push_back(static_cast<int64_t>(key.id));
    values.resize(values.size() + static_cast<size_t>(dim));
    read(layout_, row, values.data() + values.size() - dim);
    counts.push_back(head.count());
    steps.push_back(head.step);
    for (size_t s = 0; s < numbers.size(); ++s) {
      const float* from = layout_.slot(row, numbers[s]);
      of_slots[s].insert(of_slots[s].end(), from, from + dim);
    }
  };
  std::string bytes(layout_.stride(), '\0');
  for (auto& shard : shards_) {
    std::shared_lock lock(shard->mutex);
    for (uint32_t i = 0; i < shard->end(); ++i)
      if (shard->header(i).live()) add(*shard, shard->row(i));
    for (uint32_t place = 0; shard->cold() && place < shard->cold()->end(); ++place) {
      if (!shard->cold()->in_use(place)) continue;
      shard->cold()->read(place, bytes.data());
      add(*shard, bytes.data());
    }
  }
  const auto n = static_cast<int64_t>(counts.size());
  Rows out;
  if (text) {
    out.keys = Tensor(DType::string, Shape{n});
    std::move(texts.begin(), texts.end(), out.keys.strings());
  } else {
    out.keys = Tensor::vector<int64_t>(ids);
  }
  out.values = Tensor(DType::float32, Shape{n, dim});
  std::copy(values.begin(), values.end(), out.values.flat<float>());
  out.counts = Tensor::vector<int64_t>(counts);
  out.steps = Tensor::vector<int64_t>(steps);
  out.slots = Tensor(DType::float32, Shape{static_cast<int64_t>(slots.size()), n, dim});
  for (size_t s = 0; s < of_slots.size(); ++s)
    std::copy(of_slots[s].begin(), of_slots[s].end(), out.slots.flat<float>() + static_cast<int64_t>(s) * n * dim);
  return out;
}

void EmbeddingTable::import_rows(const Rows& rows, std::span<const Slot> slots) {
  check_keys(rows.keys);
  std::vector<int> numbers(slots.size());
  auto layout_lock = with_slots(slots, numbers);
  const int64_t dim = options_.dim, n = rows.keys.num_elements();
  Batch batch(rows.keys, shards_.size());
  for_groups(batch, [&](size_t s) {
    Shard& shard = *shards_[s];
    std::unique_lock lock(shard.mutex);
    for (uint32_t position : batch.group(s)) {
      const Key key = batch.key(position);
      const auto step = static_cast<uint32_t>(rows.steps.flat<int64_t>()[position]);
      const uint32_t number = find_or_make(shard, key, kNoStep, true);
      shard.before_change(number);
      char* row = shard.row(number);
      settle(row);
      RowHeader& head = shard.header(number);
      head.step = step;
      head.set(
          static_cast<uint32_t>(std::clamp<int64_t>(rows.counts.flat<int64_t>()[position], 0, RowHeader::kCountMask)),
          head.epoch(), true);
      layout_.encode(rows.values.flat<float>() + static_cast<int64_t>(position) * dim, RowLayout::value(row), key.id);
      for (size_t k = 0; k < slots.size(); ++k)
        std::copy_n(rows.slots.flat<float>() + (static_cast<int64_t>(k) * n + position) * dim, dim,
                    layout_.slot(row, numbers[k]));
    }
  });
  uint32_t latest = step_.load();
  for (int64_t i = 0; i < n; ++i) latest = std::max(latest, static_cast<uint32_t>(rows.steps.flat<int64_t>()[i]));
  step_ = latest;
  initialized_.store(true, std::memory_order_release);
}

Statistics EmbeddingTable::statistics() const {
  Statistics out;
  auto layout_lock = shared_layout();
  for (const auto& shard : shards_) {
    std::shared_lock lock(shard->mutex);
    out.rows += shard->all_rows();
    out.bytes += static_cast<int64_t>(shard->bytes());
    if (shard->cold() == nullptr) continue;
    out.disk_rows += shard->cold()->rows();
    out.disk_bytes += shard->cold()->file_bytes();
  }
  if (filter_) out.bytes += static_cast<int64_t>(filter_->bytes());
  out.step = step_;
  out.hits = hits_;
  out.misses = misses_;
  out.admissions = admissions_;
  out.rejections = rejections_;
  out.evictions = evictions_;
  out.promotions = promotions_;
  return out;
}

}  // namespace thalweg::embedding
