// Looking for NaN and infinity.
#include "executor/numeric_check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <tuple>

#include "thread/parallel.h"

namespace thalweg {
namespace {

using Checked = Join<Floats, Complexes>;

bool is_checked(DType dtype) {
  bool found = false;
  [&]<DType... Ds>(Types<Ds...>) { found = ((dtype == Ds) || ...); }(Checked{});
  return found;
}

// Only nodes made by passes are fused; comparing the name first is cheaper than a cast.
DivisibleKernel* divisible_kernel(const NodeDef& node, Kernel* kernel) {
  return node.op.starts_with('_') ? dynamic_cast<DivisibleKernel*>(kernel) : nullptr;
}

// Whether all exponents are below the one of NaN and infinity. Four vectors at a time, as fast as the cache gives them.
template <typename Bits>
bool all_finite(const Bits* bits, int64_t count, Bits exponent) {
  typedef Bits Vector __attribute__((vector_size(32), aligned(sizeof(Bits)), may_alias));
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(Bits);
  const auto at = [=](int64_t i) { return (*reinterpret_cast<const Vector*>(bits + i) & exponent) == exponent; };
  decltype(at(0)) a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    a |= at(i);
    b |= at(i + kLanes);
    c |= at(i + 2 * kLanes);
    d |= at(i + 3 * kLanes);
  }
  const auto all = a | b | c | d;
  bool any = false;
  for (int64_t k = 0; k < kLanes; ++k) any |= all[k] != 0;
  for (; i < count; ++i) any |= (bits[i] & exponent) == exponent;
  return !any;
}

template <typename Bits>
bool all_finite(const void* data, int64_t count, Bits exponent) {
  constexpr int64_t kGrain = 64 * 1024;
  const Bits* bits = static_cast<const Bits*>(data);
  if (count <= kGrain) return all_finite(bits, count, exponent);
  std::atomic<bool> all = true;
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    if (!all_finite(bits + begin, end - begin, exponent)) all = false;
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

// Steps whose results are infinite on purpose (a mask of -infinity) come here every time, so the loop vectorizes, too.
template <typename T>
std::pair<int64_t, int64_t> count_nans_and_infinities(const T* data, int64_t count) {
  int64_t nans = 0, infinities = 0;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (is_complex<T>) {
      nans += std::isnan(data[i].real()) || std::isnan(data[i].imag());
      infinities += std::isinf(data[i].real()) || std::isinf(data[i].imag());
    } else {
      const auto value = static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(data[i]);
      nans += value != value;
      infinities += std::abs(value) == std::numeric_limits<decltype(value)>::infinity();
    }
  }
  return {nans, infinities};
}

std::string describe(const Tensor& t) {
  int64_t nans = 0, infinities = 0;
  dispatch(t.dtype(), Checked{}, [&]<typename T>() {
    std::tie(nans, infinities) = count_nans_and_infinities(t.flat<T>(), t.num_elements());
  });
  std::string what;
  if (nans) what = cat(nans, " NaN");
  if (infinities) what += cat(nans ? ", " : "", infinities, " infinite");
  return cat(t.dtype(), t.shape(), ": ", what, " of ", t.num_elements(), " elements");
}

// Whether the tensor can be checked: the host cannot read a device's own memory.
bool is_looked_at(const Tensor& t) {
  return t.defined() && is_checked(t.dtype()) && t.num_elements() > 0 && !t.on_device();
}

bool is_bad(const Tensor& t) { return is_looked_at(t) && !is_finite(t); }

}  // namespace

void NumericCheck::fed(const Tensor& value) {
  if (is_bad(value)) fed_.insert(value.raw());
}

void NumericCheck::received(const Tensor& value) {
  if (is_bad(value)) not_finite_.insert(value.raw());
}

NumericCheck::Inputs NumericCheck::before(const NodeDef& node, Kernel* kernel, const Tensor* inputs) {
  Inputs out;
  out.findings = findings_.size();
  const bool divisible = divisible_kernel(node, kernel) != nullptr;
  out.held.resize(node.input_dtypes.size());
  for (size_t i = 0; i < out.held.size(); ++i) {
    const Tensor& t = inputs[i];
    if (!is_looked_at(t)) {
      if (divisible) out.held[i] = t;
      continue;
    }
    out.finite &= !not_finite_.contains(t.raw());
    // The output of another node with this one as its only reader may be overwritten: it has been checked.
    if (divisible || !t.writable() || fed_.contains(t.raw()) || reads_.contains(t.raw())) out.held[i] = t;
  }
  return out;
}

void NumericCheck::after(const NodeDef& node, Kernel* kernel, Context* ctx, Inputs inputs, const Tensor* outputs) {
  const size_t count = node.output_dtypes.size();
  if (node.op == "ReadVariableOp") {
    if (!is_looked_at(outputs[0])) return;
    forget(outputs[0].raw());
    reads_[outputs[0].raw()] = &node;
    return;
  }
  size_t first = 0;
  while (first < count && !is_bad(outputs[first])) ++first;
  if (first < count) {
    // Nodes that ran within this one, of a loop or a function, have been checked.
    const bool within = ctx != nullptr && findings_.size() > inputs.findings;
    const bool made_here = !within && were_finite(node, inputs);
    // One op of a fused node may have finite inputs although others have not.
    if (!look_at_parts(node, kernel, ctx, inputs) && made_here)
      note(node, cat("output ", first, ", ", describe(outputs[first])));
  }
  for (size_t i = 0; i < count; ++i) {
    if (!is_looked_at(outputs[i])) continue;
    forget(outputs[i].raw());
    if (i == first || (i > first && is_bad(outputs[i]))) not_finite_.insert(outputs[i].raw());
  }
}

void NumericCheck::note(const NodeDef& node, std::string what) {
  constexpr size_t kMost = 100;  // A loop may find the same again and again.
  if (findings_.size() < kMost) findings_.push_back({&node, std::move(what)});
}

void NumericCheck::forget(const void* elements) {
  if (!not_finite_.empty()) not_finite_.erase(elements);
  if (!fed_.empty()) fed_.erase(elements);
  if (!reads_.empty()) reads_.erase(elements);
}

bool NumericCheck::were_finite(const NodeDef& node, const Inputs& inputs) {
  if (!inputs.finite) return false;
  bool finite = true;
  for (size_t i = 0; i < inputs.held.size(); ++i) {
    const Tensor& t = inputs.held[i];
    if (!is_bad(t)) continue;
    finite = false;
    auto read = reads_.find(t.raw());
    if (read != reads_.end())
      note(*read->second, cat("output 0, ", describe(t)));
    else
      note(node, cat("input ", i, " (fed or constant), ", describe(t)));
    forget(t.raw());
    not_finite_.insert(t.raw());
  }
  return finite;
}

bool NumericCheck::look_at_parts(const NodeDef& node, Kernel* kernel, Context* ctx, Inputs& inputs) {
  DivisibleKernel* divisible = divisible_kernel(node, kernel);
  if (divisible == nullptr || ctx == nullptr) return false;
  bool found = false;
  std::vector<Tensor> outputs(node.output_dtypes.size());
  Context again(node, ctx->device(), ctx->step(), inputs.held.data(), outputs.data(), ctx->iteration());
  divisible->compute_in_parts(again, [&](const NodeDef& part, std::span<const Tensor> read, const Tensor& made) {
    if (!is_bad(made) || std::ranges::any_of(read, is_bad)) return;
    note(part, cat("output 0, ", describe(made)));
    found = true;
  });
  return found;
}

}  // namespace thalweg
