// Slices: parsing, keys in the order-preserving code of TensorFlow's checkpoints, and copying boxes of elements.
#include "checkpoint/slice.h"

#include <charconv>

#include "checkpoint/proto.h"

namespace thalweg {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    out.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

int64_t whole_number(std::string_view text, std::string_view all) {
  int64_t value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && stop == text.data() + text.size() && !text.empty() && value >= 0, "'", text,
          "' is not a size in the shape and slice '", all, "', which should look like '4 2 0,2:-'");
  return value;
}

// Order-preserving codes: comparing the bytes of two codes compares their values.
void put_number(std::string& out, uint64_t value) {
  int bytes = 0;
  for (uint64_t rest = value; rest != 0; rest >>= 8) ++bytes;
  out.push_back(static_cast<char>(bytes));
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void put_string(std::string& out, std::string_view text) {
  for (char c : text) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
    if (c == '\xff') out.push_back('\0');
  }
  out.append({'\0', '\1'});
}

// Sign and length in leading ones (as many as there are bytes, inverted for negative numbers), then the number.
void put_signed(std::string& out, int64_t value) {
  uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  int length = (64 - __builtin_clzll(magnitude | 1) + (magnitude == 0 ? -1 : 0)) / 7 + 1;
  unsigned char fill = value < 0 ? 0xff : 0;
  unsigned char bytes[10] = {fill, fill};
  for (int i = 0; i < 8; ++i) bytes[9 - i] = static_cast<unsigned char>(value >> (8 * i));
  unsigned char* begin = bytes + 10 - length;
  uint16_t ones = static_cast<uint16_t>(0xffff << (16 - length));
  begin[0] ^= static_cast<unsigned char>(ones >> 8);
  if (length > 1) begin[1] ^= static_cast<unsigned char>(ones & 0xff);
  out.append(reinterpret_cast<char*>(begin), static_cast<size_t>(length));
}

}  // namespace

TensorSlice TensorSlice::within(const Shape& full) const {
  require(extents.size() == static_cast<size_t>(full.rank()), "the slice ", str(), " has ", extents.size(),
          " dimensions, the tensor has shape ", full);
  TensorSlice out = *this;
  for (int d = 0; d < full.rank(); ++d) {
    Extent& e = out.extents[d];
    if (e.length == kAll) e = {0, full[d]};
    require(e.start >= 0 && e.length >= 0 && e.start <= full[d] && e.length <= full[d] - e.start, "the slice ", str(),
            " lies outside of a tensor of shape ", full);
  }
  return out;
}

Shape TensorSlice::shape() const {
  std::vector<int64_t> dims;
  for (const Extent& e : extents) dims.push_back(e.length);
  return Shape(dims);
}

bool TensorSlice::intersect(const TensorSlice& other, TensorSlice* shared) const {
  shared->extents.clear();
  for (size_t d = 0; d < extents.size(); ++d) {
    int64_t begin = std::max(extents[d].start, other.extents[d].start);
    int64_t end = std::min(extents[d].start + extents[d].length, other.extents[d].start + other.extents[d].length);
    if (begin >= end) return false;
    shared->extents.push_back({begin, end - begin});
  }
  return true;
}

std::string TensorSlice::str() const {
  std::string out;
  for (const Extent& e : extents) {
    if (!out.empty()) out += ':';
    out += e.length == kAll ? "-" : cat(e.start, ",", e.length);
  }
  return out;
}

std::string TensorSlice::to_proto() const {
  std::string out;
  for (const Extent& e : extents) {
    std::string extent;
    if (e.length != kAll) {
      proto::put_number(extent, 1, static_cast<uint64_t>(e.start));
      // The length is in a oneof: written even if it is 0.
      proto::put_varint(extent, 2 << 3);
      proto::put_varint(extent, static_cast<uint64_t>(e.length));
    }
    proto::put_bytes(out, 1, extent);
  }
  return out;
}

TensorSlice TensorSlice::from_proto(std::string_view message, std::string_view what) {
  TensorSlice out;
  for (proto::Fields field(message, what); field.next();) {
    if (field.field != 1 || field.type != 2) continue;
    Extent extent;
    for (proto::Fields part(field.text, what); part.next();) {
      if (part.field == 1) extent.start = static_cast<int64_t>(part.number);
      if (part.field == 2) extent.length = static_cast<int64_t>(part.number);
    }
    out.extents.push_back(extent);
  }
  return out;
}

ShapeAndSlice parse_shape_and_slice(const std::string& text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::string_view slice = words.back();
  words.pop_back();
  ShapeAndSlice out;
  std::vector<int64_t> dims;
  for (std::string_view word : words) dims.push_back(whole_number(word, text));
  out.shape = Shape(dims);
  if (!(dims.empty() && slice.empty())) {
    for (std::string_view part : split(slice, ':')) {
      std::vector<std::string_view> pair = split(part, ',');
      if (part == "-") {
        out.slice.extents.emplace_back();
      } else {
        require(pair.size() == 2, "'", part, "' is not a start and a length in the shape and slice '", text, "'");
        out.slice.extents.push_back({whole_number(pair[0], text), whole_number(pair[1], text)});
      }
    }
  }
  out.slice.within(out.shape);
  return out;
}

std::string slice_key(std::string_view name, const TensorSlice& slice) {
  std::string out;
  put_number(out, 0);
  put_string(out, name);
  put_number(out, slice.extents.size());
  for (const TensorSlice::Extent& e : slice.extents) {
    put_signed(out, e.start);
    put_signed(out, e.length);
  }
  return out;
}

void copy_box(const Tensor& from, const TensorSlice& source, Tensor& to, const TensorSlice& target,
              const TensorSlice& box) {
  int rank = static_cast<int>(box.extents.size());
  size_t width = size_of(from.dtype());
  // Rows along the last dimension are contiguous on both sides.
  int64_t row = rank == 0 ? 1 : box.extents[rank - 1].length;
  std::vector<int64_t> index(static_cast<size_t>(std::max(rank - 1, 0)), 0);
  int64_t rows = 1;
  for (int d = 0; d + 1 < rank; ++d) rows *= box.extents[d].length;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t read = 0, write = 0;
    for (int d = 0; d < rank; ++d) {
      int64_t at = box.extents[d].start + (d + 1 < rank ? index[d] : 0);
      read = read * source.extents[d].length + at - source.extents[d].start;
      write = write * target.extents[d].length + at - target.extents[d].start;
    }
    copy_elements(from.dtype(), static_cast<char*>(to.raw()) + static_cast<size_t>(write) * width,
                  static_cast<const char*>(from.raw()) + static_cast<size_t>(read) * width, row);
    for (int d = rank - 2; d >= 0 && ++index[d] == box.extents[d].length; --d) index[d] = 0;
  }
}

}  // namespace thalweg
