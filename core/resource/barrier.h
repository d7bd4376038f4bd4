// Barrier: puts elements together whose components come one by one, by key, in any order and from any step.
//
// An element is ready when it has all components. Elements leave in the order in which their keys first appeared; keys
// of one insertion have the same place in that order, their *index*. Closing lets no new key in, and keys that are
// under way may still be completed; with cancellation they are forgotten. Takers wait in line, without a thread.
// Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "resource/waitable.h"
#include "tensor/tensor.h"

namespace thalweg {

class Barrier : public Waitable {
 public:
  using Tuple = std::vector<Tensor>;
  using Taken = std::function<void(std::optional<Error>, Tuple)>;
  struct Options {
    std::string name;
    std::vector<DType> dtypes;
    std::vector<PartialShape> shapes;  // empty: any
  };
  explicit Barrier(Options options)
      : Waitable({{"Barrier take operation was cancelled"}}), options_(std::move(options)) {}
  const char* kind() const override { return "a barrier"; }
  const Options& options() const { return options_; }

  // One component of each of the elements that `keys` name, as rows of `values`.
  void insert_many(int64_t component, const Tensor& keys, const Tensor& values);
  // Indices, keys and one tensor per component.
  void take_many(int64_t count, bool allow_small_batch, Cancellation& cancellation, Taken taken);
  void close(bool cancel_pending);
  int64_t ready_size();
  int64_t incomplete_size();

 private:
  struct Element {
    int64_t index = 0;
    std::string key;
    Tuple values;
    size_t present = 0;
  };
  void insert(int64_t component, const std::string& key, int64_t index, Tensor value);
  Progress advance_take(int64_t count, bool allow_small_batch, std::vector<Element>& taken);
  Tuple stack(std::vector<Element> elements) const;

  const Options options_;
  std::unordered_map<std::string, Element> incomplete_;
  std::multimap<int64_t, Element> ready_;  // by index
  int64_t next_index_ = std::numeric_limits<int64_t>::min();
  bool closed_ = false;
  bool cancelled_ = false;
};

}  // namespace thalweg
