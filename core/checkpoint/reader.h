// CheckpointReader: the tensors of a checkpoint, in whichever of TensorFlow's two formats it was written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/slice.h"

namespace thalweg {

class CheckpointReader {
 public:
  struct Request {
    std::string name;
    std::string shape_and_slice;   // Of the whole tensor, if empty.
    DType dtype = DType::invalid;  // Any, if invalid.
  };
  struct Stored {
    DType dtype;
    Shape shape;  // Of the whole tensor.
  };

  virtual ~CheckpointReader() = default;
  // Reads several tensors. Several threads may call it; they take turns.
  virtual std::vector<Tensor> read(const std::vector<Request>& requests) = 0;
  virtual bool has(const std::string& name) const = 0;
  // Throws NotFound.
  virtual Stored stored(const std::string& name) const = 0;
  // The tensors' names, in order.
  virtual std::vector<std::string> names() const = 0;

 protected:
  // The requested part of a stored tensor, with its lengths known; throws InvalidArgument if it does not fit.
  static TensorSlice wanted_slice(const Request& request, const Stored& stored);
};

// Opens the checkpoint with a prefix: a bundle (checkpoint/bundle.h), or the files of the old format
// (checkpoint/old_format.h) that it names or that fit it as a pattern. Throws NotFound.
std::unique_ptr<CheckpointReader> open_checkpoint(const std::string& prefix);

}  // namespace thalweg
