// The code of single ops, and running it.
#include "compute/elementwise/coded_unary.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "compute/elementwise/record_op.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

// Making the code takes as long as computing some ten thousand elements, once. Running it costs a call.
constexpr int64_t kWorthCode = 8192, kWorthRun = 64;
// Where arguments are looked at before they are computed: they stay in the first-level cache.
constexpr int64_t kNearBlock = 2048;

}  // namespace

const UnaryCode::Made& UnaryCode::make(DType dtype) const {
  static std::mutex mutex;
  static std::map<std::pair<std::string, DType>, Made> all;
  const code::Vectors vectors = best_vectors();
  std::lock_guard lock(mutex);
  const auto [found, is_new] = all.try_emplace({source_.op, dtype}, Made{dtype, nullptr});
  if (is_new) {
    const ElementwiseCode::Op one{source_.op, {0, -1, -1}, dtype, source_.record};
    const char scalar[] = {0, 0};
    found->second.code = ElementwiseCode::compile(std::span(&dtype, 1), std::span(&one, 1), scalar, vectors);
  }
  return found->second;
}

const ElementwiseCode* UnaryCode::code_for(DType dtype, int64_t n) {
  if (n < kWorthRun) return nullptr;
  const Made* made = made_.load(std::memory_order_acquire);
  if (made == nullptr) {
    if (num_computed_.fetch_add(n, std::memory_order_relaxed) + n < kWorthCode || !lane_type(dtype).known)
      return nullptr;
    made = &make(dtype);
    made_.store(made, std::memory_order_release);
  }
  return made->dtype == dtype ? made->code.get() : nullptr;
}

bool UnaryCode::compute(Context& ctx, const UnaryLoop& loop) {
  const Tensor& in = ctx.input(0);
  const int64_t n = in.num_elements();
  const DType dtype = in.dtype();
  if (ctx.output_dtype(0) != dtype) return false;
  const ElementwiseCode* const code = code_for(dtype, n);
  if (code == nullptr) return false;
  // Where the output takes over the input's memory, each block is read before it is written.
  const auto* from = static_cast<const char*>(in.raw());
  Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
  auto* to = static_cast<char*>(out.raw());
  const auto size = static_cast<int64_t>(size_of(dtype));
  parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
    const int64_t step = source_.all_near == nullptr ? end - begin : kNearBlock;
    for (; begin < end; begin += step) {
      const int64_t count = std::min(step, end - begin);
      const void* const input = from + begin * size;
      if (source_.all_near == nullptr || source_.all_near(dtype, input, count))
        code->run(&input, nullptr, to + begin * size, count);
      else
        loop(input, to + begin * size, count);
    }
  });
  return true;
}

}  // namespace thalweg
