// Telling the formats of checkpoints from each other, and the functions that their readers share.
#include "checkpoint/reader.h"

#include "checkpoint/bundle.h"
#include "checkpoint/old_format.h"

namespace thalweg {

TensorSlice CheckpointReader::wanted_slice(const Request& request, const Stored& stored) {
  require(request.dtype == DType::invalid || request.dtype == stored.dtype, "tensor_name = ", request.name,
          "; expected dtype ", request.dtype, " does not equal original dtype ", stored.dtype);
  if (request.shape_and_slice.empty())
    return TensorSlice{std::vector<TensorSlice::Extent>(static_cast<size_t>(stored.shape.rank()))}.within(stored.shape);
  ShapeAndSlice where = parse_shape_and_slice(request.shape_and_slice);
  require(where.shape == stored.shape, "Shape in shape_and_slice spec ", where.shape,
          " does not match the shape stored in checkpoint: ", stored.shape, " (", request.name, ")");
  return where.slice.within(stored.shape);
}

std::unique_ptr<CheckpointReader> open_checkpoint(const std::string& prefix) {
  if (exists(index_path(prefix))) return std::make_unique<BundleReader>(prefix);
  std::vector<std::string> files = old_format_files(prefix);
  if (files.empty())
    fail(Code::not_found, "Failed to find any matching files for ", prefix, ": there is no ", index_path(prefix));
  return std::make_unique<OldFormatReader>(std::move(files));
}

}  // namespace thalweg
