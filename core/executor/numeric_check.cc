// Looking for NaN and infinity.
#include "executor/numeric_check.h"

#include <atomic>
#include <cmath>

#include "thread/parallel.h"

namespace thalweg {
namespace {

using Checked = Join<Floats, Complexes>;

bool is_checked(DType dtype) {
  bool found = false;
  [&]<DType... Ds>(Types<Ds...>) { found = ((dtype == Ds) || ...); }(Checked{});
  return found;
}

// Whether all exponents are below the one of NaN and infinity; a loop over integers, which vectorizes.
template <typename Bits>
bool all_finite(const void* data, int64_t count, Bits exponent) {
  const Bits* bits = static_cast<const Bits*>(data);
  constexpr int64_t kGrain = 32 * 1024;
  std::atomic<bool> all = true;
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
    if (found) all = false;
  });
  return all;
}

bool is_finite(const Tensor& t) {
  int64_t count = t.num_elements();
  switch (t.dtype()) {
    case DType::float16:
      return all_finite<uint16_t>(t.raw(), count, 0x7c00);
    case DType::bfloat16:
      return all_finite<uint16_t>(t.raw(), count, 0x7f80);
    case DType::float32:
      return all_finite<uint32_t>(t.raw(), count, 0x7f800000u);
    case DType::complex64:
      return all_finite<uint32_t>(t.raw(), 2 * count, 0x7f800000u);
    case DType::float64:
      return all_finite<uint64_t>(t.raw(), count, 0x7ff0000000000000ull);
    case DType::complex128:
      return all_finite<uint64_t>(t.raw(), 2 * count, 0x7ff0000000000000ull);
    default:
      return true;
  }
}

std::string describe(const Tensor& t) {
  int64_t nans = 0, infinities = 0;
  dispatch(t.dtype(), Checked{}, [&]<typename T>() {
    const T* data = t.flat<T>();
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if constexpr (is_complex<T>) {
        nans += std::isnan(data[i].real()) || std::isnan(data[i].imag());
        infinities += std::isinf(data[i].real()) || std::isinf(data[i].imag());
      } else {
        nans += std::isnan(static_cast<double>(data[i]));
        infinities += std::isinf(static_cast<double>(data[i]));
      }
    }
  });
  std::string what;
  if (nans) what = cat(nans, " NaN");
  if (infinities) what += cat(nans ? ", " : "", infinities, " infinite");
  return cat(t.dtype(), t.shape(), ": ", what, " of ", t.num_elements(), " elements");
}

}  // namespace

NumericCheck::Inputs NumericCheck::look_at_inputs(const NodeItem& node, const Tensor* inputs) {
  Inputs out;
  for (int i = 0; i < node.num_inputs; ++i) {
    const Tensor& t = inputs[i];
    if (!t.defined() || !is_checked(t.dtype()) || t.num_elements() == 0) continue;
    std::lock_guard lock(mutex_);
    auto [known, is_new] = finite_.try_emplace(t.raw(), true);
    if (is_new) known->second = is_finite(t);
    if (known->second) continue;
    out.finite = false;
    if (is_new && out.from_outside.empty()) out.from_outside = cat("input ", i, " (fed or constant), ", describe(t));
  }
  return out;
}

std::string NumericCheck::look_at_outputs(const NodeItem& node, const Tensor* outputs) {
  std::string found;
  for (int i = 0; i < node.num_outputs; ++i) {
    const Tensor& t = outputs[i];
    if (!t.defined() || !is_checked(t.dtype()) || t.num_elements() == 0) continue;
    bool finite = is_finite(t);
    if (!finite && found.empty()) found = cat("output ", i, ", ", describe(t));
    std::lock_guard lock(mutex_);
    finite_[t.raw()] = finite;
  }
  return found;
}

}  // namespace thalweg
