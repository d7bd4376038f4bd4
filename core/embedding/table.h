// EmbeddingTable: a variable whose rows are created by the keys that occur.
//
// A look-up never changes the table: a key without a row has the first value that its row would get, which depends on
// the key and the seed alone. Updates create rows, once a key has occurred often enough (admission), and count: the
// number of updates that the table has seen is its clock. Rows leave by eviction, in small sweeps after updates, or on
// request; a row is only evicted under the lock of its shard, and an update that comes later makes it anew.
//
// Any number of threads may use a table. A row is read and written under the lock of its shard, so nobody sees half of
// one. Batches over several rows are not atomic. Order of locks: saving_, layout_mutex_, a shard (all of them, in
// order, for the instant of a cut).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "embedding/counting_filter.h"
#include "embedding/shard.h"
#include "tensor/resource_handle.h"

namespace thalweg::embedding {

class Batch;

// The loop of an optimizer's rule over n elements: of the value (in[0], out[0]) and the slots.
struct RowStep {
  const void* rule;
  void (*run)(const void* rule, const void* const* in, void* const* out, const void* gradients, int64_t n);
};

// A piece of a checkpoint: a file with rows, and the keys removed since the one before.
struct Segment {
  std::string path;
  int64_t bytes = 0, rows = 0, removed = 0;
  bool full = false;
  bool merged = false;  // A file that no checkpoint lists yet.
};

struct Statistics {
  int64_t rows = 0, disk_rows = 0, bytes = 0, disk_bytes = 0, step = 0;
  int64_t hits = 0, misses = 0, admissions = 0, rejections = 0, evictions = 0, promotions = 0;
};

class EmbeddingTable : public Resource {
 public:
  static constexpr int kMostSlots = 3;
  static constexpr uint32_t kNoStep = ~uint32_t{0};

  EmbeddingTable(std::string name, Options options);
  ~EmbeddingTable() override;
  const char* kind() const override { return "an embedding table"; }
  const std::string& name() const { return name_; }
  const Options& options() const { return options_; }

  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // Removes all rows, and makes the table usable.
  void initialize();

  // Writes one row of floats for each key: its value, or its moving average of that name.
  void lookup(const Tensor& keys, float* out, const std::string& average = {});
  // Applies a rule to the rows of the keys; gradients of equal keys are summed first. `slots` are those of the rule.
  void apply(const Tensor& keys, const float* gradients, std::span<const Slot> slots, const RowStep& step);
  // Sets values of rows, which are created where they do not exist, without admission.
  void insert(const Tensor& keys, const float* values);
  void remove(const Tensor& keys);
  // Moves the averages of all rows towards their values: average = decay * average + (1 - decay) * value. The first
  // call makes an average of that name, which begins with the values.
  void average(const std::string& name, double decay);
  // Evicts by the table's own rules; returns how many rows.
  int64_t evict(const Eviction& rules);
  Statistics statistics() const;
  // Whether there were look-ups or updates since the last call with this number.
  bool in_use_since(uint64_t* last) const;
  // Fetches rows from disk in the background, for look-ups to come.
  void prefetch(const Tensor& keys);

  // All rows. Slots that the table does not have are an error.
  struct Rows {
    Tensor keys, values, counts, steps, slots;  // slots: [slot, row, element]
  };
  Rows export_rows(std::span<const std::string> slots, const std::string& average = {});
  // Adds or replaces rows with everything that belongs to them.
  void import_rows(const Rows& rows, std::span<const Slot> slots);

  // Checkpoints (table_segments.cc; checkpoint.h has the rest). Writes what has changed since the last segment, or
  // everything (also if more rows were removed than are remembered), to a new file, which is on the disk afterwards.
  // The caller holds `saving`.
  Segment save(bool full, const std::string& path);
  // Reads segments, in order, and takes over the rows of part `part` of `parts`. With `replace` they take the place of
  // all rows, in one instant. With the name of an average, values become what the averages were.
  void load(std::span<const std::string> paths, int64_t part, int64_t parts, bool replace,
            const std::string& average = {});
  // Runs work on a thread of the table, which waits for it before it ends; not if the last work is not done yet.
  void run_in_background(std::function<void()> work);
  std::mutex saving;                // held while a checkpoint is written
  std::vector<Segment> chain;       // what the next delta builds on; guarded by `saving`
  std::vector<std::string> loaded;  // the files of the last load; guarded by `saving`

 private:
  // After so many look-ups without an update, none is expected to follow.
  static constexpr uint32_t kServing = 8;

