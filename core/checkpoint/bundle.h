// Tensor bundles, TensorFlow's checkpoint format: `prefix.index`, a table of names and the places of their values, and
// `prefix.data-0000i-of-0000n`, the values.
//
// A bundle comes into being, or replaces another one of the same prefix, in one instant: the renaming of its index. At
// every instant, also if the process is killed or the machine loses power, the index names data files that are whole.
// That is why replacing takes two rounds: the new data get names with another number of shards first, because the old
// index still refers to the usual ones; then, linked to the usual names, they get their usual index.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/table.h"
#include "io/files.h"

namespace thalweg {

struct BundleEntry {
  DType dtype = DType::invalid;
  std::vector<int64_t> dims;  // As stored: not checked.
  int32_t shard = 0;
  int64_t offset = 0;
  int64_t size = 0;
  uint32_t crc = 0;  // Masked.
  std::vector<TensorSlice> slices;

  std::string to_proto() const;
  static BundleEntry from_proto(std::string_view message, const std::string& what);
  // The checked shape; throws DataLoss.
  Shape shape(const std::string& what) const;
};

std::string index_path(const std::string& prefix);
std::string data_path(const std::string& prefix, int shard, int num_shards);

// By key; the order of the index.
using BundleEntries = std::map<std::string, BundleEntry>;

// Makes data files that were written, synced and closed under other names into the bundle `prefix`.
void commit_bundle(const std::string& prefix, const std::vector<std::string>& data, const BundleEntries& entries);

class BundleWriter {
 public:
  explicit BundleWriter(std::string prefix);
  void add(const std::string& name, const Tensor& tensor);
  // A part of a larger tensor. Its name may come again with other parts.
  void add_slice(const std::string& name, const ShapeAndSlice& where, const Tensor& tensor);
  void finish();

 private:
  BundleEntry& entry(const std::string& key, const Tensor& tensor);
  void write(const Tensor& tensor, BundleEntry& entry);
  void write_strings(const Tensor& tensor, BundleEntry& entry);

  std::string prefix_;
  PendingFile data_;
  BundleEntries entries_;
};

class BundleReader : public CheckpointReader {
 public:
  explicit BundleReader(std::string prefix);

  // With all cores.
  std::vector<Tensor> read(const std::vector<Request>& requests) override;
  bool has(const std::string& name) const override { return table_.find(name).data() != nullptr && !name.empty(); }
  Stored stored(const std::string& name) const override;
  // Without the keys of slices.
  std::vector<std::string> names() const override;
  BundleEntry entry(const std::string& name) const;
  int num_shards() const { return num_shards_; }
  const Table& table() const { return table_; }
  const std::string& index() const { return index_; }

 private:
  struct Piece;
  const ReadableFile& data(int shard);
  void plan(const BundleEntry& entry, const Shape& shape, const std::string& name, std::vector<Piece>& pieces);
  static void run(std::vector<Piece>& pieces);

  std::string prefix_;
  std::string index_;
  Table table_;
  int num_shards_ = 0;
  std::mutex mutex_;  // Of files_.
  std::map<int, std::unique_ptr<ReadableFile>> files_;
};

// Puts several bundles together: the files of the parts are moved, not copied.
void merge_bundles(const std::vector<std::string>& prefixes, const std::string& destination, bool allow_missing);

}  // namespace thalweg
