// RendezvousKey: the name under which a Send and its Recv meet: the sending device and its incarnation, the receiving
// device, and the name of the tensor. Frame and iteration are not part of it: they differ between the runs of one Send.
//
// As text, for messages between tasks, errors and logs, a transfer is
//
//     source;incarnation;destination;tensor;frame:iteration
//
// with the incarnation as 16 lower-case hexadecimal digits and frame and iteration as decimal numbers, the form that
// TensorFlow's tasks use. Each transfer has exactly one text, and `parse` accepts nothing else. Devices are full names
// ("/job:worker/replica:0/task:1/device:CPU:0"), or empty for the program that feeds and fetches a partial run.
//
// A key is made once per node, because names are long; copies share the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kernel/frame_iteration.h"

namespace thalweg {

class RendezvousKey {
 public:
  // Throws InvalidArgumentError if a name contains a ';', or a device's name is neither empty nor starts with '/'.
  RendezvousKey(std::string_view source, uint64_t incarnation, std::string_view destination, std::string_view tensor);

  // "source;incarnation;destination;tensor".
  const std::string& name() const { return parts_->name; }
  std::string_view source() const { return parts_->source; }
  uint64_t incarnation() const { return parts_->incarnation; }
  std::string_view destination() const { return parts_->destination; }
  std::string_view tensor() const { return parts_->tensor; }
  // fnv1a64 of the name: equal in all processes.
  uint64_t hash() const { return hash_; }
  bool operator==(const RendezvousKey& other) const {
    return parts_ == other.parts_ || (hash_ == other.hash_ && parts_->name == other.parts_->name);
  }

  // The text of one transfer, and back. `parse` accepts untrusted text: InvalidArgumentError says what is wrong with
  // it, and quotes no more of it than fits a line.
  std::string transfer(FrameIteration at) const;
  static std::pair<RendezvousKey, FrameIteration> parse(std::string_view transfer);
  static constexpr size_t kLongestTransfer = size_t{1} << 16;

 private:
  struct Parts {
    std::string name;
    std::string_view source, destination, tensor;  // in `name`
    uint64_t incarnation;
  };
  std::shared_ptr<const Parts> parts_;
  uint64_t hash_;
};

}  // namespace thalweg
