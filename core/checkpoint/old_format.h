// The checkpoint format of TensorFlow before 0.12 ("V1"): a table (checkpoint/table.h) per file, whose first row, with
// the empty key, lists the tensors and slices of tensors; the others are the values of one slice each.
//
//   SavedTensorSlices { SavedTensorSliceMeta meta = 1; SavedSlice data = 2; }
//   SavedTensorSliceMeta { repeated SavedSliceMeta tensor = 1; VersionDef versions = 2; }
//   SavedSliceMeta { string name = 1; TensorShapeProto shape = 2; DataType type = 3;
//                    repeated TensorSliceProto slice = 4; }
//   SavedSlice { string name = 1; TensorSliceProto slice = 2; TensorProto data = 3; }
//
// Old models use it. Files are read and written as a whole, in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/table.h"

namespace thalweg {

// The files that a path names: itself, if it is one; those that fit it as a pattern; or its shards.
std::vector<std::string> old_format_files(const std::string& path);

class OldFormatReader : public CheckpointReader {
 public:
  // All files together are one checkpoint.
  explicit OldFormatReader(std::vector<std::string> files);

  std::vector<Tensor> read(const std::vector<Request>& requests) override;
  bool has(const std::string& name) const override { return tensors_.contains(name); }
  Stored stored(const std::string& name) const override;
  std::vector<std::string> names() const override;

 private:
  struct Part {
    TensorSlice slice;  // As stored: "all" stays "all".
    size_t file;
  };
  struct Entry {
    Stored stored;
    std::vector<Part> parts;
  };
  void add(std::string_view message, size_t file);
  Tensor value(const std::string& name, const Part& part, DType dtype, const Shape& shape) const;

  std::vector<std::string> files_;
  std::vector<Table> tables_;
  std::map<std::string, Entry> tensors_;
};

class OldFormatWriter {
 public:
  explicit OldFormatWriter(std::string path) : path_(std::move(path)) {}
  void add(const std::string& name, const ShapeAndSlice& where, const Tensor& tensor);
  // The file appears at once, or replaces another one.
  void finish();

 private:
  struct Meta {
    Shape shape;
    DType dtype;
    std::vector<TensorSlice> slices;
  };
  std::string path_;
  std::map<std::string, Meta> tensors_;
  std::map<std::string, std::string> rows_;
};

}  // namespace thalweg
