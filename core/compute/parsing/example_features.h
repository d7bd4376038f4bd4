// Reading the Features of a batch of examples into tensors, for parse_example and parse_sequence_example.
//
// A batch is cut into blocks of consecutive rows, which threads read independently. Features of fixed length go
// straight into their outputs; all others are collected in one Column per feature and block, and joined at the end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compute/parsing/record_blocks.h"
#include "io/example_layout.h"
#include "kernel/kernel.h"
#include "strings/quick_hash.h"

namespace thalweg {

using ExampleTypes = Types<DType::float32, DType::int64, DType::string>;

// One feature that an op parses.
struct Wanted {
  enum class Form : uint8_t { sparse, fixed, padded, ragged };
  std::string key;
  DType dtype = DType::invalid;
  Form form = Form::sparse;
  PartialShape declared;  // of a dense one
  Shape row;              // the shape of a row of fixed length, or of one element along the padded dimension
};

// The features that an op parses, by key. Immutable.
class WantedFeatures {
 public:
  // Throws if a key occurs twice.
  explicit WantedFeatures(std::vector<Wanted> wanted);
  size_t size() const { return wanted_.size(); }
  const Wanted& operator[](size_t i) const { return wanted_[i]; }
  // The place of a key, or -1.
  int find(std::string_view key) const;

 private:
  std::vector<Wanted> wanted_;
  std::vector<int> slots_;  // open addressing; -1 where empty
};

// A dense feature, from the attributes of an op: of fixed length, or with an unknown first dimension.
Wanted dense_feature(std::string key, DType dtype, const PartialShape& declared, int i);
// All features that an op parses, from its keys and attributes: sparse features, then dense, then ragged ones. Throws
// if there are not as many keys as types.
std::vector<Wanted> list_wanted(const std::vector<std::string>& sparse_keys, const std::vector<DType>& sparse_types,
                                const std::vector<std::string>& dense_keys, const std::vector<DType>& dense_types,
                                const std::vector<PartialShape>& dense_shapes,
                                const std::vector<std::string>& ragged_keys, const std::vector<DType>& ragged_types);
// The keys in a vector of strings.
std::vector<std::string> key_vector(const Tensor& keys, const char* what);
// Checks the default (or padding) of a dense feature; throws if it does not fit.
void check_default(const Wanted& wanted, const Tensor& value, int i);

// The name of an example, for error messages.
struct ExampleName {
  const Tensor& names;  // empty, or one name per row
  bool single;
  bool sequence;

  std::string of(int64_t row) const;
  // Where in the example a feature stands: "Name: n, Key: k, Index: 3.  "
  std::string at(int64_t row, std::string_view key) const;
};

// "float", "int64", "string": the names by which users of examples know the types.
const char* list_name(DType dtype);
const char* list_name(example::Kind kind);
// The beginning of some bytes, as printable text.
std::string excerpt(std::string_view bytes);

// For vectors in the memory that tensors use: a batch needs as much as the one before, without a page fault.
template <typename T>
struct CachedMemory {
  using value_type = T;
  CachedMemory() = default;
  template <typename U>
  CachedMemory(const CachedMemory<U>&) {}  // NOLINT: implicit, as the standard requires
  T* allocate(size_t n) { return static_cast<T*>(Allocator::cpu().allocate(n * sizeof(T))); }
  void deallocate(T* block, size_t n) { Allocator::cpu().release(block, n * sizeof(T)); }
  template <typename U>
  bool operator==(const CachedMemory<U>&) const {
    return true;
  }
};
template <typename T>
using CachedVector = std::vector<T, CachedMemory<T>>;

// The values of a feature in one block. On cache lines of its own: every block is written by another thread.
struct alignas(128) Column {
  CachedVector<float> floats;
  CachedVector<int64_t> ints;
  CachedVector<std::string> strings;
  CachedVector<int64_t> counts;  // values of each row; of a feature list: of each step
  CachedVector<int64_t> steps;   // of a feature list: steps of each row

  template <typename T>
  CachedVector<T>& values() {
    if constexpr (std::is_same_v<T, float>)
      return floats;
    else if constexpr (std::is_same_v<T, std::string>)
      return strings;
    else
      return ints;
  }
};

// The values of all columns, one after the other.
Tensor join_values(DType dtype, std::span<Column> columns);
// For each column, how many counts (or sums of them) come before it.
std::vector<int64_t> starts_of_values(std::span<Column> columns);

// Guesses that the k-th entry of a map has the key that it had in the last example, before searching for it.
class KeyGuesser {
 public:
  int find(const WantedFeatures& wanted, std::string_view key, size_t place) {
    if (place < count_ && same_text(guesses_[place].key, key)) [[likely]]
      return guesses_[place].found;
    return search(wanted, key, place);
  }

 private:
  struct Guess {
    std::string key;  // a copy: the bytes of the last example may be freed
    int found = -1;
  };
  int search(const WantedFeatures& wanted, std::string_view key, size_t place);

  std::vector<Guess> guesses_;
  size_t count_ = 0;  // of the guesses
};

// Reads Features messages, and makes the outputs of them.
class FeatureReader {
 public:
  // `defaults` has a tensor for each wanted feature that is dense.
  FeatureReader(const WantedFeatures& wanted, std::vector<Tensor> defaults, const RecordBlocks& blocks,
                ExampleName name);
  // Reads one row; false if the bytes are no Features message. The rows of a block come in order.
  bool read(int64_t block, int64_t row, std::string_view features);

  Tensor dense(size_t f);
  // Indices, values and dense shape.
  void sparse(size_t f, Tensor* indices, Tensor* values, Tensor* shape);
  // Values and row splits; without splits for a single example of no batch.
  void ragged(size_t f, DType split_dtype, Tensor* values, Tensor* splits);

 private:
  // A feature as it stands in an example: the bytes of a Feature or, if their kind is known already, of its values.
  struct Found {
    std::string_view bytes;
    example::Kind kind = example::Kind::none;
  };
  struct alignas(128) Block {
    KeyGuesser guesser;
    std::vector<example::EntryLayout> layouts;  // of the entries of the last example, by their places
    example::Joiner joiner;
    std::vector<Found> found;
    std::vector<uint64_t> round_of;  // when `found` was set: in this row, if it is `round`
    uint64_t round = 0;
  };
  enum class Reading : uint8_t { fixed_floats, fixed_ints, fixed_strings, floats, ints, strings };

  // Records the places of the features of an example; false if the bytes are no Features message.
  bool find_entries(Block& block, std::string_view features);
  template <typename T>
  void read_fixed(Block& block, int64_t row, size_t f, const Found& found);
  template <typename T>
  void read_column(Block& block, Column& column, int64_t row, size_t f, const Found& found);
  // Passes the values to `sink`; false if the list is of no kind.
  template <typename T, typename Sink>
  bool read_found(Block& block, int64_t row, size_t f, const Found& found, Sink&& sink);
  void missing(int64_t row, size_t f);
  Tensor padded(size_t f);
  Shape batched(const Shape& row) const;
  [[noreturn]] void wrong_kind(int64_t row, size_t f, example::Kind found) const;
  [[noreturn]] void malformed(int64_t row, size_t f) const;

  const WantedFeatures& wanted_;
  const std::vector<Tensor> defaults_;
  const RecordBlocks& blocks_;
  const ExampleName name_;
  std::vector<Reading> readings_;  // how to read each feature, without the rest of its description
  std::vector<Tensor> fixed_;
  std::vector<std::vector<Column>> columns_;  // by feature and block
  std::vector<Block> state_;
};

}  // namespace thalweg
