// Shard: the rows of an embedding table whose keys fall into one of its parts.
//
// Rows are kept by number in one array; free numbers are used again. The index is open addressing with linear probing:
// a slot of 32 bits has the number of a row and 8 bits of its hash, so that a key is compared with one row, or none,
// nearly always. It grows by a quarter: 5 to 6.3 bytes a row.
//
// The lock belongs to the caller: shared for reading rows, exclusive for everything else. It is a leaf.
//
// A cut is the state of the shard at one instant, which a checkpoint writes while updates go on. Rows are written in
// the order of their numbers; a row that is about to change before its turn is copied first (copy-on-write). Epochs
// tell which rows have changed since the last cut, and which were copied or made after it.
#pragma once

#include <memory>
#include <shared_mutex>

#include "embedding/row_layout.h"
#include "embedding/row_memory.h"

namespace thalweg::embedding {

class ColdRows;

class Shard {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // The numbers of rows have 24 bits, and zero stands for an empty slot.
  static constexpr uint32_t kMostRows = (1u << 24) - 2;

  Shard(const Options& options, const RowLayout& layout);
  ~Shard();
  Shard(const Shard&) = delete;

  mutable std::shared_mutex mutex;

  // Rows in memory.
  int64_t rows() const { return live_; }
  // Those on disk, too.
  int64_t all_rows() const;
  uint32_t end() const { return end_; }
  char* row(uint32_t number) { return memory_.data() + static_cast<size_t>(number) * stride_; }
  const char* row(uint32_t number) const { return memory_.data() + static_cast<size_t>(number) * stride_; }
  RowHeader& header(uint32_t number) { return RowLayout::header(row(number)); }
  const RowHeader& header(uint32_t number) const { return RowLayout::header(row(number)); }
  std::string_view text(uint32_t number) const;
  Key key(uint32_t number) const { return key_of_row(header(number)); }
  Key key_of_row(const RowHeader& header) const;
  const RowLayout& layout() const { return *layout_; }
  size_t stride() const { return stride_; }

  uint32_t find(const Key& key) const;
  void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&index_[home(hash)]); }
  // Prefetches `bytes` bytes of the row that is probably that of the hash.
  void prefetch_row(uint64_t hash, size_t bytes) const;
  // Adds a row with its first value and slots; the key has none yet. Throws ResourceExhausted.
  uint32_t insert(const Key& key, uint32_t step);
  // Must be called before a row changes.
  void before_change(uint32_t number);
  // Removes a row; it will be missing from the next checkpoint.
  void erase(uint32_t number);
  // Brings a row back from disk, because it is about to change; kNone if it is not there. Throws DataLoss.
  uint32_t promote(const Key& key);
  // The same for a row that was found at a place, and read, since the last change of the rows on disk.
  uint32_t install(const Key& key, uint32_t place, const char* bytes);
  // Removes a row that is on disk; `row` has its bytes. The others keep their places.
  void erase_on_disk(uint32_t place, const char* row);
  // Makes the file of rows on disk smaller if most of it is free; not during a cut.
  void compact_disk();
  // Moves a row to disk; not during a cut. Throws ResourceExhausted: the row is still in memory then.
  void demote(uint32_t number);
  void clear();
  size_t bytes() const;

  // Gives the rows the table's layout, which has got more slots behind the `had` ones. There must be no cut. What can
  // fail is in the first, which the second takes back.
  void prepare_slots(size_t had);
  void cancel_slots();
  void add_slots(size_t had);

  // Takes part in a cut: of all rows, or of those that have changed since the last one.
  void begin_cut(bool full);
  // Appends records of rows of the cut to `out`, at most `limit` rows looked at, and returns whether that was all.
  bool next_of_cut(size_t limit, std::string* out, int64_t* records);
  void end_cut();
  // After a failure: everything that has changed since the cut before is still to be saved.
  void abandon_cut();
  // The keys removed before the cut, as records.
  std::string take_removed(int64_t* records);
  void append_record(uint32_t number, std::string* out) const;
  // All of the present state has been saved, or loaded from where it is saved.
  void mark_saved();

  ColdRows* cold() const { return cold_.get(); }
  void set_cold(std::unique_ptr<ColdRows> cold);
  uint32_t epoch() const { return epoch_; }
  bool in_cut() const { return cut_active_; }
  // Whether removed keys have become too many to remember: the next segment must have all rows then.
  bool forgot_removals() const { return forgot_; }

 private:
  size_t home(uint64_t hash) const {
    return static_cast<size_t>((static_cast<unsigned __int128>(hash) * index_.size()) >> 64);
  }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 16 & 0xff) << 24; }
  bool has_key(uint32_t number, const Key& key) const;
  void note_removed(const Key& key);
  // Whether the cut under way still has to write the row at a place on disk.
  bool cut_awaits(uint32_t place) const;
  void rebuild(size_t slots);
  void occupy(uint64_t hash, uint32_t number);
  void release(uint32_t number);
  // A number for a row, in the index; the caller writes the row.
  uint32_t make_room(uint64_t hash);
  void forget_removals();
  void drop_text(uint64_t kept);

  const Options* options_;
  const RowLayout* layout_;
  const bool text_;
  size_t stride_;
  RowMemory memory_;
  std::vector<uint32_t> index_;  // never full; never empty
  std::vector<uint32_t> free_;
  uint32_t end_ = 0;  // numbers below are in use or free
  int64_t live_ = 0;
  size_t text_bytes_ = 0;

  uint32_t epoch_ = 1;
  bool remembers_ = false;  // removals, for the next delta
  bool forgot_ = false;     // some of them
  std::vector<uint64_t> removed_ids_;
  std::vector<std::string> removed_texts_;
  bool cut_active_ = false, cut_full_ = false;
  uint32_t cut_cursor_ = 0, cut_end_ = 0;
  std::string copies_;
  int64_t copied_ = 0;
  std::unique_ptr<ColdRows> cold_, wider_;
};

// A record: the key (8 bytes, or a length of 4 bytes and a text), step, count, value and slots.
void append_key(std::string* out, bool text, const Key& key);

}  // namespace thalweg::embedding
