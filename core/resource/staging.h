// Staging areas: small stores between two parts of a pipeline, limited by elements and bytes.
//
// StagingArea is first in, first out. MapStagingArea holds elements by key, whose components may come one by one; an
// element can be taken when it is complete. Limits of 0 mean none. A put into a full area, or a get of an absent
// element, waits without a thread, as for queues. Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "resource/waitable.h"
#include "tensor/tensor.h"

namespace thalweg {

struct StagingLimits {
  int64_t elements = 0;
  int64_t bytes = 0;
};

// The base of both: counts the bytes in an area.
class StagingStore : public Waitable {
 public:
  using Tuple = std::vector<Tensor>;
  using Taken = std::function<void(std::optional<Error>, Tuple)>;

 protected:
  StagingStore(StagingLimits limits, std::vector<Line> lines) : Waitable(std::move(lines)), limits_(limits) {}
  static int64_t bytes_of(const Tuple& tuple);
  // Fails if the tuple could not be put into an empty area.
  void check_fits(int64_t bytes) const;
  bool has_room(int64_t elements, int64_t bytes) const {
    return (limits_.elements == 0 || elements < limits_.elements) &&
           (limits_.bytes == 0 || bytes_ + bytes <= limits_.bytes);
  }
  // Waits for `advance`, which leaves the element that it took in the tuple.
  void begin_taking(size_t line, std::function<Progress(Tuple&)> advance, Cancellation& cancellation, Taken taken);

  const StagingLimits limits_;
  int64_t bytes_ = 0;
};

class StagingArea : public StagingStore {
 public:
  explicit StagingArea(StagingLimits limits);
  const char* kind() const override { return "a staging area"; }
  void put(Tuple tuple, Cancellation& cancellation, Done done);
  void get(Cancellation& cancellation, Taken taken);
  // A copy of the element at a place, which stays there.
  void peek(int64_t index, Cancellation& cancellation, Taken taken);
  int64_t size();
  void clear();

 private:
  std::deque<Tuple> elements_;
};

class MapStagingArea : public StagingStore {
 public:
  MapStagingArea(StagingLimits limits, size_t components);
  const char* kind() const override { return "a map staging area"; }
  // Some components of the element under a key.
  void put(int64_t key, std::vector<int64_t> components, Tuple values, Cancellation& cancellation, Done done);
  // Components of a complete element; each can be taken once, and the element is gone with the last.
  void get(int64_t key, std::vector<int64_t> components, Cancellation& cancellation, Taken taken);
  // The same for the element with the smallest key, which comes first among the tensors.
  void get_any(std::vector<int64_t> components, Cancellation& cancellation, Taken taken);
  void peek(int64_t key, std::vector<int64_t> components, Cancellation& cancellation, Taken taken);
  int64_t size();
  int64_t incomplete_size();
  void clear();

 private:
  struct Element {
    Tuple values;
    size_t present = 0;
  };
  using Elements = std::map<int64_t, Element>;
  void check_components(const std::vector<int64_t>& components) const;
  Tuple take(Elements::iterator element, const std::vector<int64_t>& components, bool copy);

  const size_t components_;
  Elements incomplete_;
  Elements complete_;
};

}  // namespace thalweg
