// How each kind of reader opens its files and names its records.
#include "resource/file_readers.h"

#include "io/whole_file.h"

namespace thalweg {
namespace {

std::string key_of(const std::string& path, uint64_t number) { return path + ":" + std::to_string(number); }

}  // namespace

void WholeFileReader::open(const std::string& work) {
  path_ = work;
  content_ = read_whole_file(work);
}

bool WholeFileReader::next(std::string& key, std::string& value) {
  value = std::move(content_);
  key = path_;
  return true;
}

void TextLineReader::open(const std::string& work) {
  lines_.emplace(work);
  std::string_view skipped;
  for (number_ = 0; number_ < skip_header_lines_ && lines_->next(skipped); ++number_) {
  }
}

bool TextLineReader::next(std::string& key, std::string& value) {
  if (!lines_->next(value)) return false;
  key = key_of(lines_->path(), static_cast<uint64_t>(++number_));
  return true;
}

void FixedLengthRecordReader::open(const std::string& work) {
  records_.emplace(work, format_, compression_);
  number_ = 0;
}

bool FixedLengthRecordReader::next(std::string& key, std::string& value) {
  if (!records_->next(value)) return false;
  key = key_of(records_->path(), static_cast<uint64_t>(number_++));
  return true;
}

bool TFRecordReader::next(std::string& key, std::string& value) {
  uint64_t offset = records_->position();
  if (!records_->next(value)) return false;
  key = key_of(records_->path(), offset);
  return true;
}

}  // namespace thalweg
