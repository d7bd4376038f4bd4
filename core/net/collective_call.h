// CollectiveCall: what one member asks of a collective operation, and CollectiveHeader: what it tells the others of it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kernel/frame_iteration.h"
#include "net/encoding.h"
#include "net/merge.h"
#include "tensor/tensor.h"

namespace thalweg::net {

enum class Collective : uint8_t { reduce = 1, reduce_scatter, gather, broadcast, barrier };

const char* name_of(Collective kind);

// What must agree between the members. A contribution carries it, so that every member finds every disagreement, and
// all of them report the same one.
struct CollectiveHeader {
  Collective kind = Collective::barrier;
  DType dtype = DType::invalid;
  Merge merge = Merge::add;
  bool divides = false;
  bool is_root = false;  // of a broadcast: the member that gives its input
  uint64_t layout = 0;   // HostLayout::digest
  Shape shape;

  void put(Writer& writer) const;
  // Throws InvalidArgumentError for bytes that are none.
  static CollectiveHeader take(Parser& parser);
};

struct CollectiveCall {
  int64_t group = 0;
  int64_t size = 0;  // of the group; 0: as declared by the process (Collectives::declare)
  int64_t instance = 0;
  FrameIteration at;
  std::string device;  // the full name of the member's device
  double timeout = 0;  // seconds; 0: none
  int64_t root = -1;   // the rank that is the root of a broadcast; -1: the header says it
  CollectiveHeader header;
  Tensor input;                // undefined for the receivers of a broadcast, and for a barrier
  Account* account = nullptr;  // of the output
};

// Called once, on any thread, with an error or the output, which is undefined for a barrier.
using CollectiveDone = std::function<void(std::optional<Error>, Tensor)>;

}  // namespace thalweg::net
