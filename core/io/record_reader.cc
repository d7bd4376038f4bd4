// Reading TFRecord files: in the buffer where a record fits into it, else piece by piece.
#include "io/record_reader.h"

#include <cstring>

#include "io/crc32c.h"

namespace thalweg {
namespace {

template <typename T>
T load(const char* at) {
  T out;
  std::memcpy(&out, at, sizeof(T));
  return out;
}

}  // namespace

void RecordReader::lost(uint64_t position, const char* what) {
  fail(Code::data_loss, input_.path(), "; ", what, " at ", position);
}

// Reads the header without consuming it.
bool RecordReader::read_length(uint64_t* length) {
  std::string_view header = input_.peek(kHeader);
  if (header.size() < kHeader) [[unlikely]] {
    if (header.empty()) return false;
    lost(position(), "truncated record (the file ends within its length)");
  }
  *length = load<uint64_t>(header.data());
  if (mask_crc(crc32c(header.data(), 8)) != load<uint32_t>(header.data() + 8)) [[unlikely]]
    lost(position(), "corrupted record (the checksum of its length does not match)");
  return true;
}

// Consumes the record as a view into the buffer; false if it is too large for that.
bool RecordReader::next_in_buffer(uint64_t length, std::string_view& record) {
  if (length > input_.capacity() - kHeader - kFooter) return false;
  std::string_view all = input_.peek(kHeader + static_cast<size_t>(length) + kFooter);
  if (all.size() < kHeader + length + kFooter) [[unlikely]]
    lost(position(), "truncated record");
  record = all.substr(kHeader, static_cast<size_t>(length));
  if (mask_crc(crc32c(record.data(), record.size())) != load<uint32_t>(record.data() + length)) [[unlikely]]
    lost(position(), "corrupted record (the checksum of its content does not match)");
  input_.advance(all.size());
  return true;
}

void RecordReader::next_in_pieces(uint64_t length, std::string& record) {
  const uint64_t start = position();
  const char* wrong = nullptr;
  input_.advance(kHeader);
  record.clear();
  uint32_t crc = 0;
  if (input_.append_to(record, length, [&](std::string_view piece) { crc = crc32c(piece.data(), piece.size(), crc); }) <
      length) {
    wrong = "truncated record";
  } else {
    std::string_view footer = input_.peek(kFooter);
    if (footer.size() < kFooter) {
      wrong = "truncated record";
    } else if (mask_crc(crc) != load<uint32_t>(footer.data())) {
      wrong = "corrupted record (the checksum of its content does not match)";
    }
  }
  if (wrong != nullptr) {
    std::string().swap(record);
    input_.seek(start);
    lost(start, wrong);
  }
  input_.advance(kFooter);
}

bool RecordReader::next(std::string_view& record) {
  uint64_t length;
  if (!read_length(&length)) return false;
  if (!next_in_buffer(length, record)) {
    next_in_pieces(length, large_);
    record = large_;
  }
  return true;
}

bool RecordReader::next(std::string& record) {
  uint64_t length;
  if (!read_length(&length)) return false;
  std::string_view view;
  if (next_in_buffer(length, view))
    record.assign(view);
  else
    next_in_pieces(length, record);
  return true;
}

bool RecordReader::ready() const {
  std::string_view there = input_.buffered();
  if (there.size() < kHeader) return false;
  uint64_t left = there.size() - kHeader;
  return left >= kFooter && load<uint64_t>(there.data()) <= left - kFooter;
}

}  // namespace thalweg