  void require_initialized() const;
  std::shared_lock<std::shared_mutex> shared_layout() const {
    std::lock_guard gate(gate_);
    return std::shared_lock(layout_mutex_);
  }
  std::unique_lock<std::shared_mutex> exclusive_layout() {
    std::lock_guard gate(gate_);
    return std::unique_lock(layout_mutex_);
  }
  void check_keys(const Tensor& keys) const;
  // Runs body(shard number) for all shards with keys in the batch, in parallel; the first error is thrown.
  void for_groups(const Batch& batch, const std::function<void(size_t)>& body);
  // What is read of rows: their values, or an average and its clock.
  struct Reading {
    int slot = -1;
    double now = 0;
    void operator()(const RowLayout& layout, const char* row, float* out) const {
      if (slot < 0)
        layout.decode(RowLayout::value(row), out);
      else
        layout.average(row, slot, now, out);
    }
  };
  Reading reading(const std::string& average) const;
  // Brings the averages of a row up to date; must be called before its value changes.
  void settle(char* row) const;
  // With `fetch`, rows that had to be read from disk come back from there.
  void lookup_group(size_t shard, const Batch& batch, const Reading& reading, bool fetch, float* out);
  // The same for keys without a row in memory: from disk, or first values. Returns how many keys have no row at all.
  struct FoundOnDisk;
  size_t lookup_elsewhere(const Shard& shard, const Batch& batch, std::span<const uint32_t> positions,
                          const Reading& read, bool fetch, FoundOnDisk& found, float* out) const;
  void apply_group(size_t shard, const Batch& batch, const float* gradients, std::span<const int> slots,
                   const RowStep& step, uint32_t now);
  // The numbers of slots in the layout, which gets those that it does not have. Takes and returns with layout_mutex_.
  std::shared_lock<std::shared_mutex> with_slots(std::span<const Slot> slots, std::span<int> numbers);
  // The row of a key under the exclusive lock, brought back from disk, or made if it is admitted; kNone if not. Rows of
  // the step `now` stay in memory; without one (kNoStep) all but this row may leave.
  uint32_t find_or_make(Shard& shard, const Key& key, uint32_t now, bool admit_all);
  // Evicts until the most rows there may be leave room for another; false if only rows of the step `now` are there.
  bool room_for_one(Shard& shard, uint32_t now);
  // Moves rows to disk until the others fit the budget of memory.
  void spill(Shard& shard, uint32_t now, uint32_t kept);
  void sweep(size_t rows, uint32_t now);
  // Removes the least frequently updated rows beyond so many; returns how many.
  int64_t keep_most(Shard& shard, int64_t most);
  void prefetch_loop();
  // Whether look-ups of these keys would have to wait for the disk, judged by some of them.
  bool waits_for_disk(const Tensor& keys) const;
  // Brings the rows of a group back from disk. Those for which it would have to wait are left for `later`, if given.
  void fetch_group(Shard& shard, const Batch& batch, std::span<const uint32_t> group, uint32_t now,
                   std::vector<uint32_t>* later);
  // Rows on disk that were found at places, and read, while these were of a version.
  struct FoundOnDisk {
    std::vector<std::pair<uint32_t, uint32_t>> rows;  // position in the batch, place
    std::string bytes;
    uint64_t version = 0;
    // Room for another row.
    char* next(size_t stride) {
      bytes.resize((rows.size() + 1) * stride);
      return bytes.data() + rows.size() * stride;
    }
  };
  // Brings them back, unless they have changed or come back meanwhile.
  void install_found(Shard& shard, const Batch& batch, const FoundOnDisk& found, uint32_t now);
  // Takes over the rows of a segment; `shards` are those of the table, or fresh ones. With an average and its clock,
  // values become what that is then.
  void load_segment(const std::string& path, int64_t part, int64_t parts, const Slot* average,
                    std::vector<std::unique_ptr<Shard>>& shards);

  const std::string name_;
  const Options options_;
  // Exclusive to change layout_, to empty the table, or to exchange its shards. Whoever wants it exclusively waits with
  // the gate closed: shared locks would otherwise let each other in for ever.
  mutable std::shared_mutex layout_mutex_;
  mutable std::mutex gate_;
  RowLayout layout_;
  std::deque<std::atomic<double>> clocks_;      // of the layout's averages
  std::vector<std::unique_ptr<Shard>> shards_;  // a power of two
  std::unique_ptr<CountingFilter> filter_;
  std::atomic<bool> initialized_{false};
  std::atomic<uint32_t> step_{0};
  std::atomic<uint32_t> lookups_since_update_{kServing};
  std::atomic<uint64_t> sweep_cursor_{0};
  std::atomic<int64_t> hits_{0}, misses_{0}, admissions_{0}, rejections_{0}, evictions_{0}, promotions_{0};

  std::mutex prefetch_mutex_;
  std::condition_variable prefetch_wanted_;
  std::deque<Tensor> prefetches_;
  bool closing_ = false;
  std::thread prefetcher_;

  std::mutex background_mutex_;
  std::thread background_;
  std::shared_ptr<std::atomic<bool>> background_busy_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace thalweg::embedding
