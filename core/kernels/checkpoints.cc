// Saving and restoring tensors as ops.
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "checkpoint/bundle.h"
#include "checkpoint/old_format.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

const std::string& text(Context& ctx, int i, const char* what) {
  require(ctx.input(i).rank() == 0, what, " must be a scalar, got shape ", ctx.input(i).shape());
  return *ctx.input(i).strings();
}

void check_names(Context& ctx, int64_t tensors, bool sliced = true) {
  for (int i = 1; i <= (sliced ? 2 : 1); ++i) {
    require(ctx.input(i).rank() == 1 && ctx.input(i).num_elements() == tensors,
            i == 1 ? "tensor_names" : "shape_and_slices", " must be a vector of ", tensors,
            " strings, one per tensor, got shape ", ctx.input(i).shape());
  }
}

void save(Context& ctx) {
  const std::string& prefix = text(ctx, 0, "prefix");
  int count = ctx.num_inputs() - 3;
  check_names(ctx, count);
  // All inputs are checked before the first byte is written.
  std::vector<ShapeAndSlice> slices(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::string& spec = ctx.input(2).strings()[i];
    if (!spec.empty()) slices[i] = parse_shape_and_slice(spec);
  }
  BundleWriter writer(prefix);
  for (int i = 0; i < count; ++i) {
    const std::string& name = ctx.input(1).strings()[i];
    if (ctx.input(2).strings()[i].empty())
      writer.add(name, ctx.input(i + 3));
    else
      writer.add_slice(name, slices[i], ctx.input(i + 3));
  }
  writer.finish();
}

// Inode and time of modification, which tell one version of a file from the next.
std::pair<uint64_t, int64_t> identity(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {0, 0};
  return {info.st_ino, info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec};
}

// Reads tensors of a checkpoint that another process may be replacing at the time.
std::vector<Tensor> read_tensors(const std::string& prefix, const std::vector<CheckpointReader::Request>& requests) {
  for (int attempt = 0;; ++attempt) {
    auto before = identity(index_path(prefix));
    try {
      return open_checkpoint(prefix)->read(requests);
    } catch (const Error& error) {
      // If the checkpoint has been replaced while it was read, its index is another file now.
      bool torn = error.code() == Code::data_loss || error.code() == Code::not_found;
      if (!torn || attempt == 10 || identity(index_path(prefix)) == before) throw;
    }
  }
}

void restore(Context& ctx) {
  const std::string& prefix = text(ctx, 0, "prefix");
  check_names(ctx, ctx.num_outputs());
  std::vector<CheckpointReader::Request> requests;
  for (int i = 0; i < ctx.num_outputs(); ++i)
    requests.push_back({ctx.input(1).strings()[i], ctx.input(2).strings()[i], ctx.output_dtype(i)});
  std::vector<Tensor> values = read_tensors(prefix, requests);
  for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, std::move(values[i]));
}

// The ops of graphs that were made before 0.12: one tensor at a time, and the old format.
template <bool sliced>
void restore_one(Context& ctx) {
  const std::string& name = text(ctx, 1, "tensor_name");
  const std::string spec = sliced ? text(ctx, 2, "shape_and_slice") : "";
  ctx.set_output(0, std::move(read_tensors(text(ctx, 0, "file_pattern"), {{name, spec, ctx.output_dtype(0)}})[0]));
}

template <bool sliced>
void save_old_format(Context& ctx) {
  constexpr int first = sliced ? 3 : 2;
  const int count = ctx.num_inputs() - first;
  check_names(ctx, count, sliced);
  OldFormatWriter writer(text(ctx, 0, "filename"));
  for (int i = 0; i < count; ++i) {
    const Tensor& value = ctx.input(first + i);
    const std::string spec = sliced ? ctx.input(2).strings()[i] : "";
    const ShapeAndSlice whole{value.shape(), {std::vector<TensorSlice::Extent>(static_cast<size_t>(value.rank()))}};
    writer.add(ctx.input(1).strings()[i], spec.empty() ? whole : parse_shape_and_slice(spec), value);
  }
  writer.finish();
}

struct Merge : Kernel {
  explicit Merge(const Construction& c)
      : delete_old_dirs(c.attr<bool>("delete_old_dirs", true)),
        allow_missing_files(c.attr<bool>("allow_missing_files", false)) {}
  void compute(Context& ctx) override {
    const Tensor& parts = ctx.input(0);
    require(parts.rank() == 1, "checkpoint_prefixes must be a vector, got shape ", parts.shape());
    const std::string& destination = text(ctx, 1, "destination_prefix");
    require(!destination.empty(), "destination_prefix must not be empty");
    std::vector<std::string> prefixes(parts.strings(), parts.strings() + parts.num_elements());
    require(std::find(prefixes.begin(), prefixes.end(), destination) == prefixes.end(), "destination_prefix ",
            destination, " is one of the checkpoints to merge");
    mkdir(directory_of(destination).c_str(), 0777);
    merge_bundles(prefixes, destination, allow_missing_files);
    if (!delete_old_dirs) return;
    std::set<std::string> directories;
    for (const std::string& prefix : prefixes) directories.insert(directory_of(prefix));
    // rmdir removes empty directories only.
    for (const std::string& directory : directories) {
      if (directory != directory_of(destination)) rmdir(directory.c_str());
    }
  }
  bool delete_old_dirs, allow_missing_files;
};

void sharded_filename(Context& ctx) {
  int32_t shard = ctx.input(1).item<int32_t>(), shards = ctx.input(2).item<int32_t>();
  char suffix[48];
  std::snprintf(suffix, sizeof(suffix), "-%05d-of-%05d", shard, shards);
  ctx.set_output(0, Tensor::scalar(text(ctx, 0, "basename") + suffix));
}

void sharded_filespec(Context& ctx) {
  char suffix[48];
  std::snprintf(suffix, sizeof(suffix), "-?\?\?\?\?-of-%05d", ctx.input(1).item<int32_t>());
  ctx.set_output(0, Tensor::scalar(text(ctx, 0, "basename") + suffix));
}

REGISTER(kernel("SaveV2").function<save>());
REGISTER(kernel("RestoreV2").function<restore>());
REGISTER(kernel("Save").function<save_old_format<false>>());
REGISTER(kernel("SaveSlices").function<save_old_format<true>>());
REGISTER(kernel("Restore").function<restore_one<false>>());
REGISTER(kernel("RestoreSlice").function<restore_one<true>>());
REGISTER(kernel("MergeV2Checkpoints").make<Merge>());
REGISTER(kernel("ShardedFilename").function<sharded_filename>());
REGISTER(kernel("ShardedFilespec").function<sharded_filespec>());

}  // namespace
}  // namespace thalweg
