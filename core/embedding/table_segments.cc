// EmbeddingTable: writing its state to segments while updates go on, and reading it back.
#include <algorithm>
#include <optional>
#include <utility>

#include "embedding/cold_rows.h"
#include "embedding/segment_file.h"
#include "embedding/table.h"
#include "thread/background_pace.h"

namespace thalweg::embedding {
namespace {

constexpr size_t kBlock = 1 << 20;
// Rows looked at while a shard is locked.
constexpr size_t kRowsAtOnce = 256;

}  // namespace

bool EmbeddingTable::in_use_since(uint64_t* last) const {
  const uint64_t now = step_.load(std::memory_order_relaxed) +
                       static_cast<uint64_t>(hits_.load(std::memory_order_relaxed)) +
                       static_cast<uint64_t>(misses_.load(std::memory_order_relaxed));
  return std::exchange(*last, now) != now;
}

Segment EmbeddingTable::save(bool full, const std::string& path) {
  require_initialized();
  auto layout_lock = shared_layout();
  std::string removed;
  int64_t removals = 0;
  // The instant of the checkpoint: all shards at once.
  for (auto& shard : shards_) shard->mutex.lock();
  for (auto& shard : shards_) full |= shard->forgot_removals();
  SegmentHeader header{options_.key, options_.dim, options_.precision, full, step_.load(), layout_.slots()};
  for (size_t i = 0; i < clocks_.size(); ++i)
    header.slots[static_cast<size_t>(layout_.averages()[i]) + 1].clock = clocks_[i].load();
  for (auto& shard : shards_) {
    removed += shard->take_removed(&removals);
    shard->begin_cut(full);
    shard->mutex.unlock();
  }
  try {
    SegmentWriter writer(path, header);
    if (!full) writer.add_removed(removed, removals);
    std::string buffer;
    int64_t records = 0;
    uint64_t used = 0;
    in_use_since(&used);
    BackgroundPace pace([&] { return in_use_since(&used); });
    auto flush = [&] {
      writer.add_rows(buffer, records);
      buffer.clear();
      records = 0;
    };
    for (auto& shard : shards_) {
      for (bool done = false; !done;) {
        {
          std::unique_lock lock(shard->mutex);
          done = shard->next_of_cut(kRowsAtOnce, &buffer, &records);
          if (done) shard->end_cut();
        }
        if (buffer.size() >= kBlock) flush();
        pace.rest();
      }
    }
    flush();
    Segment out{path, 0, writer.rows(), full ? 0 : removals, full, false};
    out.bytes = writer.finish();
    return out;
  } catch (...) {
    for (auto& shard : shards_) {
      std::unique_lock lock(shard->mutex);
      shard->abandon_cut();
    }
    chain.clear();  // Some rows count as saved: only a full segment is right after this.
    throw;
  }
}

void EmbeddingTable::load_segment(const std::string& path, int64_t part, int64_t parts, const Slot* average,
                                  std::vector<std::unique_ptr<Shard>>& shards) {
  SegmentReader reader(path);
  const SegmentHeader& header = reader.header();
  require(header.key == options_.key && header.dim == options_.dim, "embedding table '", name_, "' has keys of type ",
          options_.key, " and rows of ", options_.dim, " elements; the segment ", path, " has keys of type ",
          header.key, " and rows of ", header.dim, " elements");
  const RowLayout from = header.layout();
  std::vector<int> numbers;
  for (const Slot& slot : header.slots) {
    numbers.push_back(layout_.find_slot(slot.name));
    require(layout_.slots()[static_cast<size_t>(numbers.back())].kind == slot.kind, "embedding table '", name_,
            "' has a slot '", slot.name, "' of another kind than that in the segment ", path);
  }
  const int averaged = average == nullptr ? -1 : from.find_slot(average->name);
  std::vector<float> value(static_cast<size_t>(options_.dim));
  std::string padded;
  Record record;
  while (reader.next(&record)) {
    if (part_of(record.key, parts) != part && parts > 1) continue;
    Shard& shard = *shards[record.key.hash & (shards.size() - 1)];
    std::unique_lock lock(shard.mutex);
    uint32_t number = shard.find(record.key);
    if (number == Shard::kNone) number = shard.promote(record.key);
    if (record.removed) {
      if (number != Shard::kNone) shard.erase(number);
      continue;
    }
    if (number == Shard::kNone) {
      room_for_one(shard, kNoStep);
      number = shard.insert(record.key, record.step);
    }
    char* row = shard.row(number);
    shard.before_change(number);
    RowHeader& head = shard.header(number);
    head.step = record.step;
    head.set(record.count, head.epoch(), true);
    // Records are not aligned.
    padded.assign(sizeof(RowHeader), '\0');
    padded += record.payload;
    settle(row);
    if (averaged >= 0) {
      from.average(padded.data(), averaged, average->clock, value.data());
      layout_.encode(value.data(), RowLayout::value(row), record.key.id);
    } else if (header.precision == options_.precision) {
      std::memcpy(RowLayout::value(row), RowLayout::value(padded.data()), layout_.value_bytes());
    } else {
      from.decode(RowLayout::value(padded.data()), value.data());
      layout_.encode(value.data(), RowLayout::value(row), record.key.id);
    }
    for (size_t s = 0; s < numbers.size(); ++s)
      std::copy_n(from.slot(padded.data(), static_cast<int>(s)), from.width(static_cast<int>(s)),
                  layout_.slot(row, numbers[s]));
    spill(shard, kNoStep, number);
  }
  uint32_t before = step_.load();
  while (before < header.step && !step_.compare_exchange_weak(before, header.step)) {
  }
}

void EmbeddingTable::load(std::span<const std::string> paths, int64_t part, int64_t parts, bool replace,
                          const std::string& average) {
  // The layout gets the slots of all segments first; the table may be in use meanwhile. Clocks go down: the latest one
  // of an average is the least. (Parts have clocks of their own, which differ by the steps under way at the
  // checkpoint.)
  std::vector<Slot> slots;
  for (const std::string& path : paths) {
    const SegmentReader reader(path);
    for (const Slot& slot : reader.header().slots) {
      const auto known = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.name == slot.name; });
      if (known == slots.end())
        slots.push_back(slot);
      else
        known->clock = std::min(known->clock, slot.clock);
    }
  }
  std::optional<Slot> averaged;
  for (size_t i = 0; i + 1 < slots.size(); ++i)
    if (!average.empty() && slots[i].name == average && slots[i].kind == Slot::Kind::average)
      averaged = Slot{average, 0, Slot::Kind::average, false, slots[i + 1].clock};
  if (!average.empty() && !averaged)
    fail(Code::not_found, "the rows of embedding table '", name_, "' in ", paths.front(), " have no moving average '",
         average, "'");
  const Slot* from = averaged ? &*averaged : nullptr;
  std::vector<int> numbers(slots.size());
  auto layout_lock = with_slots(slots, numbers);
  auto set_clocks = [&] {
    for (size_t i = 0; i < clocks_.size(); ++i)
      for (const Slot& slot : slots)
        if (slot.name == layout_.slots()[static_cast<size_t>(layout_.averages()[i]) + 1].name) clocks_[i] = slot.clock;
  };
  if (!replace) {
    for (const std::string& path : paths) load_segment(path, part, parts, from, shards_);
    for (auto& shard : shards_) {
      std::unique_lock lock(shard->mutex);
      shard->mark_saved();
    }
    set_clocks();
    return;
  }
  std::vector<std::unique_ptr<Shard>> fresh;
  for (size_t i = 0; i < shards_.size(); ++i) fresh.push_back(std::make_unique<Shard>(options_, layout_));
  for (const std::string& path : paths) load_segment(path, part, parts, from, fresh);
  for (auto& shard : fresh) shard->mark_saved();
  layout_lock.unlock();
  auto exclusive = exclusive_layout();
  if (fresh.front()->layout().stride() != fresh.front()->stride())
    fail(Code::aborted, "embedding table '", name_, "' got slots while it was restored; restore it again");
  shards_.swap(fresh);
  set_clocks();
  initialized_.store(true, std::memory_order_release);
}

}  // namespace thalweg::embedding
