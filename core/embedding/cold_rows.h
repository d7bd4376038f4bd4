// ColdRows: the rows of a shard that are on disk, beyond the table's budget of memory.
//
// A file of records of one size, each a row as it was in memory and a checksum, and an index in memory: 12 bytes a slot
// with key, place and epoch. A row is either here or in memory. Places of rows that have left are used again; when most
// are free, the last records move into them and the file is cut. The file is no checkpoint: it ends with the table, is
// removed from its folder as soon as it is open, and needs no syncing.
//
// Rows are written by blocks of neighbouring places: a system call for each of them would take most of the time. One
// block is open: its records are in memory, as they are, or will be, in the file. New rows go to its free places. When
// there are none left it is written whole, and the block with the most free places is read and opened, or a new one at
// the end of the file if all are rather full.
//
// Rows with text keys keep their text in memory. The lock is that of the shard; `read` may run under a shared one.
#pragma once

#include <limits>
#include <string>
#include <utility>
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
    return keys_.capacity() * 8 + places_.capacity() * 4 + epochs_.capacity() + texts_.capacity() * 8 +
           used_in_block_.capacity() * 2 + open_.capacity();
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
  // Adds a row, which may be written later; throws ResourceExhausted if the disk is full: nothing has changed then.
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
  // Throws DataLoss if a record is not that of the place, or the row not that of the key.
  void check(uint32_t place, const char* record) const;
  void check_key(uint32_t place, const Key& key, const char* row) const;
  // The record of a place in the open block; null if it is in another.
  char* open_record(uint32_t place) { return const_cast<char*>(std::as_const(*this).open_record(place)); }
  const char* open_record(uint32_t place) const {
    return place / block_ == open_block_ ? open_.data() + place % block_ * record_ : nullptr;
  }
  // Room for a record, of this thread.
  char* scratch() const;
  void write_record(char* record, uint32_t place, const char* row) const;
  // Makes the open block one with a free place. Throws if the one before cannot be written; it is still open then.
  void open_next_block();
  void close_block();
  // Reads a block that has rows into open_; false if the system cannot.
  bool read_block(uint32_t block);
  uint32_t free_place();
  // Moves the record at one place to another, both of them in the file. Throws if it is damaged.
  void move_record(uint32_t from, uint32_t to);

  int fd_;
  const std::string path_;
  const bool text_;
  const size_t row_bytes_, record_;
  const uint32_t block_;                 // places in a block
  uint32_t open_block_ = kNone;          // its number
  uint32_t open_next_ = 0;               // Places of the open block before it are not free.
  std::string open_;                     // the records of the open block
  std::vector<uint16_t> used_in_block_;  // places in use, by block
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> places_;  // kNone: empty slot
  std::vector<uint8_t> epochs_;   // by place
  std::vector<uint64_t> texts_;   // by place: the keys of rows with texts, as in their headers
  uint32_t end_ = 0;
  uint64_t version_ = 0;
  int64_t live_ = 0;
  int64_t compact_below_ = std::numeric_limits<int64_t>::max();  // rows; lower after a failure
};

// The text of a row with a text key.
std::string_view text_of(const RowHeader& header);

}  // namespace thalweg::embedding
