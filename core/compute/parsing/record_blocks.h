// RecordBlocks: a batch of strings, cut into blocks of consecutive rows that threads work on independently.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <vector>

#include "tensor/tensor.h"
#include "thread/parallel.h"

namespace thalweg {

class RecordBlocks {
 public:
  explicit RecordBlocks(const Tensor& records) : rows_(records.num_elements()) {
    // As many bytes as are worth waking another thread; and no more blocks than spread the work evenly, because the
    // columns of each block are allocated separately.
    constexpr size_t kBytes = 96 * 1024;
    size_t bytes = 0;
    for (int64_t i = 0; i < rows_; ++i) bytes += records.strings()[i].size() + sizeof(std::string);
    count_ = std::clamp<int64_t>(static_cast<int64_t>(bytes / kBytes), 1,
                                 std::clamp<int64_t>(rows_, 1, 16 * intra_op_threads()));
  }
  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  int64_t first_row(int64_t block) const { return rows_ * block / count_; }

  // Calls work(block) for all blocks, in parallel. It must not throw.
  template <typename Work>
  void for_each(const Work& work) const {
    parallel_for(count_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) work(b);
    });
  }

  // Calls read(block, row) for all rows, in order within a block; throws the failure of the first row that failed.
  template <typename Read>
  void for_each_row(const Read& read) const {
    std::vector<std::optional<Error>> failures(static_cast<size_t>(count_));
    for_each([&](int64_t block) {
      try {
        for (int64_t row = first_row(block), end = first_row(block + 1); row < end; ++row) read(block, row);
      } catch (const Error& e) {
        failures[static_cast<size_t>(block)] = e;
      } catch (const std::exception& e) {
        failures[static_cast<size_t>(block)] = Error(Code::resource_exhausted, e.what());
      }
    });
    for (const auto& failure : failures)
      if (failure) throw *failure;
  }

 private:
  int64_t rows_;
  int64_t count_;
};

}  // namespace thalweg
