// Shape's checks, copies and printing.
#include "tensor/shape.h"

namespace thalweg {

void Shape::assign(std::span<const int64_t> dims) {
  require(dims.size() <= kMaxRank, "a tensor has at most ", kMaxRank, " dimensions, got ", dims.size());
  int64_t count = 1;
  bool empty = false;
  for (int64_t d : dims) {
    require(d >= 0, "dimension ", d, " of a tensor's shape is negative");
    if (d == 0) empty = true;
  }
  // The product of the non-zero dimensions must fit too: strides and flattened views are computed from it.
  for (int64_t d : dims) {
    if (d == 0) continue;
    if (__builtin_mul_overflow(count, d, &count) || count > (int64_t{1} << 58)) {
      std::string text;
      for (int64_t each : dims) text += (text.empty() ? "" : ",") + std::to_string(each);
      fail(Code::invalid_argument, "the shape [", text, "] has too many elements: their number overflows");
    }
  }
  count_ = empty ? 0 : count;
  rank_ = static_cast<int32_t>(dims.size());
  int64_t* to = inline_;
  if (rank_ > kInline) to = heap_ = new int64_t[rank_];
  for (size_t i = 0; i < dims.size(); ++i) to[i] = dims[i];
}

void Shape::copy(const Shape& other) {
  rank_ = other.rank_;
  count_ = other.count_;
  if (rank_ <= kInline) {
    std::memcpy(inline_, other.inline_, sizeof(inline_));
  } else {
    heap_ = new int64_t[rank_];
    std::memcpy(heap_, other.heap_, sizeof(int64_t) * rank_);
  }
}

Shape Shape::with_dim(int i, int64_t size) const {
  std::vector<int64_t> dims = to_vector();
  dims[i] = size;
  return Shape(dims);
}

Shape Shape::inserted(int i, int64_t size) const {
  std::vector<int64_t> dims = to_vector();
  dims.insert(dims.begin() + i, size);
  return Shape(dims);
}

Shape Shape::removed(int i) const {
  std::vector<int64_t> dims = to_vector();
  dims.erase(dims.begin() + i);
  return Shape(dims);
}

namespace {
std::string bracketed(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ",";
    out += dims[i] < 0 ? "?" : std::to_string(dims[i]);
  }
  return out + "]";
}
}  // namespace

std::string Shape::str() const { return bracketed(dims()); }

bool PartialShape::accepts(const Shape& shape) const {
  if (!known_rank) return true;
  if (static_cast<int>(dims.size()) != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (dims[i] >= 0 && dims[i] != shape[i]) return false;
  return true;
}

bool PartialShape::fully_defined() const {
  if (!known_rank) return false;
  for (int64_t d : dims)
    if (d < 0) return false;
  return true;
}

std::string PartialShape::str() const { return known_rank ? bracketed(dims) : "<unknown>"; }

}  // namespace thalweg
