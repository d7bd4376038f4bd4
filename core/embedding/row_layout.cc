// Rows as bytes: reading and writing values in each precision, and the first values of rows.
#include "embedding/row_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "random/distributions.h"
#include "tensor/reduced_floats.h"

namespace thalweg::embedding {

int RowLayout::find_slot(std::string_view name) const {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].name == name) return static_cast<int>(i);
  return -1;
}

void RowLayout::decode(const char* value, float* out) const {
  if (precision_ == Precision::float32) {
    std::memcpy(out, value, static_cast<size_t>(dim_) * 4);
  } else if (precision_ == Precision::bfloat16) {
    widen_row(reinterpret_cast<const bfloat16*>(value), out, dim_);
  } else {
    float scale;
    std::memcpy(&scale, value, 4);
    const auto* from = reinterpret_cast<const int8_t*>(value + 4);
    for (int64_t i = 0; i < dim_; ++i) out[i] = static_cast<float>(from[i]) * scale;
  }
}

void RowLayout::encode(const float* from, char* value, uint64_t random) const {
  if (precision_ == Precision::float32) {
    std::memcpy(value, from, static_cast<size_t>(dim_) * 4);
    return;
  }
  if (precision_ == Precision::bfloat16) {
    narrow_row(from, reinterpret_cast<bfloat16*>(value), dim_);
    return;
  }
  float largest = 0;
  for (int64_t i = 0; i < dim_; ++i) largest = std::max(largest, std::abs(from[i]));
  // A value that is not finite makes the scale so too: it shows in the row instead of becoming some number.
  float scale = largest / 127.0f;
  for (int64_t i = 0; i < dim_; ++i)
    if (!std::isfinite(from[i])) scale = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(value, &scale, 4);
  auto* to = reinterpret_cast<int8_t*>(value + 4);
  if (!(scale > 0) || !std::isfinite(scale)) {
    std::fill(to, to + dim_, static_cast<int8_t>(std::isnan(scale) ? 1 : 0));
    return;
  }
  for (int64_t i = 0; i < dim_; ++i) {
    random = random * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    float up = static_cast<float>(random >> 40) * 0x1p-24f;
    float units = std::floor(from[i] / scale + up);
    to[i] = static_cast<int8_t>(std::clamp(units, -127.0f, 127.0f));
  }
}

void RowLayout::add_slot(Slot slot) {
  if (slot.kind == Slot::Kind::average) averages_.push_back(static_cast<int>(slots_.size()));
  slots_.push_back(std::move(slot));
  offsets_.push_back(offsets_.back() + width(static_cast<int>(slots_.size()) - 1));
}

void RowLayout::keep_slots(size_t count) {
  slots_.resize(count);
  offsets_.resize(count + 1);
  std::erase_if(averages_, [&](int slot) { return slot >= static_cast<int>(count); });
}

void RowLayout::set_initial(int slot, float initial) {
  slots_[static_cast<size_t>(slot)].initial = initial;
  slots_[static_cast<size_t>(slot)].provisional = false;
}

void RowLayout::initialize_slots(char* row, size_t from) const {
  for (size_t i = from; i < slots_.size(); ++i) {
    float* to = slot(row, static_cast<int>(i));
    if (slots_[i].kind == Slot::Kind::average)
      decode(value(row), to);
    else
      std::fill_n(to, width(static_cast<int>(i)), slots_[i].initial);
  }
}

void RowLayout::average(const char* row, int number, double now, float* out) const {
  double then;
  std::memcpy(&then, slot(row, number + 1), sizeof(then));
  const auto weight = static_cast<float>(std::exp(std::min(now - then, 0.0)));
  const float* average = slot(row, number);
  decode(value(row), out);
  for (int64_t i = 0; i < dim_; ++i) out[i] += weight * (average[i] - out[i]);
}

void RowLayout::settle(char* row, int number, double now) const {
  double then;
  std::memcpy(&then, slot(row, number + 1), sizeof(then));
  if (then == now) return;
  thread_local std::vector<float> settled;
  settled.resize(static_cast<size_t>(dim_));
  average(row, number, now, settled.data());
  std::copy(settled.begin(), settled.end(), slot(row, number));
  std::memcpy(slot(row, number + 1), &now, sizeof(now));
}

void first_value(const FirstValue& first, uint64_t id, float* out, int64_t n) {
  if (first.kind == FirstValue::Kind::constant) {
    std::fill(out, out + n, first.a);
    return;
  }
  Philox generator(first.seed, id);
  PhiloxWords words(generator);
  for (int64_t i = 0; i < n; i += 4) {
    float block[4];
    if (first.kind == FirstValue::Kind::truncated_normal)
      TruncatedNormal<float>{}(words, block);
    else if (first.kind == FirstValue::Kind::normal)
      Normal<float>{}(generator.next(), block);
    else
      UniformReal<float>{}(generator.next(), block);
    for (int64_t k = i; k < std::min(n, i + 4); ++k)
      out[k] = first.kind == FirstValue::Kind::uniform ? first.a + block[k - i] * (first.b - first.a)
                                                       : first.a + block[k - i] * first.b;
  }
}

}  // namespace thalweg::embedding
