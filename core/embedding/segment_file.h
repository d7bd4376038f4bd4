// Segment files: the rows of an embedding table, or those that have changed since the segment before, and the keys that
// were removed.
//
// A header with the form of the rows, then blocks, each with a checksum, the last of which says how many records there
// are: a file that is cut short, or damaged anywhere, is a DataLossError. A segment's removals come before its rows. A
// file appears whole, under its name, when all of it is on the disk.
#pragma once

#include <functional>

#include "embedding/row_layout.h"
#include "io/files.h"

namespace thalweg::embedding {

struct SegmentHeader {
  DType key = DType::int64;
  int64_t dim = 0;
  Precision precision = Precision::float32;
  bool full = false;
  uint32_t step = 0;
  std::vector<Slot> slots;

  RowLayout layout() const;
  bool same_form(const SegmentHeader& other) const;
};

class SegmentWriter {
 public:
  SegmentWriter(std::string path, const SegmentHeader& header);
  // Adds whole records; many at a time.
  void add_rows(std::string_view records, int64_t count) { add('R', records, count); }
  void add_removed(std::string_view keys, int64_t count) { add('D', keys, count); }
  // Ends the file and gives it its name; returns its size.
  int64_t finish();
  int64_t rows() const { return rows_; }
  int64_t removed() const { return removed_; }

 private:
  void add(char kind, std::string_view records, int64_t count);
  void block(char kind, std::string_view bytes, uint32_t count);
  const std::string path_;
  PendingFile file_;
  int64_t rows_ = 0, removed_ = 0;
};

// One record of a segment; everything points into the reader's memory.
struct Record {
  Key key;
  std::string_view key_bytes;  // as stored
  bool removed = false;
  uint32_t step = 0, count = 0;
  std::string_view payload;  // value and slots
  std::string_view bytes;    // the whole record
};

class SegmentReader {
 public:
  // Throws NotFound, or DataLoss.
  explicit SegmentReader(const std::string& path);
  const SegmentHeader& header() const { return header_; }
  // Whether there is another record. Throws DataLoss.
  bool next(Record* record);

 private:
  bool next_block();
  [[noreturn]] void damaged(const char* what) const;
  void read(void* to, size_t bytes);

  ReadableFile file_;
  uint64_t at_ = 0;
  SegmentHeader header_;
  size_t payload_ = 0;
  std::string block_;
  std::string_view rest_;
  char kind_ = 0;
  uint32_t left_ = 0;
  int64_t rows_ = 0, removed_ = 0;
  bool done_ = false;
};

// Writes one full segment with what several together say; the first of them is full. Uses memory for the keys of the
// others only. Calls `rest` often, with nothing locked. Returns the number of rows.
int64_t merge_segments(
    std::span<const std::string> paths, const std::string& path, const std::function<void()>& rest = [] {});

}  // namespace thalweg::embedding
