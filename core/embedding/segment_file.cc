// Segment files: writing, reading, merging.
#include "embedding/segment_file.h"

#include <unordered_set>

#include "io/crc32c.h"

namespace thalweg::embedding {
namespace {

// The last character is the version: in the first, slots had neither kinds nor clocks.
constexpr std::string_view kMagic = "THWROWS2", kFirstMagic = "THWROWS1";
constexpr size_t kBlock = 1 << 20;
// Records merged between two rests.
constexpr int64_t kRecordsAtOnce = 256;
// No block that a writer makes is larger; a length beyond it is damage.
constexpr uint32_t kLargestBlock = 1u << 31;

template <typename T>
void put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename T>
bool take(std::string_view* from, T* value) {
  if (from->size() < sizeof(T)) return false;
  std::memcpy(value, from->data(), sizeof(T));
  from->remove_prefix(sizeof(T));
  return true;
}
bool take(std::string_view* from, size_t size, std::string_view* value) {
  if (from->size() < size) return false;
  *value = from->substr(0, size);
  from->remove_prefix(size);
  return true;
}

std::string encoded(const SegmentHeader& header) {
  std::string out;
  put<uint8_t>(&out, header.key == DType::string ? 1 : 0);
  put<uint8_t>(&out, static_cast<uint8_t>(header.precision));
  put<uint8_t>(&out, header.full ? 1 : 0);
  put<int64_t>(&out, header.dim);
  put<uint32_t>(&out, header.step);
  put<uint32_t>(&out, static_cast<uint32_t>(header.slots.size()));
  for (const Slot& slot : header.slots) {
    put<uint32_t>(&out, static_cast<uint32_t>(slot.name.size()));
    out += slot.name;
    put<float>(&out, slot.initial);
    put<uint8_t>(&out, static_cast<uint8_t>(slot.kind));
    put<double>(&out, slot.clock);
  }
  return out;
}

bool decode(std::string_view from, bool first_version, SegmentHeader* out) {
  uint8_t text, precision, full;
  uint32_t slots;
  if (!take(&from, &text) || !take(&from, &precision) || !take(&from, &full) || !take(&from, &out->dim) ||
      !take(&from, &out->step) || !take(&from, &slots) || precision > 2 || out->dim <= 0 || out->dim > (1 << 24) ||
      slots > 1000)
    return false;
  out->key = text != 0 ? DType::string : DType::int64;
  out->precision = static_cast<Precision>(precision);
  out->full = full != 0;
  for (uint32_t i = 0; i < slots; ++i) {
    uint32_t size;
    std::string_view name;
    float initial;
    uint8_t kind = 0;
    double clock = 0;
    if (!take(&from, &size) || !take(&from, size, &name) || !take(&from, &initial)) return false;
    if (!first_version && (!take(&from, &kind) || !take(&from, &clock) || kind > 2)) return false;
    out->slots.push_back({std::string(name), initial, static_cast<Slot::Kind>(kind), false, clock});
  }
  return from.empty();
}

}  // namespace

RowLayout SegmentHeader::layout() const {
  Options options;
  options.dim = dim;
  options.precision = precision;
  RowLayout out(options);
  for (const Slot& slot : slots) out.add_slot(slot);
  return out;
}

bool SegmentHeader::same_form(const SegmentHeader& other) const {
  bool same =
      key == other.key && dim == other.dim && precision == other.precision && slots.size() == other.slots.size();
  for (size_t i = 0; same && i < slots.size(); ++i)
    same = slots[i].name == other.slots[i].name && slots[i].kind == other.slots[i].kind;
  return same;
}

SegmentWriter::SegmentWriter(std::string path, const SegmentHeader& header)
    : path_(std::move(path)), file_(path_, false) {
  std::string start(kMagic), body = encoded(header);
  put<uint32_t>(&start, static_cast<uint32_t>(body.size()));
  put<uint32_t>(&start, mask_crc(crc32c(body.data(), body.size())));
  start += body;
  file_.append(start.data(), start.size());
}

void SegmentWriter::add(char kind, std::string_view records, int64_t count) {
  if (count == 0) return;
  (kind == 'R' ? rows_ : removed_) += count;
  block(kind, records, static_cast<uint32_t>(count));
}

void SegmentWriter::block(char kind, std::string_view bytes, uint32_t count) {
  require(bytes.size() < kLargestBlock, "a block of ", bytes.size(), " bytes of rows is too large");
  std::string head(1, kind);
  put<uint32_t>(&head, count);
  put<uint32_t>(&head, static_cast<uint32_t>(bytes.size()));
  put<uint32_t>(&head, mask_crc(crc32c(bytes.data(), bytes.size(), crc32c(head.data(), head.size()))));
  file_.append(head.data(), head.size());
  file_.append(bytes.data(), bytes.size());
}

int64_t SegmentWriter::finish() {
  std::string totals;
  put<int64_t>(&totals, rows_);
  put<int64_t>(&totals, removed_);
  block('E', totals, 0);
  file_.sync();
  const auto size = static_cast<int64_t>(file_.size());
  file_.rename_to(path_);
  sync_directory(directory_of(path_));
  return size;
}

SegmentReader::SegmentReader(const std::string& path) : file_(path) {
  char magic[8];
  uint32_t size, crc;
  read(magic, sizeof(magic));
  const std::string_view begin(magic, sizeof(magic));
  if (begin != kMagic && begin != kFirstMagic) damaged("it does not begin like a file with rows");
  read(&size, sizeof(size));
  read(&crc, sizeof(crc));
  if (size > file_.size()) damaged("its header is longer than the file");
  std::string body(size, '\0');
  read(body.data(), size);
  if (unmask_crc(crc) != crc32c(body.data(), body.size())) damaged("the checksum of its header does not fit");
  if (!decode(body, begin == kFirstMagic, &header_)) damaged("its header makes no sense");
  payload_ = header_.layout().payload_bytes();
}

void SegmentReader::damaged(const char* what) const {
  fail(Code::data_loss, "the rows of an embedding table in ", file_.path(), " are damaged: ", what);
}

void SegmentReader::read(void* to, size_t bytes) {
  int result = file_.read(to, bytes, at_);
  if (result == -1) damaged("the file ends too early");
  if (result != 0) fail_with_errno(result, "read", file_.path());
  at_ += bytes;
}

bool SegmentReader::next_block() {
  char head[9];
  uint32_t size, crc;
  read(head, sizeof(head));
  read(&crc, sizeof(crc));
  kind_ = head[0];
  std::memcpy(&left_, head + 1, 4);
  std::memcpy(&size, head + 5, 4);
  if (size > file_.size() - at_) damaged("a block is longer than the file");
  block_.resize(size);
  read(block_.data(), size);
  if (unmask_crc(crc) != crc32c(block_.data(), size, crc32c(head, sizeof(head))))
    damaged("the checksum of a block does not fit");
  rest_ = block_;
  if (kind_ == 'R' || kind_ == 'D') return true;
  int64_t rows = -1, removed = -1;
  if (kind_ != 'E' || !take(&rest_, &rows) || !take(&rest_, &removed)) damaged("a block is of an unknown kind");
  if (rows != rows_ || removed != removed_) damaged("records are missing");
  done_ = true;
  return false;
}

bool SegmentReader::next(Record* record) {
  while (left_ == 0) {
    if (done_ || !next_block()) return false;
  }
  --left_;
  const char* begin = rest_.data();
  bool whole = true;
  if (header_.key == DType::string) {
    uint32_t size = 0;
    std::string_view text;
    whole = take(&rest_, &size) && take(&rest_, size, &text);
    record->key = key_of(text);
  } else {
    int64_t number = 0;
    whole = take(&rest_, &number);
    record->key = key_of(number);
  }
  record->key_bytes = {begin, static_cast<size_t>(rest_.data() - begin)};
  record->removed = kind_ == 'D';
  ++(record->removed ? removed_ : rows_);
  if (!record->removed)
    whole = whole && take(&rest_, &record->step) && take(&rest_, &record->count) &&
            take(&rest_, payload_, &record->payload);
  if (!whole) damaged("a record is cut short");
  record->bytes = {begin, static_cast<size_t>(rest_.data() - begin)};
  return true;
}

int64_t merge_segments(std::span<const std::string> paths, const std::string& path, const std::function<void()>& rest) {
  SegmentHeader header = SegmentReader(paths.back()).header();
  header.full = true;
  SegmentWriter writer(path, header);
  std::unordered_set<std::string> seen;
  std::string buffer;
  int64_t count = 0;
  for (size_t i = paths.size(); i-- > 0;) {
    SegmentReader reader(paths[i]);
    if (!reader.header().same_form(header))
      fail(Code::data_loss, "the segments ", paths[i], " and ", paths.back(), " have rows of different forms");
    // Within a segment removals come first, but its rows are newer than they are.
    std::vector<std::string> removed;
    Record record;
    for (int64_t visited = 1; reader.next(&record); ++visited) {
      if (visited % kRecordsAtOnce == 0) rest();
      if (record.removed) {
        removed.emplace_back(record.key_bytes);
        continue;
      }
      std::string key(record.key_bytes);
      if (seen.contains(key)) continue;
      buffer += record.bytes;
      ++count;
      if (i > 0) seen.insert(std::move(key));
      if (buffer.size() < kBlock) continue;
      writer.add_rows(buffer, count);
      buffer.clear();
      count = 0;
    }
    seen.insert(removed.begin(), removed.end());
  }
  writer.add_rows(buffer, count);
  writer.finish();
  return writer.rows();
}

}  // namespace thalweg::embedding
