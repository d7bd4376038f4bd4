// The code of single ops, and running it.
#include "compute/elementwise/coded_unary.h"

#include <map>
#include <mutex>

#include "compute/elementwise/elementwise_code.h"
#include "compute/elementwise/record_op.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

// Making the code takes as long as computing some ten thousand elements, once.
constexpr int64_t kWorthCode = 4096;

// Null if there can be none.
const ElementwiseCode* code_of(const std::string& op, DType dtype) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, DType>, std::unique_ptr<ElementwiseCode>> codes;
  std::lock_guard lock(mutex);
  const auto [found, is_new] = codes.try_emplace({op, dtype});
  if (is_new) {
    const ElementwiseCode::Op one{op, {0, -1, -1}, dtype};
    const char scalar[] = {0, 0};
    found->second = ElementwiseCode::compile(std::span(&dtype, 1), std::span(&one, 1), scalar);
  }
  return found->second.get();
}

}  // namespace

bool compute_coded(Context& ctx, const std::string& op) {
  const Tensor& in = ctx.input(0);
  const int64_t n = in.num_elements();
  const DType dtype = in.dtype();
  if (n < kWorthCode || ctx.output_dtype(0) != dtype || !lane_type(dtype).known) return false;
  const ElementwiseCode* const code = code_of(op, dtype);
  if (code == nullptr) return false;
  // Where the output takes over the input's memory, each block is read before it is written.
  const auto* from = static_cast<const char*>(in.raw());
  Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
  auto* to = static_cast<char*>(out.raw());
  const auto size = static_cast<int64_t>(size_of(dtype));
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
    const void* const input = from + begin * size;
    code->run(&input, nullptr, to + begin * size, end - begin);
  });
  return true;
}

}  // namespace thalweg
