// ColdRows: the rows of a shard that are on disk, beyond the table's budget of memory.
//
// A file of records of one size, each a row as it was in memory and a checksum, and an index in memory: 12 bytes a slot
// with key, place and epoch. A row is either here or in memory. Places of rows that have left are used again; when most
// are free, the last records move into them and the file is cut. The file is no checkpoint: it ends with the table, is
// removed from its folder as soon as it is open, and needs no syncing.
//
// Rows with text keys keep their text in memory. The lock is that of the shard; `read` may run under a shared one.
#pragma once

#include <sys/uio.h>

#include <limits>
#include <string>
#include <vector>

#include "embedding/row_layout.h"

namespace thalweg::embedding {

class ColdRows {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // Throws if the file cannot be made.
  ColdRows(const std::string& folder, bool text, size_t row_bytes);
  ~ColdRows();
  ColdRows(const ColdRows&) = delete;

  int64_t rows() const { return live_; }
  int64_t file_bytes() const { return static_cast<int64_t>(end_) * static_cast<int64_t>(record_); }
  size_t index_bytes() const {
    return keys_.capacity() * 8 + places_.capacity() * 4 + free_.capacity() * 4 + epochs_.capacity() +
           texts_.capacity() * 8;
  }

  // The place of a key, or kNone.
  uint32_t find(const Key& key) const;
  // Fetches what find() will look at into the cache.
  void prefetch_slot(const Key& key) const {
    const size_t slot = home(key.id);
    __builtin_prefetch(&keys_[slot]);
    __builtin_prefetch(&places_[slot]);
  }
  uint32_t epoch(uint32_t place) const { return epochs_[place]; }
  void set_epoch(uint32_t place, uint32_t epoch) { epochs_[place] = static_cast<uint8_t>(epoch); }
  bool in_use(uint32_t place) const { return epochs_[place] != kFree; }
  uint32_t end() const { return end_; }
  // Changes whenever a row comes or leaves: what was read before may not be the row any more.
  uint64_t version() const { return version_; }
  // Reads a row; throws DataLoss if it is not what was written there.
  void read(uint32_t place, char* row) const;
  // The same for the row that a key was found at: DataLoss if the row there is another's.
  void read(uint32_t place, const Key& key, char* row) const;
  // The same, but only if that needs no waiting for the disk; else false.
  bool read_at_once(uint32_t place, const Key& key, char* row) const;
  // Tells the system that a row will be read soon.
  void prefetch(uint32_t place) const;
  // Writes a row; throws ResourceExhausted if the disk is full: nothing has changed then.
  void add(const Key& key, const char* row, uint32_t epoch);
  // Takes a row out. Its text, if it has one, is the caller's.
  void erase(const Key& key);
  // The texts of all rows have a new owner.
  void abandon_texts() { texts_.assign(texts_.size(), 0); }
  // Moves records from the end into free places while most are free. A record that cannot be moved ends it, and stays
  // where it is: whoever needs the row learns what is wrong with it.
  void compact();

 private:
  static constexpr uint8_t kFree = 0xff;
  // Texts with one fingerprint may be in several slots: texts_ tells them apart.
  bool has_key(size_t slot, const Key& key) const;
  size_t home(uint64_t id) const {
    return static_cast<size_t>((static_cast<unsigned __int128>(combine64(id, 5)) * keys_.size()) >> 64);
  }
  // The slot of a key, or the empty one where its probing ends.
  size_t slot_of(const Key& key) const;
  void rebuild(size_t slots);
  uint32_t checksum(uint32_t place, const char* row) const;
  // Throws DataLoss if a record is not that of the key at the place.
  void check(uint32_t place, const char* row, const uint32_t (&end)[2]) const;
  void check_key(uint32_t place, const Key& key, const char* row) const;
  // Reads or writes the record of a place, whole.
  void transfer(ssize_t (*move)(int, const iovec*, int, off_t), const char* what, uint32_t place, char* row,
                uint32_t (&end)[2]) const;
  void write(uint32_t place, const char* row);

  int fd_;
  const std::string path_;
  const bool text_;
  const size_t row_bytes_, record_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> places_;  // kNone: empty slot
  std::vector<uint8_t> epochs_;   // by place
  std::vector<uint64_t> texts_;   // by place: the keys of rows with texts, as in their headers
  std::vector<uint32_t> free_;
  uint32_t end_ = 0;
  uint64_t version_ = 0;
  int64_t live_ = 0;
  int64_t compact_below_ = std::numeric_limits<int64_t>::max();  // rows; lower after a failure
};

// The text of a row with a text key.
std::string_view text_of(const RowHeader& header);

}  // namespace thalweg::embedding
