// Writing and reading sorted tables.
#include "checkpoint/table.h"

#include <algorithm>

#include "checkpoint/proto.h"
#include "io/crc32c.h"

namespace thalweg {
namespace {

constexpr size_t kBlockSize = 256 * 1024;
constexpr size_t kTrailer = 5;  // One byte for the compression, four for the checksum.
constexpr size_t kFooter = 48;
constexpr uint64_t kMagic = 0xdb4775248b80fb57u;

size_t common_prefix(std::string_view a, std::string_view b) {
  size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

// A short key that is at least `key`, and less than `next`.
std::string separator(const std::string& key, std::string_view next) {
  size_t at = common_prefix(key, next);
  if (at == key.size() || at == next.size()) return key;
  auto byte = static_cast<unsigned char>(key[at]);
  if (byte == 0xff || byte + 1 >= static_cast<unsigned char>(next[at])) return key;
  std::string out = key.substr(0, at + 1);
  out[at] = static_cast<char>(byte + 1);
  return out;
}

// A short key that is at least `key`.
std::string successor(const std::string& key) {
  for (size_t i = 0; i < key.size(); ++i) {
    auto byte = static_cast<unsigned char>(key[i]);
    if (byte == 0xff) continue;
    std::string out = key.substr(0, i + 1);
    out[i] = static_cast<char>(byte + 1);
    return out;
  }
  return key;
}

}  // namespace

void TableWriter::Block::add(std::string_view key, std::string_view value) {
  size_t shared = 0;
  if (since_restart == interval) {
    restarts.push_back(static_cast<uint32_t>(bytes.size()));
    since_restart = 0;
  } else {
    shared = common_prefix(last_key, key);
  }
  proto::put_varint(bytes, shared);
  proto::put_varint(bytes, key.size() - shared);
  proto::put_varint(bytes, value.size());
  bytes.append(key.substr(shared));
  bytes.append(value);
  last_key = key;
  ++since_restart;
}

std::string TableWriter::Block::finish() {
  std::string out = std::move(bytes);
  for (uint32_t restart : restarts) proto::put_fixed32(out, restart);
  proto::put_fixed32(out, static_cast<uint32_t>(restarts.size()));
  *this = Block(interval);
  return out;
}

std::string TableWriter::append_block(std::string contents) {
  std::string handle;
  proto::put_varint(handle, file_.size());
  proto::put_varint(handle, contents.size());
  contents.push_back(0);  // Not compressed.
  file_.append(contents);
  proto::put_fixed32(file_, mask_crc(crc32c(contents.data(), contents.size())));
  return handle;
}

void TableWriter::flush() {
  if (!data_.empty()) pending_handle_ = append_block(data_.finish());
}

void TableWriter::add(std::string_view key, std::string_view value) {
  if (!pending_handle_.empty()) {
    index_.add(separator(last_key_, key), pending_handle_);
    pending_handle_.clear();
  }
  last_key_ = key;
  data_.add(key, value);
  if (data_.size() >= kBlockSize) flush();
}

std::string TableWriter::finish() {
  flush();
  std::string footer = append_block(Block(16).finish());
  if (!pending_handle_.empty()) index_.add(successor(last_key_), pending_handle_);
  footer += append_block(index_.finish());
  footer.resize(kFooter - 8);
  proto::put_fixed64(footer, kMagic);
  return file_ + footer;
}

namespace {

struct Handle {
  uint64_t offset;
  uint64_t size;
};

Handle read_handle(proto::Reader& reader) {
  uint64_t offset = reader.varint();
  return {offset, reader.varint()};
}

// The entries of a block, once its checksum is found right.
template <typename Visit>
void read_block(std::string_view file, Handle handle, const std::string& name, const Visit& visit) {
  proto::Reader whole(file, name);
  if (handle.offset > file.size() || handle.size > file.size() - handle.offset ||
      kTrailer > file.size() - handle.offset - handle.size)
    whole.bad("a block that lies beyond the end of the file");
  std::string_view stored = file.substr(handle.offset, handle.size + kTrailer);
  proto::Reader trailer(stored.substr(handle.size + 1), name);
  if (unmask_crc(trailer.fixed32()) != crc32c(stored.data(), handle.size + 1))
    fail(Code::data_loss, "block checksum mismatch in ", name, " at offset ", handle.offset);
  if (stored[handle.size] != 0)
    fail(Code::unimplemented, name, " has a compressed block (kind ", static_cast<int>(stored[handle.size]),
         "); tables are read without compression only");
  std::string_view contents = stored.substr(0, handle.size);
  if (contents.size() < 4) whole.bad("a block without restarts");
  uint64_t restarts = proto::Reader(contents.substr(contents.size() - 4), name).fixed32();
  if (restarts > (contents.size() - 4) / 4) whole.bad("more restarts than a block has room for");
  proto::Reader reader(contents.substr(0, contents.size() - 4 - 4 * restarts), name);
  std::string key;
  while (!reader.done()) {
    uint64_t shared = reader.varint(), rest = reader.varint(), size = reader.varint();
    if (shared > key.size()) reader.bad("a key that shares more than the one before has");
    key.resize(shared);
    key.append(reader.bytes(rest));
    visit(key, reader.bytes(size));
  }
}

}  // namespace

Table::Table(std::string file, const std::string& name) : file_(std::move(file)) {
  if (file_.size() < kFooter)
    fail(Code::data_loss, name, " is too short for a table: it has ", file_.size(), " bytes, a footer has ", kFooter);
  std::string_view bytes(file_);
  proto::Reader footer(bytes.substr(bytes.size() - kFooter), name);
  proto::Reader handles(footer.bytes(kFooter - 8), name);
  uint64_t magic = 0;
  std::memcpy(&magic, footer.bytes(8).data(), 8);
  if (magic != kMagic)
    fail(Code::data_loss, name, " is not a table (bad magic number): it is a file of another kind, or cut off");
  Handle metaindex = read_handle(handles);
  Handle index = read_handle(handles);
  if (handles.rest().find_first_not_of('\0') != std::string_view::npos) handles.bad("a damaged footer");
  // The footer has no checksum of its own: its handles must be those of the last two blocks.
  if (index.offset != metaindex.offset + metaindex.size + kTrailer ||
      index.offset + index.size + kTrailer + kFooter != bytes.size())
    handles.bad("a damaged footer");
  read_block(bytes, metaindex, name, [](const std::string&, std::string_view) {});
  read_block(bytes, index, name, [&](const std::string&, std::string_view value) {
    proto::Reader reader(value, name);
    read_block(bytes, read_handle(reader), name, [&](const std::string& key, std::string_view row) {
      if (!rows_.empty() && key <= rows_.back().first) reader.bad("keys that are out of order");
      rows_.emplace_back(key, row);
    });
  });
}

std::string_view Table::find(std::string_view key) const {
  auto found = std::lower_bound(rows_.begin(), rows_.end(), key,
                                [](const auto& row, std::string_view k) { return row.first < k; });
  return found != rows_.end() && found->first == key ? found->second : std::string_view{};
}

}  // namespace thalweg
