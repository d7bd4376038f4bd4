// Reading records of one size: a record counts if the footer still fits behind it.
#include "io/fixed_length_reader.h"

namespace thalweg {

void FixedLengthFormat::check() const {
  constexpr int64_t kMost = int64_t{1} << 40;  // So that no sum overflows.
  require(record_bytes > 0 && record_bytes <= kMost, "record_bytes must be positive, got ", record_bytes);
  require(header_bytes >= 0 && header_bytes <= kMost, "header_bytes must not be negative, got ", header_bytes);
  require(footer_bytes >= 0 && footer_bytes <= kMost, "footer_bytes must not be negative, got ", footer_bytes);
  require(hop_bytes >= 0 && hop_bytes <= kMost, "hop_bytes must not be negative, got ", hop_bytes);
}

FixedLengthReader::FixedLengthReader(std::string path, const FixedLengthFormat& format, Compression compression,
                                     size_t buffer_bytes)
    : format_(format), input_(std::move(path), compression, buffer_bytes) {
  format_.check();
  position_ = static_cast<uint64_t>(format_.header_bytes);
}

bool FixedLengthReader::next(std::string_view& record) {
  if (position_ != input_.position()) {
    // Skips by reading: a seek would miss that the file ends before.
    if (position_ < input_.position()) input_.seek(position_);
    input_.skip(position_ - input_.position());
    if (position_ != input_.position()) return false;
  }
  const auto record_bytes = static_cast<size_t>(format_.record_bytes);
  const auto footer_bytes = static_cast<size_t>(format_.footer_bytes);
  std::string_view there = input_.peek(record_bytes + footer_bytes);
  if (there.size() < record_bytes + footer_bytes) {
    remainder_ = there.size() > footer_bytes ? there.size() - footer_bytes : 0;
    return false;
  }
  record = there.substr(0, record_bytes);
  // The view is of the buffer: the input moves on when the next record is asked for.
  position_ += static_cast<uint64_t>(format_.hop_bytes > 0 ? format_.hop_bytes : format_.record_bytes);
  return true;
}

bool FixedLengthReader::next(std::string& record) {
  std::string_view view;
  if (!next(view)) return false;
  record.assign(view);
  return true;
}

}  // namespace thalweg
