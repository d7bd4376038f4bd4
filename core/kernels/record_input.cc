// RecordInput: batches of records from files, without end, in an order that is shuffled anew in each pass.
//
// Records wait in a buffer, from which a batch takes some at random; the buffer is refilled from several files at once,
// round robin. Each pass over the files has an order of its own, and starts at another of them if a shift is asked for.
// The node keeps its place between steps; steps that run at once get batches one after the other.
#include <glob.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "executor/step.h"
#include "io/compression.h"
#include "io/record_reader.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

std::vector<std::string> files_matching(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

struct RecordInput : Kernel {
  explicit RecordInput(const Construction& c)
      : pattern(c.attr<std::string>("file_pattern")),
        compression(compression_from_name(c.attr<std::string>("compression_type", ""))),
        batch(c.attr<int64_t>("batch_size", 32)),
        capacity(c.attr<int64_t>("file_buffer_size", 10000)),
        parallelism(c.attr<int64_t>("file_parallelism", 16)),
        shift(c.attr<double>("file_shuffle_shift_ratio", 0.0)),
        random(static_cast<uint64_t>(c.attr<int64_t>("file_random_seed", 301))) {
    require(batch > 0 && batch <= kMost, "batch_size must be in [1, ", kMost, "], got ", batch);
    require(capacity > 0, "file_buffer_size must be positive, got ", capacity);
    require(parallelism > 0, "file_parallelism must be positive, got ", parallelism);
    require(shift >= 0 && shift <= 1, "file_shuffle_shift_ratio must be in [0, 1], got ", shift);
  }

  void compute(Context& ctx) override {
    Tensor& out = ctx.allocate(0, Shape{batch});
    std::lock_guard lock(mutex);
    for (int64_t i = 0; i < batch; ++i) {
      if ((i & 1023) == 1023 && ctx.step().interrupted()) fail(Code::cancelled, "the step has ended");
      fill();
      std::swap(buffer[random() % buffer.size()], buffer.back());
      out.strings()[i] = std::move(buffer.back());
      buffer.pop_back();
    }
  }

  // Fills the buffer up, at most to the end of a pass over the files.
  void fill() {
    while (static_cast<int64_t>(buffer.size()) < capacity) {
      if (open.empty() && next_file == files.size()) {
        if (!buffer.empty()) return;  // The next pass begins when the records of this one are taken.
        begin_pass();
      }
      while (static_cast<int64_t>(open.size()) < parallelism && next_file < files.size())
        open.push_back(std::make_unique<RecordReader>(files[next_file++], compression));
      turn = turn < open.size() ? turn : 0;
      std::string record;
      if (open[turn]->next(record)) {
        buffer.push_back(std::move(record));
        ++records;
        ++turn;
      } else {
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(turn));
      }
    }
  }

  void begin_pass() {
    require(files.empty() || records > 0, "the files at ", pattern, " hold no records");
    files = files_matching(pattern);
    if (files.empty()) fail(Code::not_found, "Found no files at ", pattern);
    std::shuffle(files.begin(), files.end(), random);
    auto by = static_cast<size_t>(shift * static_cast<double>(passes++ * files.size())) % files.size();
    std::rotate(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(by), files.end());
    next_file = 0;
    records = 0;
  }

  static constexpr int64_t kMost = int64_t{1} << 24;
  const std::string pattern;
  const Compression compression;
  const int64_t batch, capacity, parallelism;
  const double shift;

  std::mutex mutex;  // guards the rest
  std::mt19937_64 random;
  std::vector<std::string> files;
  size_t next_file = 0, turn = 0, passes = 0;
  int64_t records = 0;  // of this pass
  std::vector<std::unique_ptr<RecordReader>> open;
  std::vector<std::string> buffer;
};

REGISTER(kernel("RecordInput").make<RecordInput>());

}  // namespace
}  // namespace thalweg
